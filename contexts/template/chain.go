package template

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// chain reads the template at p and its ancestors, from the working tree. The one asked for is first.
func chain(src seed.Source, p string) ([]*Template, error) {
	name, err := locate(src, p)
	if err != nil {
		return nil, err
	}
	var names []string
	var out []*Template
	for {
		if slices.Contains(names, name) {
			return nil, cycle(out[len(out)-1], append(names, name))
		}
		if len(out) == MaxChain {
			return nil, out[MaxChain-1].ExtendsAt.Refuse("", "more than %d templates extend one another: %s, ...", MaxChain, strings.Join(names, " -> "))
		}
		t, err := read(src, name)
		if err != nil {
			return nil, err
		}
		names, out = append(names, name), append(out, t)
		if t.Extends == "" {
			return out, nil
		}
		if name, err = parent(src, t); err != nil {
			return nil, err
		}
	}
}

func cycle(last *Template, names []string) error {
	return last.ExtendsAt.Refuse("let one of them extend nothing", "templates extend one another in a cycle: %s", strings.Join(names, " -> "))
}

// parent returns the path of the template that t extends.
func parent(src seed.Source, t *Template) (string, error) {
	p := t.Extends
	if strings.HasPrefix(p, "./") || strings.HasPrefix(p, "../") {
		p = path.Join(path.Dir(t.Name), p)
	}
	name, err := locate(src, p)
	if err != nil {
		code, text, _ := fserr.Parts(err)
		return "", t.ExtendsAt.Because(code, err,
			"name a folder with a "+FileName+", from the workspace's root or with ./ from here", "cannot extend %q: %s", t.Extends, text)
	}
	return name, nil
}

// locate returns the path of the file that p means: p itself, or the FileName in it.
func locate(src seed.Source, p string) (string, error) {
	if err := checkText(p); err != nil {
		return "", notTemplate(fserr.EINVAL, p, err.Error(), nil)
	}
	clean := path.Clean(strings.TrimLeft(p, "/") + "/.")
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", notTemplate(fserr.EACCES, p, "it leads out of the workspace", nil)
	}
	st, err := src.Root.Stat(clean)
	if err != nil {
		return "", unreadable(p, err)
	}
	if st.IsDir() {
		clean = path.Join(clean, FileName)
	} else if ext := path.Ext(clean); ext != ".yml" && ext != ".yaml" {
		return "", notTemplate(fserr.EINVAL, p, "it is neither a folder nor a .yml file", nil)
	}
	if _, err := src.Realpath(clean); err != nil {
		return "", unreadable(clean, err)
	}
	return clean, nil
}

func notTemplate(code fserr.Code, p, why string, cause error) error {
	return &fserr.Error{Code: code, Err: cause, Detail: fmt.Sprintf("no template at %.200q: %s", p, why)}
}

// unreadable returns the error that there is no template at p to read.
func unreadable(p string, err error) error {
	code, text, _ := fserr.Parts(err)
	return notTemplate(code, p, text, err)
}

// read parses one file.
func read(src seed.Source, name string) (*Template, error) {
	f, _, err := src.Root.OpenStat(name, rootfs.O_RDONLY)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return parse(name, data)
}

// Find returns the path of the template beside a panel's source, the folder of the
// workspace that its ID names. If there is none, found is false.
func Find(src seed.Source, panelID string) (name string, found bool, err error) {
	if panelID == "" {
		return "", false, nil
	}
	name, err = locate(src, panelID+"/"+FileName)
	switch fserr.CodeOf(err) {
	case 0:
		return name, true, nil
	case fserr.ENOENT, fserr.ENOTDIR, fserr.EINVAL, fserr.ELOOP, fserr.ENAMETOOLONG:
		return "", false, nil
	}
	var e *fserr.Error
	if errors.As(err, &e) {
		told := *e
		told.Hint = "name the panel's context_id, or a template, and none is looked for"
		err = &told
	}
	return "", false, err
}

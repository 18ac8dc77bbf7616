package zones

import (
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/bytesize"
	"github.com/ctxfs/ctxfs/internal/strictyaml"
)

// FileName is the name of a layout's file. It is beside the context-template.yml of a panel.
const FileName = "context-zones.yml"

// maxFile is the size of a layout's file, in bytes.
const maxFile = 64 << 10

// Find reads the layout in a folder of the workspace. found is false if there is none. Errors are EINVAL with file, line and column, or
// those of reading.
func Find(workspace rootfs.Root, folder string) (l Layout, found bool, err error) {
	if folder == "" || strings.Contains("/"+folder+"/", "/../") {
		return l, false, nil
	}
	name := path.Join(strings.TrimLeft(folder, "/"), FileName)
	f, _, err := workspace.OpenStat(name, rootfs.O_RDONLY)
	switch fserr.CodeOf(err) {
	case 0:
	case fserr.ENOENT, fserr.ENOTDIR, fserr.EINVAL, fserr.ELOOP, fserr.ENAMETOOLONG:
		return l, false, nil
	default:
		return l, false, unreadable(name, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return l, false, unreadable(name, err)
	}
	l, err = Parse(name, data)
	return l, err == nil, err
}

func unreadable(name string, err error) error {
	code, text, _ := fserr.Parts(err)
	return &fserr.Error{Code: code, Detail: "the zones in " + name + " cannot be read: " + text, Hint: "make it readable, or open the panel with zones", Err: err}
}

// Parse reads a layout. name is the file's path for positions. Every error is EINVAL (EFBIG for a file that is too large) and names the
// place.
func Parse(name string, data []byte) (Layout, error) {
	p := parser{File: strictyaml.File{Name: name, One: "a layout of zones", Many: "layouts of zones"}, at: map[string]strictyaml.Position{}}
	start := strictyaml.Position{Template: name, Line: 1, Column: 1}
	if len(data) > maxFile {
		return Layout{}, start.Because(fserr.EFBIG, nil, "", "a layout of zones has at most %d bytes", maxFile)
	}
	doc, err := p.Document(data)
	if err != nil {
		return Layout{}, err
	}
	if doc == nil {
		return Layout{}, start.Refuse("say mode and zones, or remove the file", "this layout of zones is empty")
	}
	if err := p.top(doc); err != nil {
		return Layout{}, err
	}
	if err := p.l.check(); err != nil {
		return Layout{}, p.place(p.At(doc), err)
	}
	return p.l, nil
}

// parser makes a Layout of YAML nodes.
type parser struct {
	strictyaml.File
	l Layout
	// at has the places of zones, by path.
	at map[string]strictyaml.Position
}

// place adds to what check has found the place.
func (p *parser) place(at strictyaml.Position, err error) error {
	var bad *zoneError
	if errors.As(err, &bad) {
		if where, ok := p.at[bad.path]; ok {
			at = where
		}
		return at.Refuse(bad.hint, "%s", bad.Error())
	}
	_, text, hint := fserr.Parts(err)
	return at.Refuse(hint, "%s", text)
}

func (p *parser) top(n *yaml.Node) error {
	return p.Mapping(n, "a layout of zones", "mode, zones", map[string]strictyaml.Field{
		"mode": func(_, v *yaml.Node) error {
			mode, err := p.Text(v, "mode", "sandboxed or direct")
			p.l.Mode = Mode(mode)
			if err == nil && p.l.Mode != Sandboxed && p.l.Mode != Direct {
				err = p.At(v).Refuse("", "mode must be sandboxed or direct, not %.200q", mode)
			}
			return err
		},
		"zones": func(_, v *yaml.Node) error {
			return p.Each(v, "zones", func(k, v *yaml.Node) error {
				p.at[k.Value] = p.At(k)
				z, err := p.zone(k.Value, v)
				p.l.Zones = append(p.l.Zones, z)
				return err
			})
		},
	})
}

func (p *parser) zone(name string, n *yaml.Node) (Zone, error) {
	z := Zone{Path: name}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" { // "/drafts:"
		return z, nil
	}
	err := p.Mapping(n, "a zone", "from, dir, read_only, commit, max_bytes, keep, shared", map[string]strictyaml.Field{
		"from": func(_, v *yaml.Node) (err error) {
			z.From, err = p.from(v)
			return err
		},
		"dir": func(_, v *yaml.Node) (err error) {
			z.Dir, err = p.Text(v, "dir", "a directory")
			return err
		},
		"read_only": func(_, v *yaml.Node) (err error) {
			z.ReadOnly, err = p.flag(v, "read_only")
			return err
		},
		"commit": func(_, v *yaml.Node) error {
			text, err := p.Text(v, "commit", "never")
			if err == nil && text != "never" {
				err = p.At(v).Refuse("leave it out for a zone whose files can be committed", "commit must be never, not %.200q", text)
			}
			z.NeverCommit = true
			return err
		},
		"max_bytes": func(_, v *yaml.Node) (err error) {
			z.MaxBytes, err = p.size(v)
			return err
		},
		"keep": func(_, v *yaml.Node) (err error) {
			z.Keep, err = p.duration(v)
			return err
		},
		"shared": func(_, v *yaml.Node) error {
			shared, err := p.flag(v, "shared")
			if err == nil && shared {
				err = p.At(v).Refuse("use a direct zone, or give the panels one context_id", "zones cannot be shared by contexts")
			}
			return err
		},
	})
	return z, err
}

// from reads one source, or a list of them.
func (p *parser) from(n *yaml.Node) ([]string, error) {
	const means = "'repositories', or folders of the workspace"
	if n.Kind != yaml.SequenceNode {
		one, err := p.Text(n, "from", means)
		return []string{one}, err
	}
	var out []string
	for _, v := range n.Content {
		one, err := p.Text(v, "from", means)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, p.At(n).Refuse("", "from is empty; it must be %s", means)
	}
	return out, nil
}

func (p *parser) flag(n *yaml.Node, what string) (bool, error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		return false, p.At(n).Refuse("", "%s must be true or false, not %s", what, strictyaml.Describe(n))
	}
	var b bool
	err := n.Decode(&b)
	return b, err
}

func (p *parser) size(n *yaml.Node) (int64, error) {
	var size bytesize.Size
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!str" && n.Tag != "!!int") || size.Set(n.Value) != nil || size == 0 {
		return 0, p.At(n).Refuse("", "max_bytes must be a size such as 2GiB, not %.200q", n.Value)
	}
	return int64(size), nil
}

func (p *parser) duration(n *yaml.Node) (time.Duration, error) {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < time.Millisecond {
		return 0, p.At(n).Refuse("", "keep must be a time such as 168h, not %.200q", n.Value)
	}
	return d, nil
}

package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Spec says what a context is made of. It does not change after the context was seeded. Forks have that of the context that they were
// copied from.
type Spec struct {
	// From are the repositories and folders of the workspace that the context is seeded from, relative to the workspace, sorted, none within
	// another; nil means all repositories.
	From []string `json:"from,omitempty"`
	// Zones are the context's zones.
	Zones zones.Layout `json:"zones,omitzero"`
	// Labels are those that the context was made with, for a record that is rebuilt from the folder. They say nothing about what is in it: IsZero
	// and Equal leave them out.
	Labels map[string]string `json:"labels,omitempty"`
}

// NewSpec returns the Spec of a request. It fails with EINVAL for a path that cannot be in a workspace, and for zones that are seeded from
// something else than from.
func NewSpec(from []string, layout zones.Layout) (Spec, error) {
	s := Spec{Zones: zones.Layout{Mode: layout.Mode, Zones: slices.Clone(layout.Zones)}}
	var err error
	if s.From, err = seed.CleanFrom(from); err != nil {
		return Spec{}, err
	}
	for i := range s.Zones.Zones {
		z := &s.Zones.Zones[i]
		if len(z.Path) < 2 || z.Path[0] != '/' || strings.Contains(z.Path[1:], "/") {
			return Spec{}, badSpec(fmt.Sprintf("bad zone %.80q", z.Path), "a zone is one name with a slash before it, such as /workspace")
		}
		if slices.Equal(z.From, []string{zones.Repositories}) {
			continue
		}
		if z.From, err = seed.CleanFrom(z.From); err != nil {
			return Spec{}, err
		}
		if len(z.From) > 0 && len(s.From) > 0 && !slices.Equal(s.From, z.From) {
			return Spec{}, badSpec(fmt.Sprintf("zone %s is seeded from %s, and the context from %s", z.Path, list(z.From), list(s.From)), "leave out seed_from, or what the zone is seeded from")
		}
	}
	if layout.Mode != "" && layout.Into() == "" && len(s.From) > 0 {
		return Spec{}, badSpec("no zone says that it is seeded, and seed_from says from what", "leave out seed_from, or give a zone 'from: repositories'")
	}
	return s, nil
}

func badSpec(detail, hint string) error {
	return &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: detail, Hint: hint}
}

// IsZero reports whether nothing is said: all repositories, and no zones.
func (s Spec) IsZero() bool { return len(s.From) == 0 && s.Zones.Mode == "" && len(s.Zones.Zones) == 0 }

// Scope returns which part of the workspace a context of the Spec is seeded with, and to where in it.
func (s Spec) Scope() seed.Scope {
	if s.Zones.Mode == "" {
		return seed.Scope{From: s.From}
	}
	scope := seed.Scope{From: s.From, Into: s.Zones.Into()}
	scope.Nothing = scope.Into == ""
	if s.Zones.Mode != zones.Sandboxed {
		return scope
	}
	for _, z := range s.Zones.Zones {
		switch {
		case z.Path[1:] != scope.Into:
			scope.Beside = append(scope.Beside, z.Path[1:])
		case !slices.Equal(z.From, []string{zones.Repositories}):
			scope.From = z.From
		}
	}
	slices.Sort(scope.Beside)
	return scope
}

// Equal reports whether both say the same.
func (s Spec) Equal(o Spec) bool { return slices.Equal(s.From, o.From) && equalZones(s.Zones, o.Zones) }

func equalZones(a, b zones.Layout) bool {
	return a.Mode == b.Mode && slices.EqualFunc(a.Zones, b.Zones, func(a, b zones.Zone) bool { return reflect.DeepEqual(a, b) })
}

// admits reports whether a context of this Spec is what a request asks for. A request need not repeat what it was made of.
func (s Spec) admits(wanted Spec) bool {
	zoneless := Spec{Zones: wanted.Zones}.IsZero()
	return (len(wanted.From) == 0 || slices.Equal(s.From, wanted.From)) && (zoneless || equalZones(s.Zones, wanted.Zones))
}

// Fits fails with EINVAL if a context of an ID is not seeded from the workspace, and the Spec says from what.
func (s Spec) Fits(id ID) error {
	p, err := ParseID(string(id))
	switch {
	case err != nil:
		return err
	case p.TemplateHash != "" && s.Zones.Mode != "":
		return badSpec(fmt.Sprintf("context '%s' is made from a template, and cannot have zones", id), "leave out one of zones and template, or remove one of context-zones.yml and context-template.yml")
	case p.Mode == ModeUnsafe && s.Zones.Into() != "":
		return badSpec(fmt.Sprintf("context '%s' starts empty, and zone /%s is seeded", id, s.Zones.Into()), "leave out one of unsafe and the zone's from")
	case len(s.From) == 0:
		return nil
	case p.TemplateHash != "":
		return badSpec(fmt.Sprintf("context '%s' is made from a template, which says what is in it", id), "leave out one of seed_from and template; a panel beside a template needs a context_id for that")
	case p.Mode == ModeUnsafe:
		return badSpec(fmt.Sprintf("context '%s' starts empty", id), "leave out one of seed_from and unsafe")
	}
	return nil
}

// String names what a context is made of: "app and lib/core, in the zones /workspace and /cache".
func (s Spec) String() string {
	text := "all repositories"
	if len(s.From) > 0 {
		text = list(s.From)
	}
	var names []string
	for _, z := range s.Zones.Zones {
		name := z.Path
		if from := z.From; len(from) > 0 && from[0] != zones.Repositories {
			name += " (" + list(from) + ")"
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		text += ", with the " + string(s.Zones.Mode) + " zones " + list(names)
	}
	return text
}

// listed bounds how many names a message has.
const listed = 8

func list(names []string) string {
	if n := len(names); n > listed {
		names = append(slices.Clone(names[:listed]), fmt.Sprintf("%d more", n-listed))
	}
	quoted := slices.Clone(names)
	last := len(quoted) - 1
	if last < 1 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}

// Spec reads what a context is made of. A context without a file is of the zero Spec.
func (c *Catalog) Spec(id ID) (s Spec, err error) {
	data, err := statedir.ReadFile(c.Layout.Spec(id), statedir.MaxList)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return Spec{}, &fserr.Error{
			Code: fserr.EIO, Kind: fserr.KindContext, Detail: fmt.Sprintf("what context '%s' is made of cannot be read", id), Err: err,
			Hint: "restore the server's state from a backup, or delete the context",
		}
	}
	return s, nil
}

// Admit fails with EEXIST if a context that exists is not made of what a request says.
func (c *Catalog) Admit(id ID, wanted Spec) error {
	if wanted.IsZero() {
		return nil
	}
	is, err := c.Spec(id)
	if err != nil || is.admits(wanted) {
		return err
	}
	return &fserr.Error{
		Code: fserr.EEXIST, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' is made of %s, not of %s", id, is, wanted),
		Hint: "leave out seed_from and zones, or delete the context first",
	}
}

// KeepSpec records what a context is made of, before its folder exists. A kill leaves the earlier record or the new one.
func (c *Catalog) KeepSpec(id ID, s Spec) error {
	file := c.Layout.Spec(id)
	if s.IsZero() && len(s.Labels) == 0 {
		return removeFile(file)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	// An ID does not begin with a dot, and its lock is held.
	staged := c.Layout.Spec("." + id)
	err := statedir.WriteFile(staged, text.Bytes(), 0o600)
	if err == nil {
		err = durable.Tree(staged)
	}
	if err != nil {
		return errors.Join(err, removeFile(staged))
	}
	if err := os.Rename(staged, file); err != nil {
		return err
	}
	return durable.Names(filepath.Dir(file))
}

// OwnFolder fails with EOPNOTSUPP and why if the files of a context are not in its own folder: its zones are direct.
func (c *Catalog) OwnFolder(id ID, why string) error {
	s, err := c.Spec(id)
	if err != nil || s.Zones.Mode != zones.Direct {
		return err
	}
	return &fserr.Error{
		Code: fserr.EOPNOTSUPP, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s': %s", id, why),
		Hint: "use sandboxed zones for that",
	}
}

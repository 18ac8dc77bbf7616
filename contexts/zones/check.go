package zones

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

// MaxZones is how many zones a context may have.
const MaxZones = 32

// zoneError says what is wrong with one zone.
type zoneError struct {
	path, problem, hint string
}

func (e *zoneError) Error() string {
	if checkPath(e.path) != nil {
		return fmt.Sprintf("zone %.200q: %s", e.path, e.problem)
	}
	return "zone " + e.path + ": " + e.problem
}

// Check fails with EINVAL for a layout that cannot be, and names the zone.
func (l Layout) Check() error {
	var bad *zoneError
	err := l.check()
	if errors.As(err, &bad) {
		return &fserr.Error{Code: fserr.EINVAL, Detail: bad.Error(), Hint: bad.hint}
	}
	return err
}

// check fails with a *zoneError if one zone is to blame.
func (l Layout) check() error {
	switch {
	case l.Mode == "" && len(l.Zones) == 0:
		return nil
	case l.Mode != Sandboxed && l.Mode != Direct:
		return &fserr.Error{Code: fserr.EINVAL, Detail: "zones have no mode", Hint: "set the mode to sandboxed or direct"}
	case len(l.Zones) == 0:
		return &fserr.Error{Code: fserr.EINVAL, Detail: "a layout of mode " + string(l.Mode) + " has no zones", Hint: "name at least one zone, such as /workspace"}
	case len(l.Zones) > MaxZones:
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("a context has at most %d zones", MaxZones)}
	}
	seeded, names := "", map[string]string{}
	for _, z := range l.Zones {
		if err := z.check(l.Mode); err != nil {
			return err
		}
		folded := git.FoldName(z.Path)
		if other, twice := names[folded]; twice {
			return &zoneError{z.Path, "some file systems do not tell it from zone " + other, "choose another name"}
		}
		names[folded] = z.Path
		if len(z.From) == 0 {
			continue
		}
		if seeded != "" {
			return &zoneError{z.Path, "zone " + seeded + " is seeded already", "leave 'from' to one zone"}
		}
		seeded = z.Path
	}
	return nil
}

func (z Zone) check(mode Mode) error {
	bad := func(hint, format string, args ...any) error {
		return &zoneError{z.Path, fmt.Sprintf(format, args...), hint}
	}
	if err := checkPath(z.Path); err != nil {
		return &zoneError{z.Path, err.Error(), "a zone is one name with a slash before it, such as /workspace"}
	}
	switch {
	case mode == Direct && z.Dir == "":
		return bad("set dir", "a direct zone needs a directory")
	case mode == Direct && len(z.From) > 0:
		return bad("leave out from", "a direct zone shows the files of its directory, and is not seeded")
	case mode == Direct && z.MaxBytes != 0:
		return bad("leave out max_bytes", "a direct zone has no bound of its own")
	case mode == Sandboxed && z.Dir != "":
		return bad("leave out dir, or set the mode to direct", "a sandboxed zone is in the context's own folder")
	case z.MaxBytes < 0 || z.Keep < 0:
		return bad("", "max_bytes and keep must not be negative")
	case z.Keep > 0 && !z.NeverCommit:
		return bad("add commit: never", "keep removes files, and only those of a zone that is never committed")
	case z.NeverCommit && len(z.From) > 0:
		return bad("leave out commit: never, or from", "the changes of a seeded zone are what is reviewed and committed")
	case z.ReadOnly && z.Keep > 0:
		return bad("leave out keep or read_only", "keep removes files, and this zone is read-only")
	}
	return nil
}

// checkPath refuses what cannot be the name of a zone.
func checkPath(path string) error {
	name, ok := strings.CutPrefix(path, "/")
	folded := git.FoldName(name)
	switch {
	case !ok || name == "" || strings.Contains(name, "/") || strings.Trim(name, ".") == "":
		return errors.New("it is not one name after a slash")
	case len(name) > rootfs.MaxName:
		return fmt.Errorf("a name has at most %d bytes", rootfs.MaxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("it has characters that cannot be shown on a line")
	case git.IsDotGit(name):
		return errors.New("git keeps its own data under this name")
	case rootfs.Reserved(folded) || folded == ".contexts" || folded == ".ctxfs":
		return errors.New("ctxfs keeps its own data under this name")
	}
	return nil
}

// Notes returns what a person should know before this layout is used.
func (l Layout) Notes() (notes []string) {
	if l.Mode != Direct {
		return nil
	}
	for _, z := range l.Zones {
		if !z.ReadOnly {
			notes = append(notes, "zone "+z.Path+" is the directory "+z.Dir+" itself: what the panel writes there is written there, and no snapshot, fork or review protects it")
		}
	}
	if len(notes) > 0 {
		notes = append(notes, "the panel is trusted: what programs of yours read there runs as you, such as a Makefile, .envrc, package.json or .vscode/tasks.json")
	}
	return notes
}

package review

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// writing is a context in which a program writes a file whenever it is read. From is how many times the file is read before.
type writing struct {
	rootfs.Root
	name string
	from int
}

func (r *writing) OpenNoFollow(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	f, st, err := r.Root.OpenNoFollow(path, flags)
	if path != r.name || err != nil {
		return f, st, err
	}
	if r.from--; r.from >= 0 {
		return f, st, nil
	}
	w, err := r.OpenFile(path, rootfs.O_WRONLY|rootfs.O_APPEND, 0)
	if err == nil {
		_, err = w.Write([]byte("more\n"))
	}
	return f, st, errors.Join(err, w.Close())
}

// failing is a context of which a file cannot be read.
type failing struct {
	rootfs.Root
	name string
}

func (r failing) OpenNoFollow(path string, flags rootfs.Flags) (rootfs.File, rootfs.Stat, error) {
	if path == r.name {
		return nil, rootfs.Stat{}, fserr.New("open", path, fserr.EACCES)
	}
	return r.Root.OpenNoFollow(path, flags)
}

// withdrawals are the ways to take an approval of a path back.
func withdrawals(p Path, changeID string) map[string]Selection {
	return map[string]Selection{
		"by path": {Changes: []Selected{{Path: p}}}, "by its change": {Changes: []Selected{{Path: p, ChangeID: changeID}}}, "by directory": {Changes: []Selected{{Path: "app"}}},
		"all": {All: true}, "approved": {Approved: true},
	}
}

// TestApprovalsCanAlwaysBeWithdrawn has the agent make something of a path with an approval that cannot be decided on, or that --all leaves out.
func TestApprovalsCanAlwaysBeWithdrawn(t *testing.T) {
	t.Parallel()
	at := func(w *world, p string) string { return filepath.Join(w.in(id), p) }
	for name, c := range map[string]struct {
		path    Path
		content string
		agent   func(w *world, file string)
	}{
		"made executable":     {"app/a", "bad\n", func(w *world, file string) { must(w.t, os.Chmod(file, 0o755)) }},
		"an absolute link":    {"app/a", "bad\n", func(w *world, _ string) { write(w.t, w.in(id), files{"app/a": "-> /etc/passwd"}) }},
		"a FIFO":              {"app/n", "bad\n", func(w *world, file string) { must(w.t, os.Remove(file)); must(w.t, unix.Mkfifo(file, 0o600)) }},
		"a FIFO, of the base": {"app/a", "bad\n", func(w *world, file string) { must(w.t, os.Remove(file)); must(w.t, unix.Mkfifo(file, 0o600)) }},
		"setuid":              {"app/a", "bad\n", func(w *world, file string) { must(w.t, os.Chmod(file, 0o755|os.ModeSetuid)) }},
		"a directory": {"app/n", "bad\n", func(w *world, _ string) {
			remove(w.t, w.in(id), "app/n")
			write(w.t, w.in(id), files{"app/n/x": "x\n"})
		}},
		"an empty directory": {"app/n", "bad\n", func(w *world, file string) { must(w.t, os.Remove(file)); must(w.t, os.Mkdir(file, 0o755)) }},
		"a directory with a .git": {"app/n", "bad\n", func(w *world, _ string) {
			remove(w.t, w.in(id), "app/n")
			write(w.t, w.in(id), files{"app/n/.git/HEAD": "x\n", "app/n/.ctxfs": "x\n"})
		}},
		"below a file": {"app/d/n", "bad\n", func(w *world, _ string) {
			remove(w.t, w.in(id), "app/d/n")
			write(w.t, w.in(id), files{"app/d": "file\n"})
		}},
		"below a link": {"app/d/n", "bad\n", func(w *world, _ string) {
			remove(w.t, w.in(id), "app/d/n")
			write(w.t, w.in(id), files{"app/d": "-> ."})
		}},
		"below a FIFO": {"app/d/n", "bad\n", func(w *world, _ string) {
			remove(w.t, w.in(id), "app/d/n")
			must(w.t, unix.Mkfifo(at(w, "app/d"), 0o600))
		}},
		"ignored":                   {"app/x.log", "bad\n", func(w *world, _ string) { write(w.t, w.in(id), files{"app/x.log": "other\n"}) }},
		"in an ignored directory":   {"app/ign/x", "bad\n", func(w *world, _ string) { write(w.t, w.in(id), files{"app/ign/x": "other\n"}) }},
		"a FIFO in an ignored one":  {"app/ign/x", "bad\n", func(w *world, file string) { must(w.t, os.Remove(file)); must(w.t, unix.Mkfifo(file, 0o600)) }},
		"sensitive":                 {"app/Makefile", "bad\n", func(w *world, _ string) { write(w.t, w.in(id), files{"app/Makefile": "other\n"}) }},
		"sensitive and not changed": {"app/Makefile", "bad\n", func(*world, string) {}},
		"being written": {"app/a", "bad\n", func(w *world, _ string) {
			w.through = func(r rootfs.Root) rootfs.Root { return &writing{r, "app/a", 0} }
		}},
		"written after it was listed": {"app/a", "bad\n", func(w *world, file string) {
			w.through = func(r rootfs.Root) rootfs.Root { must(w.t, overwrite(file, "other\n")); return &writing{r, "app/a", 1} }
		}},
		"not readable": {"app/a", "bad\n", func(w *world, _ string) { w.through = func(r rootfs.Root) rootfs.Root { return failing{r, "app/a"} } }},
	} {
		for _, decision := range []Decision{Rejected, ""} {
			for way := range withdrawals(c.path, "") {
				t.Run(fmt.Sprintf("%s, %q %s", name, decision, way), func(t *testing.T) {
					t.Parallel()
					base := files{"app/a": "good\n", "app/b": "good\n", ".gitignore": "*.log\nign\n"}
					w := newWorld(t, base)
					write(t, w.in(id), files{string(c.path): c.content})
					w.decide(Approved, Selection{Changes: []Selected{{Path: c.path}}})
					l := w.changes(Query{Paths: []Path{c.path}, Ignored: true})
					c.agent(w, at(w, string(c.path)))
					out := w.decide(decision, withdrawals(c.path, l.Changes[0].ID)[way])
					if out.Changes == 0 {
						t.Error("nothing was decided")
					}
					if slices.ContainsFunc(out.LeftOut, func(l LeftOut) bool { return l.Path == c.path }) {
						t.Errorf("left out are %v", out.LeftOut)
					}
					if e, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Actor: "host"}); err == nil {
						t.Errorf("apply has steps %+v", e.Steps)
					}
					same(t, "the workspace", read(t, w.in("workspace")), base)
				})
			}
		}
	}
}

// TestRejectingWhatCannotBeDecidedOn has no decisions: the change that is named is refused, and a directory leaves it out.
func TestRejectingWhatCannotBeDecidedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": "a\n", "b": "b\n", ".gitignore": "ign\n"})
	write(t, w.in(id), files{"b": "+x B\n", "a": "A\n", "ign/x": "x\n"})
	must(t, unix.Mkfifo(w.in(id)+"/fifo", 0o600))
	w.through = func(r rootfs.Root) rootfs.Root { return &writing{r, "a", 0} }
	out := w.decide(Rejected, Selection{All: true})
	if want := []LeftOut{{"a", unstable, 0}, {"fifo", BarredSpecial, 0}, {"ign", "ignored", 0}}; out.Changes != 1 || !slices.Equal(out.LeftOut, want) {
		t.Errorf("decided %+v, want one change, and %v left out", out, want)
	}
	for p, want := range map[Path]string{"a": "EBUSY", "fifo": string(BarredPath), "none": string(StaleRevision)} {
		_, err := w.reviews.Decide(t.Context(), DecideRequest{Context: id, Decision: Rejected, Selection: Selection{Changes: []Selected{{Path: p}}}})
		if got := reasonOf(err); got != want {
			t.Errorf("%s: %v, want %s", p, err, want)
		}
	}
	w.through = func(r rootfs.Root) rootfs.Root { return failing{r, "a"} }
	for name, req := range map[string]DecideRequest{
		"not decided": {Selection: Selection{Changes: []Selected{{Path: "a"}}}}, "one of two": {Selection: Selection{Changes: []Selected{{Path: "a"}, {Path: "b"}}}},
		"at a revision": {Selection: Selection{All: true}, IfRevision: "1"},
	} {
		req.Context, req.Decision = id, Rejected
		if _, err := w.reviews.Decide(t.Context(), req); fserr.CodeOf(err) != fserr.EACCES {
			t.Errorf("%s: %v, want EACCES", name, err)
		}
	}
	if out := w.decide(Rejected, Selection{All: true}); !slices.Equal(out.LeftOut, []LeftOut{{"", unstable, 0}}) {
		t.Errorf("of a context that cannot be read, %v is left out", out.LeftOut)
	}
}

// TestSelectingWhatIsApproved has a file that is approved, one with an approved hunk, and one that is not.
func TestSelectingWhatIsApproved(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *world {
		w := newWorld(t, files{"a": "a\n", "b": numbered(30), "c": "c\n"})
		write(t, w.in(id), files{"a": "A\n", "b": changedTwice(), "c": "C\n"})
		w.decide(Approved, Selection{Changes: []Selected{{Path: "a"}, {Path: "b", Hunks: []string{w.changes(Query{}).Changes[1].HunkIDs()[0]}}}})
		return w
	}
	w := begin(t)
	if out := w.decide(Approved, Selection{Approved: true}); out.Changes != 2 || out.Hunks != 1 {
		t.Errorf("approving again decides %+v", out)
	}
	if e := w.apply(ApplyRequest{}); len(e.Steps) != 2 {
		t.Errorf("apply has steps %+v", e.Steps)
	}
	w = begin(t)
	_, err := w.reviews.Discard(t.Context(), id, Selection{Approved: true}, "", "host")
	must(t, err)
	same(t, "the context", read(t, w.in(id)), files{"a": "a\n", "b": secondChanged(), "c": "C\n"})
}

// reasonOf names a refusal, or the code of another error.
func reasonOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return string(e.Reason)
	}
	return fserr.CodeOf(err).String()
}

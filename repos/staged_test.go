package repos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/review"
)

var longAgo = time.Now().Add(-24 * time.Hour)

func TestDiscardLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	first, second := w.mustStage(StageRequest{Branch: "one"}), w.mustStage(StageRequest{Branch: "two"})
	must(t, w.discard(first))
	refusedAs(t, w.discard(first), NoStaged, first.ID)
	for _, id := range []string{"", "..", "../x", strings.ToUpper(second.ID), "new-x", strings.Repeat("a", 26)} {
		refusedAs(t, w.discard(&Staged{ID: id}), NoStaged, "no staged commit")
	}
	w.onlyStaged(second)
	w.gitStaged(second, "fsck")
	second.Pushed = &Pushed{Commit: second.Commit, Branch: "two"}
	must(t, w.repos.update(second))
	invalid(t, w.discard(second), fserr.EINVAL, "was pushed to two")
	for pushed, want := range map[bool]int{false: 0, true: 1} {
		list, err := w.repos.ListStaged(t.Context(), "", pushed)
		if err != nil || len(list) != want {
			t.Errorf("with_pushed %v: listed %v (%v)", pushed, list, err)
		}
	}
}

func TestOpenSweeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	s := w.mustStage(StageRequest{})
	for _, name := range []string{"new-1", "gone-" + s.ID, s.ID + ".git/new-2"} {
		must(t, os.MkdirAll(filepath.Join(w.dir, "git", name), 0o700))
	}
	must(t, w.reviews.Close())
	w.open()
	w.onlyStaged(s)
	if _, err := os.Stat(filepath.Join(w.repos.dirOf(s.ID), "new-2")); err == nil {
		t.Error("a record that was being written is left")
	}
	// A record that cannot be read is named, and does not hide the others.
	other := w.mustStage(StageRequest{})
	must(t, os.WriteFile(filepath.Join(w.repos.dirOf(s.ID), recordName), []byte("{"), 0o600))
	_, err := w.repos.Get(t.Context(), s.ID)
	invalid(t, err, fserr.EIO, "damaged")
	if list, err := w.repos.ListStaged(t.Context(), "", false); err != nil || len(list) != 2 || list[0].ID != other.ID || list[1].Damaged == "" {
		t.Errorf("listed %v (%v)", list, err)
	}
}

// A record that cannot be read holds its own context, stops nothing else, and can be discarded: damaged while the server runs, or before it starts.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(record string) error{
		"cut off":   func(record string) error { return os.WriteFile(record, []byte(`{"format":1,"id`), 0o600) },
		"newer":     func(record string) error { return os.WriteFile(record, []byte(`{"format":999}`), 0o600) },
		"missing":   os.Remove,
		"directory": func(record string) error { return errors.Join(os.Remove(record), os.Mkdir(record, 0o700)) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " restart ", restart), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.Repo("app", "f=1\n")
				w.seed("app")
				w.edit(map[string]string{"app/f": "2\n"})
				s, other := w.mustStage(StageRequest{}), w.mustStage(StageRequest{})
				must(t, damage(filepath.Join(w.repos.dirOf(s.ID), recordName)))
				if restart {
					w.restart()
				}
				list, err := w.repos.ListStaged(t.Context(), ctxID, false)
				if err != nil || len(list) != 2 || list[1].ID != s.ID || list[1].Context != ctxID || list[1].Damaged == "" {
					t.Errorf("listed %+v (%v)", list, err)
				}
				if got, want := fmt.Sprint(w.repos.Holds()), fmt.Sprint(map[string]Hold{ctxID: {1, 2, []string{s.ID}}}); got != want {
					t.Errorf("holds %s, want %s", got, want)
				}
				if used, err := Contents(w.repos.cfg.Dir); name != "directory" && (err != nil || len(used) != 2) {
					t.Errorf("the contents are %v (%v)", used, err)
				}
				must(t, w.repos.Collect(t.Context()))
				invalid(t, w.fails(s, PushRequest{}), fserr.EIO, "discard")
				must(t, w.discard(s))
				w.onlyStaged(other)
			})
		}
	}
}

func (w *world) restart() {
	w.t.Helper()
	must(w.t, w.reviews.Close())
	w.open()
}

// A state directory of a server that wrote no file with the context gets one, so that later damage is of a known context. Without it all are held.
func TestContextOfRecordsIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n")
	w.seed("app")
	w.edit(map[string]string{"app/f": "2\n"})
	s := w.mustStage(StageRequest{})
	of, record := filepath.Join(w.repos.dirOf(s.ID), contextName), filepath.Join(w.repos.dirOf(s.ID), recordName)
	must(t, os.Remove(of))
	w.restart()
	must(t, os.WriteFile(record, nil, 0o600))
	w.restart()
	if h := w.repos.Holds(); len(h[ctxID].Damaged) != 1 {
		t.Errorf("holds %v", h)
	}
	must(t, os.Remove(of))
	w.restart()
	if h := w.repos.Holds(); len(h[""].Damaged) != 1 {
		t.Errorf("holds %v", h)
	}
}

// The diffs of an answer are bounded, of one file and of all. DiffStaged has all of them.
func TestShownDiffsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", "type=file\n")
	w.seed("app")
	line := strings.Repeat("x", 99) + "\n"
	edits := map[string]string{
		"app/a-long": strings.Repeat(line, maxFileDiff/100+1), "app/b-one-line": strings.Repeat("y", maxFileDiff), "app/c-binary": "\x00" + random(maxFileDiff), "app/f": "2\n", "app/type": "-> f",
	}
	for _, name := range "ghijklmnopqr" { // together more than all may have
		edits["app/z"+string(name)] = strings.Repeat(line, 2000)
	}
	w.edit(edits)
	s := w.mustStage(StageRequest{})
	got, err := w.repos.Get(t.Context(), s.ID)
	must(t, err)
	all, cut := 0, 0
	for i, f := range got.Files {
		all += len(f.Diff)
		if f.Truncated {
			cut++
		}
		if f.Truncated != (f.Diff == "") || f.Diff != s.Files[i].Diff {
			t.Errorf("%s has a diff of %d bytes, truncated %v", f.Path, len(f.Diff), f.Truncated)
		}
		switch f.Path {
		case "app/a-long", "app/b-one-line", "app/c-binary":
			if !f.Truncated || f.Binary != (f.Path == "app/c-binary") {
				t.Errorf("%s is %+v", f.Path, f)
			}
		case "app/type":
			if strings.Count(f.Diff, "diff --git ") != 2 || f.Operation() != Update {
				t.Errorf("the change of type is %s", f.Diff)
			}
		case "app/f":
			if !strings.HasSuffix(f.Diff, "@@ -1 +1 @@\n-1\n+2\n") {
				t.Errorf("the diff is %s", f.Diff)
			}
		}
	}
	if all > maxAllDiffs || all < maxAllDiffs/2 || cut < 4 {
		t.Errorf("the diffs have %d bytes, and %d are cut", all, cut)
	}
	var whole bytes.Buffer
	must(t, w.repos.DiffStaged(t.Context(), s, nil, 3, &whole))
	if n := bytes.Count(whole.Bytes(), []byte("diff --git ")); n != len(got.Files)+1 {
		t.Errorf("the whole diff is of %d files", n)
	}
	for _, c := range []struct {
		paths []review.Path
		parts int
	}{{[]review.Path{"app/f"}, 1}, {[]review.Path{"app"}, len(got.Files) + 1}, {[]review.Path{"lib"}, 0}, {[]review.Path{"app/missing"}, 0}, {[]review.Path{""}, len(got.Files) + 1}} {
		var part bytes.Buffer
		must(t, w.repos.DiffStaged(t.Context(), s, c.paths, 3, &part))
		if n := bytes.Count(part.Bytes(), []byte("diff --git ")); n != c.parts {
			t.Errorf("%q: the diff is of %d files, want %d", c.paths, n, c.parts)
		}
	}
}

// The status says what Stage would take, and the diff of one repository has its own paths.
func TestStatusAndDiffOfAContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repo("app", "f=1\n", "gone=g\n", ".gitignore=*.log\n")
	w.Repo("lib", "g=1\n")
	w.seed("app", "lib")
	w.edit(map[string]string{"app/f": "2\n", "app/gone": "", "app/a.log": "l\n", "app/x/.git/HEAD": "h\n", "lib/moved": "1\n", "lib/g": "", "lib/run": "+x r\n", "loose": "l\n"})
	all, err := w.repos.Status(t.Context(), Query{Context: ctxID})
	must(t, err)
	got := ""
	for _, r := range all {
		for _, f := range r.Files {
			got += string(r.Repo) + " " + string(f.Path) + " " + string(f.Operation())
			if f.Ignored {
				got += " ignored"
			}
			if f.Barred != "" {
				got += " " + f.Barred
			}
			if f.RenamedFrom != "" {
				got += " from " + string(f.RenamedFrom)
			}
			got += "\n"
		}
	}
	if want := "app app/a.log create ignored\napp app/f update\napp app/gone delete\napp app/x/.git create git-directory\nlib lib/g delete\nlib lib/moved create from lib/g\nlib lib/run create\n"; got != want {
		t.Errorf("the status is\n%s\nwant\n%s", got, want)
	}
	app, lib := review.Path("app"), review.Path("lib")
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{}, "app/f app/gone lib/g lib/moved lib/run"}, {Query{Repo: &app}, "f gone"}, {Query{Repo: &lib}, "g moved run"},
		{Query{Paths: []review.Path{"app/gone"}}, "app/gone"}, {Query{Repo: &app, Paths: []review.Path{"app/a.log", "app/f"}}, "a.log f"},
	} {
		c.q.Context = ctxID
		var patch bytes.Buffer
		must(t, w.repos.Diff(t.Context(), c.q, 3, &patch))
		var paths []string
		for line := range strings.Lines(patch.String()) {
			if rest, ok := strings.CutPrefix(line, "diff --git a/"); ok {
				p, _, _ := strings.Cut(rest, " b/")
				paths = append(paths, p)
			}
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("%+v: the diff is of %q, want %q", c.q, got, c.want)
		}
	}
	none := review.Path("none")
	_, err = w.repos.Status(t.Context(), Query{Context: ctxID, Repo: &none})
	refusedAs(t, err, NoRepository, "/app, /lib")
	_, err = w.repos.Status(t.Context(), Query{Context: ctxID, Paths: []review.Path{"loose"}})
	invalid(t, err, fserr.EINVAL, "belongs to no repository")
	_, err = w.repos.Branches(t.Context(), ctxID, "none")
	refusedAs(t, err, NoRepository, "")
}

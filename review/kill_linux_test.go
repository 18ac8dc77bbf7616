package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// killAtEnv is the number of the phase at which the reviewer of killDirEnv kills itself.
const killAtEnv = "CTXFS_REVIEW_KILL_AT"

// reviewer is the reviewer of killDirEnv.
var reviewer = beKilled

// beKilled is the reviewer: it applies, undoes, discards and undoes again, until the phase at which it dies.
func beKilled() error {
	if push := os.Getenv(killPushEnv); push != "" {
		return bePushing(push)
	}
	at, err := strconv.Atoi(os.Getenv(killAtEnv))
	if err != nil {
		return err
	}
	w := &world{dir: os.Getenv(killDirEnv)}
	if w.manifest, err = manifestOf(w.in("layer")); err != nil {
		return err
	}
	r, err := Open(context.Background(), Config{Contexts: w, Dir: w.in("state"), Workspace: w.in("workspace")})
	if err != nil {
		return err
	}
	phases := 0
	r.point = oneByOne(func(string) {
		if phases++; phases == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if os.Getenv(killPullEnv) != "" {
		return errors.Join(bePulled(r), r.Close())
	}
	ctx := context.Background()
	undo := func(e *Entry) error {
		_, err := r.Undo(ctx, UndoRequest{ID: e.ID, Actor: "host", May: func(*Entry) error { return nil }})
		return err
	}
	e, err := untilQuiet(func() (*Entry, error) {
		return r.Apply(ctx, ApplyRequest{Context: id, Selection: &Selection{All: true}, Approve: true, Actor: "host"})
	})
	if err == nil {
		_, err = untilQuiet(func() (*Entry, error) { return e, undo(e) })
	}
	if err == nil {
		e, err = r.Discard(ctx, id, Selection{All: true}, "", "panel")
	}
	if err == nil {
		err = undo(e)
	}
	return errors.Join(err, r.Close())
}

// untilQuiet repeats what the editor makes fail.
func untilQuiet(f func() (*Entry, error)) (e *Entry, err error) {
	for range 200 {
		e, err = f()
		var refused *Error
		if !errors.As(err, &refused) {
			return e, err
		}
	}
	return nil, err
}

// editor saves a file again and again, from a buffer that holds the file as it was at first. It writes in place, or beside the file and renames.
type editor struct {
	name    string
	inPlace bool
	saves   int
	err     error
}

func (e *editor) work(stop *atomic.Bool) {
	// About one in two applies meets a save.
	pace := time.NewTicker(20*time.Millisecond + rand.N(30*time.Millisecond))
	defer pace.Stop()
	for !stop.Load() && e.err == nil {
		<-pace.C
		text := edited(e.saves + 1)
		if e.inPlace {
			e.err = os.WriteFile(e.name, []byte(text), 0o600)
		} else if e.err = os.WriteFile(e.name+"~", []byte(text), 0o600); e.err == nil {
			e.err = os.Rename(e.name+"~", e.name)
		}
		e.saves++
	}
}

// edited is the file with the editor's n-th save.
func edited(n int) string {
	return strings.Replace(numbered(20), "line 19\n", fmt.Sprintf("save %d\n", n), 1)
}

// killed is what a kill is tried on.
var killed = struct{ base, changed files }{
	files{
		"plain": numbered(20), "place": numbered(20), "rename": numbered(20), "gone": "gone\n", "dir/x": "x\n", "file": "f\n", "run": "echo\n", "link": "-> run",
		"short": numbered(9000),
	},
	files{
		"plain": byAgent(numbered(20)), "place": byAgent(numbered(20)), "rename": byAgent(numbered(20)), "new/deep": "new\n", "dir": "a file now\n", "file/x": "f\n", "run": "echo 2\n",
		"link": "-> plain", "short": "short\n",
	},
}

const (
	// allPhases is more than a reviewer passes whom no editor makes try again.
	allPhases = 130
	fewPhases = 6
)

// TestKilledAtEachPhase kills a reviewer at phases of Apply, Undo and Discard while two editors save files of the workspace.
func TestKilledAtEachPhase(t *testing.T) {
	t.Parallel()
	phases := rand.Perm(allPhases)
	if os.Getenv(killsEnv) == "" {
		phases = phases[:fewPhases]
	}
	kills := 0
	for _, at := range phases {
		if !killAt(t, 1+at) {
			kills++
		}
		if t.Failed() {
			t.Fatalf("killed at phase %d", 1+at)
		}
	}
	fmt.Printf("review: %d kills at as many phases\n", kills)
	if kills == 0 {
		t.Error("the reviewer was never killed")
	}
}

// killAt reports whether the reviewer ended before the phase.
func killAt(t *testing.T, at int) (ended bool) {
	t.Helper()
	w := newWorld(t, killed.base)
	must(t, w.reviews.Close())
	must(t, os.RemoveAll(w.in(id)))
	must(t, os.Mkdir(w.in(id), 0o755))
	write(t, w.in(id), killed.changed)
	editors := []*editor{{name: w.in("workspace/place"), inPlace: true}, {name: w.in("workspace/rename")}}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for _, e := range editors {
		wg.Go(func() { e.work(&stop) })
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+w.dir, killAtEnv+"="+strconv.Itoa(at))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		ended = true
	case !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL: //nolint:forcetypeassert // on Linux
		t.Errorf("the reviewer: %v: %s", err, out)
	}
	w.open() // while the editors save
	stop.Store(true)
	wg.Wait()
	for _, e := range editors {
		must(t, e.err)
	}
	w.checkKilled(editors)
	return ended
}

// checkKilled checks that each path is all old or all new or the editor's, that they fit the journal, and that the work can continue.
func (w *world) checkKilled(editors []*editor) {
	w.t.Helper()
	entries, _, err := w.reviews.Journal(w.t.Context(), func(*Entry) bool { return true }, 0, 100)
	must(w.t, err)
	state, last := killed.base, (*Entry)(nil)
	for _, e := range entries { // the newest first
		if !e.InContext && last == nil && !isLeft(e) {
			last = e
		}
		if e.Undoes != 0 {
			undone, err := w.reviews.journal.read(e.Undoes, doneSuffix)
			must(w.t, err)
			if undone.UndoneBy != e.ID {
				w.t.Errorf("entry %d undoes %d, which says that %d does", e.ID, e.Undoes, undone.UndoneBy)
			}
		}
	}
	if last != nil && last.Kind == EntryApply {
		state = killed.changed
	}
	w.checkWorkspace("after the kill", state, editors)
	w.checkContext()
	if last != nil && last.Kind == EntryApply {
		_, err := w.undo(last.ID)
		must(w.t, err)
		w.checkWorkspace("undone", killed.base, editors)
	}
	if left := reserved(w.t, w.dir); len(left) > 0 {
		w.t.Errorf("temporary names are left: %q", left)
	}
}

// isLeft reports whether an entry is of what files keep of one that was put back: those that an editor saved meanwhile.
func isLeft(e *Entry) bool {
	return !slices.ContainsFunc(e.Steps, func(s step) bool { return !s.Apart })
}

func (w *world) checkWorkspace(what string, state files, editors []*editor) {
	w.t.Helper()
	got := read(w.t, w.in("workspace"))
	for _, e := range editors {
		name := filepath.Base(e.name)
		text := edited(e.saves)
		if e.saves == 0 {
			text = numbered(20)
		}
		if got[name] != text && got[name] != byAgent(text) {
			w.t.Errorf("%s: the editor's save %d of %s is lost: %q", what, e.saves, name, got[name])
		}
		got[name] = state[name]
	}
	same(w.t, what, got, state)
}

// checkContext checks that each file of the context is the agent's, or discarded: nothing is written in part.
func (w *world) checkContext() {
	w.t.Helper()
	for p, text := range read(w.t, w.in(id)) {
		if text != killed.changed[p] && text != killed.base[p] {
			w.t.Errorf("%s of the context has %d bytes: written in part", p, len(text))
		}
	}
}

func reserved(t testing.TB, dir string) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && (strings.Contains(d.Name(), rootfs.ReservedPrefix) || strings.HasPrefix(d.Name(), "new-")) {
			found = append(found, name)
		}
		return err
	}))
	return found
}

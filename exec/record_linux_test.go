package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/statedir"
)

// leave writes what an engine that was killed leaves of a process.
func leave(t *testing.T, dir string, r record, stdout, stderr string) {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, content := range map[string]string{recordSuffix: string(data), ".out": stdout, ".err": stderr} {
		if err := os.WriteFile(filepath.Join(dir, r.ID+suffix), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func openEngine(t *testing.T, dir string) *Processes {
	t.Helper()
	p, err := Open(t.Context(), Config{Dir: dir, Unfinished: Lost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// outputOf returns the standard output of a process, and how much of it was dropped.
func outputOf(t *testing.T, p *Process) (text string, dropped int64) {
	t.Helper()
	var b strings.Builder
	err := p.Output(t.Context(), [2]int64{}, Watching, func(o Output) error {
		if o.Stream == Stdout {
			b.Write(o.Data)
			dropped += o.Dropped
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return b.String(), dropped
}

// TestEngineAdoptsWhatAKilledOneLeft opens an engine on the directory of one that was killed, and gives it the directory of another.
func TestEngineAdoptsWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	own, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	began := record{Command: Command{Context: "ctx_a", Argv: []string{"make"}, Cwd: "src"}, Started: now.Add(-time.Minute)}
	exited, cut, flood, old := began, began, began, began
	exited.ID, exited.Exit, exited.Sizes = "p-exited", &Exit{Reason: Exited, Code: 7, At: now}, [2]int64{headSize + 3*tailSize, 3}
	cut.ID, flood.ID, old.ID = "p-cut", "p-flood", "p-old"
	old.Exit, old.Sizes = &Exit{Reason: Exited, At: now.Add(-2 * keepTime)}, [2]int64{}
	leave(t, own, exited, strings.Repeat("x", headSize+tailSize), "err")
	leave(t, own, cut, "out", "")
	leave(t, own, old, "", "")
	leave(t, other, flood, strings.Repeat("y", headSize+tailSize), "")
	for _, name := range []string{"p-stray.out", "p-half.json", "p-half.json~"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(`{"id":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := openEngine(t, own)
	if err := e.Adopt(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("the other directory is left: %v", err)
	}
	if n := len(e.List("ctx_a")); n != 3 {
		t.Errorf("%d processes, want 3", n)
	}
	for _, c := range []struct {
		id      string
		exit    Exit
		size    int
		dropped int64
	}{
		{"p-exited", Exit{Reason: Exited, Code: 7}, headSize + tailSize, 2 * tailSize},
		{"p-cut", Exit{Reason: Lost}, 3, 0},
		{"p-flood", Exit{Reason: Lost}, headSize, 0},
	} {
		p, err := e.Get(c.id)
		if err != nil {
			t.Error(err)
			continue
		}
		text, dropped := outputOf(t, p)
		exit := *p.Ended()
		if exit.Reason != c.exit.Reason || exit.Code != c.exit.Code || len(text) != c.size || dropped != c.dropped || p.Command().Argv[0] != "make" || p.Command().Cwd != "src" {
			t.Errorf("%s ended with %+v and has %d bytes, %d dropped", c.id, exit, len(text), dropped)
		}
		if err := p.Kill(t.Context(), 0); err != nil {
			t.Errorf("kill %s: %v", c.id, err)
		}
		if err := p.Signal(15); err == nil {
			t.Errorf("%s took a signal", c.id)
		}
		if err := p.Write(t.Context(), []byte("x")); err == nil {
			t.Errorf("%s took input", c.id)
		}
	}
	for _, p := range e.List("") {
		if err := e.Remove(p.ID); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(own); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestReapEndsOnlyWhatARecordNames has records of a process that runs: one names it, the others a process of the same PID that was started at
// another time, or before the last boot.
func TestReapEndsOnlyWhatARecordNames(t *testing.T) {
	t.Parallel()
	sleep := osexec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = sleep.Wait() // it is killed
		close(ended)
	}()
	is, err := identityOf(sleep.Process.Pid)
	if err != nil || is.PID == 0 {
		t.Fatal(is, err)
	}
	later, rebooted := is, is
	later.Start++
	rebooted.Boot = "another"
	exited := record{ID: "p-exited", Sandbox: is, Exit: &Exit{Reason: Exited}}
	dir := t.TempDir()
	for id, r := range map[string]record{"p-later": {Sandbox: later}, "p-rebooted": {Sandbox: rebooted}, "p-none": {}, "p-exited": exited} {
		r.ID = id
		leave(t, dir, r, "", "")
	}
	if err := Reap(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := sleep.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process that no record names was ended: %v", err)
	}
	leave(t, dir, record{ID: "p-it", Sandbox: is}, "", "")
	if err := Reap(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the process that a record names was not ended")
	}
	if got := sleep.ProcessState.Sys().(syscall.WaitStatus); got.Signal() != syscall.SIGKILL { //nolint:forcetypeassert // it is one on Linux
		t.Errorf("it ended with %v", got)
	}
}

// TestOnlyPlainFilesAreAdopted has another user put something else in the place of each file of a command. Nothing
// waits for it, and the file elsewhere is neither read nor changed.
func TestOnlyPlainFilesAreAdopted(t *testing.T) {
	t.Parallel()
	exit := &Exit{Reason: Exited, At: time.Now()}
	r := record{ID: "p-x", Command: Command{Context: "ctx_a", Argv: []string{"make"}}, Exit: exit, Sizes: [2]int64{6, 0}}
	for _, name := range []string{"p-x.json", "p-x.json~", "p-x.out"} {
		for kind, put := range map[string]func(victim, path string) error{
			"a FIFO": func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
			"a link": os.Symlink,
		} {
			t.Run(name+" is "+kind, func(t *testing.T) {
				t.Parallel()
				dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
				leave(t, dir, r, "stdout", "")
				path := filepath.Join(dir, name)
				content, _ := os.ReadFile(path) // p-x.json~ is missing
				_ = os.Remove(path)
				if err := errors.Join(os.WriteFile(victim, content, 0o600), put(victim, path)); err != nil {
					t.Fatal(err)
				}
				refused, ended := error(nil), make(chan struct{})
				go func() {
					defer close(ended)
					refused = adoptAndRead(t, dir, r.ID)
				}()
				await(t, ended)
				if other, ok := errors.AsType[*statedir.NotPlainError](refused); !ok || other.Path != path || other.Is != kind {
					t.Errorf("got %v", refused)
				}
				if after, err := os.ReadFile(victim); err != nil || !bytes.Equal(after, content) {
					t.Errorf("the file elsewhere has %q, %v", after, err)
				}
			})
		}
	}
}

// adoptAndRead opens an engine on a directory, and reads and removes a process that it finds there.
func adoptAndRead(t *testing.T, dir, id string) error {
	e, err := Open(t.Context(), Config{Dir: dir, Unfinished: Lost})
	if err != nil {
		return err
	}
	p, err := e.Get(id)
	if err == nil {
		err = errors.Join(p.Output(t.Context(), [2]int64{}, Watching, func(Output) error { return nil }), e.Remove(id))
	}
	return errors.Join(err, e.Close())
}

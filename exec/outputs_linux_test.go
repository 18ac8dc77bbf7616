package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestOutputsOfEndedCommandsAreBounded leaves outputs as commands that start again and again do. The oldest go first: those of the context that has
// too many, and if all contexts together have too many, those of the one that has most. Exits and sizes stay, also for the next engine.
func TestOutputsOfEndedCommandsAreBounded(t *testing.T) {
	t.Parallel()
	const each = 1000 // bytes of each command
	for name, c := range map[string]struct {
		most, all int64
		// ended are how many commands of each context have ended, kept the outputs that stay.
		ended, kept map[contexts.ID]int
	}{
		"within the bounds":  {5 * each, 9 * each, map[contexts.ID]int{"a": 4, "b": 4}, map[contexts.ID]int{"a": 4, "b": 4}},
		"one has too many":   {5 * each, 9 * each, map[contexts.ID]int{"a": 9, "b": 2}, map[contexts.ID]int{"a": 5, "b": 2}},
		"all have too many":  {5 * each, 7 * each, map[contexts.ID]int{"a": 5, "b": 3}, map[contexts.ID]int{"a": 4, "b": 3}},
		"both of these":      {5 * each, 6 * each, map[contexts.ID]int{"a": 9, "b": 2}, map[contexts.ID]int{"a": 4, "b": 2}},
		"one that is larger": {each / 2, 9 * each, map[contexts.ID]int{"a": 1}, map[contexts.ID]int{"a": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, begun := t.TempDir(), time.Now().Add(-time.Minute)
			for id, n := range c.ended {
				for i := range n {
					leave(t, dir, record{
						ID: fmt.Sprintf("p-%s%d", id, i), Command: Command{Context: id, Argv: []string{"true"}}, Started: begun,
						Exit: &Exit{Reason: Exited, Code: i, At: begun.Add(time.Duration(i) * time.Second)}, Sizes: [2]int64{each - 100, 100},
					}, strings.Repeat("x", each-100), strings.Repeat("y", 100))
				}
			}
			for range 2 { // the second engine finds what the first has left
				e, err := Open(t.Context(), Config{Dir: dir, Unfinished: Lost})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = e.Close() }) // the directory goes with the test
				e.maxOutput, e.maxAllOutput = c.most, c.all
				for id, n := range c.ended {
					e.wantOutputs(t, id, n, c.kept[id], each)
				}
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.out"))
			if want := c.kept["a"] + c.kept["b"]; err != nil || len(files) != want {
				t.Errorf("%d files, %v; want %d", len(files), err, want)
			}
		})
	}
}

// wantOutputs checks that all processes of a context are known, and that the newest have their output.
func (t *Processes) wantOutputs(tt *testing.T, id contexts.ID, ended, kept int, size int64) {
	tt.Helper()
	if list := t.List(id); len(list) != ended {
		tt.Errorf("context %s has %d processes, want %d", id, len(list), ended)
	}
	for i := range ended {
		p, err := t.Get(fmt.Sprintf("p-%s%d", id, i))
		if err != nil {
			tt.Fatal(err)
		}
		got := int64(0)
		err = p.Output(tt.Context(), [2]int64{}, Watching, func(o Output) error { got += int64(len(o.Data)); return nil })
		if isKept := i >= ended-kept; isKept && (err != nil || got != size) {
			tt.Errorf("%s: %d bytes, %v", p.ID, got, err)
		} else if f := (*fserr.Error)(nil); !isKept && (!errors.As(err, &f) || f.Code != fserr.ENOENT || !strings.Contains(f.Detail, "not kept any more")) {
			tt.Errorf("%s: %d bytes, %v", p.ID, got, err)
		}
		if p.Ended().Code != i || p.Written(Stdout)+p.Written(Stderr) != size {
			tt.Errorf("%s: exit %+v, %d bytes", p.ID, p.Ended(), p.Written(Stdout))
		}
	}
}

// TestDroppedOutputIsNotKeptByItsReaders drops an output, or removes its process, while a reader has the file open: the disk gets the space back, and
// the reader an error.
func TestDroppedOutputIsNotKeptByItsReaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drop func(e *Processes, p *Process)
		want string
	}{
		"dropped": {func(e *Processes, _ *Process) { e.maxOutput = 1; e.prune() }, "not kept any more"},
		"removed": {func(e *Processes, p *Process) { _ = e.Remove(p.ID) }, "was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			leave(t, dir, record{
				ID: "p-1", Command: Command{Context: "a"}, Exit: &Exit{Reason: Exited, At: time.Now()}, Sizes: [2]int64{3 * outputSize, 0},
			}, strings.Repeat("x", 3*outputSize), "")
			e := openEngine(t, dir)
			p, err := e.Get("p-1")
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(p.spools[Stdout].path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			sent := 0
			err = p.Output(t.Context(), [2]int64{}, Watching, func(Output) error {
				if sent++; sent == 1 {
					c.drop(e, p)
				}
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), c.want) || sent != 1 {
				t.Errorf("%d parts, %v", sent, err)
			}
			if st, err := file.Stat(); err != nil || st.Size() != 0 {
				t.Errorf("the file still has %d bytes, %v", st.Size(), err)
			}
		})
	}
}

// TestExitIsKnownWhenTheContextIsFree waits for the context of a command, as Restore and DeleteContext do: the process has ended then.
func TestExitIsKnownWhenTheContextIsFree(t *testing.T) {
	t.Parallel()
	e := openEngine(t, t.TempDir())
	p := &Process{ID: "p-1", table: e, box: &box{init: -1}, done: make(chan struct{}), input: make(chan struct{}, 1)}
	for i := range p.spools {
		p.spools[i] = testSpool(t)
		p.spools[i].end()
	}
	seen := make(chan bool, 1)
	p.finish(Exit{Reason: ContextClosed}, contexts.NewRemoteAccess(t.Context(), nil, 0, nil, func() { seen <- p.Ended() != nil }))
	if !<-seen {
		t.Error("the process runs for a caller that got the context")
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

package faults

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
)

// TestADiskThatHangs has one panel's calls hang in the kernel, more of them than there are processors.
func TestADiskThatHangs(t *testing.T) {
	d := faultyDisk(t)
	p := begin(t, d.use)
	f := p.panel("panels/writer")
	must(t, f.WriteFile("slow", []byte(kept), 0o644))
	must(t, f.WriteFile("quick", []byte(kept), 0o644))
	h, err := f.OpenFile("slow", os.O_RDWR, 0)
	must(t, err)
	d.fault("read,write,open,getattr,setattr", "panels~writer/slow", "hang")
	ctx, cancel := context.WithCancel(t.Context())
	calls := hangs(f.With(ctx))
	type outcome struct {
		call string
		err  error
	}
	ended := make(chan outcome, len(calls))
	var all sync.WaitGroup
	for what, call := range calls {
		all.Go(func() {
			err := call()
			if ctx.Err() == nil {
				t.Errorf("%s did not hang: %v", what, err)
			}
			ended <- outcome{what, err}
		})
	}
	for range 3 {
		p.othersGoOn()
		wantFile(t, f, "quick", kept)
		must(t, f.WriteFile("quick", []byte(kept), 0o644))
	}
	cancel()
	for late := time.After(patience); len(calls) > 0; {
		select {
		case o := <-ended:
			if !errors.Is(o.err, context.Canceled) {
				t.Errorf("%s was cancelled, and says %v", o.call, o.err)
			}
			delete(calls, o.call)
		case <-late:
			d.heal()
			t.Fatalf("cancelled calls go on while the disk hangs: %v", slices.Collect(maps.Keys(calls)))
		}
	}
	all.Wait()
	p.othersGoOn()
	d.heal()
	must(t, writes(h))
	must(t, h.Close())
	wantFile(t, f, "slow", "x"+kept[1:])
	wantFile(t, f, "quick", kept)
}

// hangs are calls on a file that hangs, of each kind.
func hangs(f *client.FS) map[string]func() error {
	return map[string]func() error{
		"readFile":   func() error { return second(f.ReadFile("slow")) },
		"chmod":      func() error { return f.Chmod("slow", 0o600) },
		"truncate":   func() error { return f.Truncate("slow", int64(len(kept))) },
		"readStream": func() error { return readAll(f, "slow") },
		"copyFile":   func() error { return second(f.CopyFile("slow", "copy", 0)) },
		"appendFile": func() error { return f.AppendFile("slow", nil, 0o644) },
	}
}

// TestAStopWhileTheDiskHangs does not wait for the disk, and what was acknowledged is there at the next start.
func TestAStopWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	d := faultyDisk(t)
	cfg := d.config(t)
	p := beginWith(t, cfg)
	f := p.panel("panels/writer")
	must(t, f.WriteFile("slow", []byte(kept), 0o644))
	must(t, f.WriteFile("quick", []byte(kept), 0o644))
	d.fault("read,open,getattr", "panels~writer/slow", "hang")
	ended := make(chan error, 1)
	go func() { ended <- second(f.ReadFile("slow")) }()
	p.othersGoOn()
	must(t, f.WriteFile("quick", []byte(kept), 0o644))
	if err := p.leave(); err == nil || !strings.Contains(err.Error(), "hang in the kernel") {
		t.Errorf("the stop says %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the call that hung was answered")
	}
	d.heal() // which is as good as the end of the process
	p.gone()
	p = beginWith(t, cfg)
	f = p.panel("panels/writer")
	wantFile(t, f, "slow", kept)
	wantFile(t, f, "quick", kept)
}

// gone waits until no server has the workspace.
func (p *play) gone() {
	p.Helper()
	eventually(p, "the workspace is given back", func() bool {
		_, err := os.Lstat(filepath.Join(p.Info().ContextsDir, ".ctxfs", "server.json"))
		return errors.Is(err, os.ErrNotExist)
	})
}

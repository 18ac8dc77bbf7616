package ledger

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// unchanging are the methods of FsService that change nothing a restart could lose: what reads, what only makes sure, and the ways to
// send the others. A method that is not here must be in the load.
var unchanging = []string{
	"ReadFile", "Readdir", "Opendir", "Stat", "Lstat", "Statfs", "Access", "Exists", "Realpath", "Readlink", "Watch", "Glob", "Grep",
	"Read", "Readv", "Fstat", "Fsync", "Fdatasync", "ListHandles", "ReadStream", "Session", "Hold",
}

// TestEveryOperation does each operation of the load some times, looks at the disk after each, and at the audit log at the end: each
// method that changes something was called.
func TestEveryOperation(t *testing.T) {
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			l := newLoad(t, driver, 1, 1)
			l.audit = filepath.Join(t.TempDir(), "audit.log")
			l.serially(6)
			called := methods(t, l.audit)
			list := ctxfsv1.File_ctxfs_v1_fs_proto.Services().ByName("FsService").Methods()
			for i := range list.Len() {
				name := string(list.Get(i).Name())
				if !slices.Contains(unchanging, name) && !called[name] {
					t.Errorf("%s is not in the load, and not among what changes nothing", name)
				}
			}
			for _, name := range hostMethods {
				if !called[name] {
					t.Errorf("%s is not in the load", name)
				}
			}
		})
	}
}

// hostMethods are what hosts do to contexts and panels.
var hostMethods = []string{
	"EnsureContext", "Fork", "Snapshot", "Restore", "DeleteSnapshot", "DeleteContext", "CollectGarbage", "OpenPanel", "ClosePanel",
}

// serially does each operation so many times, where it is possible, with a look at the disk after each.
func (l *load) serially(times int) {
	t := l.t
	t.Helper()
	p, err := start(l.w.dir, l.driver, l.audit)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := p.dial(ctx)
	must(t, err)
	l.host.round = "round 0\n"
	must(t, l.settle(ctx, c))
	lane := l.panels[0].lanes[0]
	for i := range times * len(operations()) {
		all := operations()
		steps := all[i%len(all)].plan(lane)
		if len(steps) == 0 {
			continue
		}
		before := lane.state
		lane.run(steps)
		if lane.err != nil {
			t.Fatalf("%s: %v", lane.flight.name, lane.err)
		}
		got, err := l.w.folder(l.panels[0].contextID())
		must(t, err)
		if d := differ(lane.state, got.below(lane.name)); d != "" {
			t.Fatalf("%s: %s; before it was %v", all[i%len(all)].name, d, before)
		}
	}
	all := l.host.operations()
	for i := range 3 * len(all) {
		l.host.once(all[i%len(all)])
		must(t, l.host.err)
	}
	_, err = l.host.settle(ctx, c)
	must(t, err)
	must(t, c.Close())
	must(t, p.end(syscall.SIGTERM))
}

// methods reads from an audit log which were called, and succeeded.
func methods(t testing.TB, path string) map[string]bool {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	out := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct{ Op, Result string }
		must(t, json.Unmarshal(lines.Bytes(), &e))
		if e.Result == "ok" {
			out[e.Op] = true
		}
	}
	return out
}

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/contexts/zones"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func fdName(f *os.File) string { return strconv.Itoa(int(f.Fd())) }

// names is a set of methods.
func names(list string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		set[name] = true
	}
	return set
}

var (
	// onLinks are the methods that act on a final link itself, or make something beside it.
	onLinks = names("Lstat Readlink Unlink Rename Rm Rmdir Lchown Lutimes Link Symlink Mkdtemp Cp")
	// openers are the methods that open a file for its content.
	openers = names("ReadFile WriteFile AppendFile Truncate Open ReadStream WriteStream CopyFile Readdir Opendir")
	// trees are the methods that may fail halfway.
	trees = names("Mkdir Rm Cp")
	// readers change nothing that would have to be planted anew.
	readers = names("ReadFile Readdir Opendir Stat Lstat Statfs Access Exists Realpath Readlink Watch WatchChanges Glob Grep ReadStream Export")
)

// how says which of a path's calls must fail.
type how struct {
	paths []string
	fails func(r request) bool
}

func (r row) tries() []how {
	return []how{
		{r.through, func(request) bool { return true }},
		{r.at, func(q request) bool { return !onLinks[q.name()] }},
		{r.special, func(q request) bool { return openers[q.name()] && q.aimed == "path" && !isAtomic(q) }},
		{r.look, func(request) bool { return false }},
	}
}

// isAtomic reports whether a request is an atomic write, which replaces a file of any type.
func isAtomic(q request) bool {
	a, ok := q.msg.(interface{ GetAtomic() bool })
	return ok && a.GetAtomic()
}

// attack tries a row, and returns what got out. It counts the calls.
func (w *world) attack(r row, calls *int) []string {
	mode := r.mode
	if mode == 0 {
		mode = 0o777
	}
	w.replant(r)
	for _, h := range r.tries() {
		for i, path := range h.paths {
			for k, q := range requests(w.T, path, mode) {
				if w.leavesOut(i + k) {
					continue
				}
				*calls++
				if w.try(q, path, h.fails(q)) {
					w.renew(r)
				}
			}
			w.tryHTTP(path, len(h.paths) > 0 && h.fails(httpRequest))
			*calls += 2
			w.renew(r)
		}
	}
	w.replant(row{})
	w.checkAll(r.name)
	return w.takeLeaks()
}

// renew checks what the last calls changed in the context, and restores the content that the row requires.
func (w *world) renew(r row) {
	w.checkInside(r.name, r.planted)
	w.replant(r)
}

// leavesOut shares the calls among the worlds while there is no time for all. Of the naive
// rootfs one leak is enough.
func (w *world) leavesOut(n int) bool {
	if w.cfg.open != nil {
		return w.leaking()
	}
	return attackTime() == quick && w.shared && n%turns != w.cfg.turn%turns
}

// httpRequest stands for GET and PUT /v1/content when a row says what must fail.
var httpRequest = request{method: methodNamed("ReadStream"), msg: &ctxfsv1.ReadStreamRequest{}, aimed: "path"}

func methodNamed(name protoreflect.Name) protoreflect.MethodDescriptor {
	return ctxfsv1.File_ctxfs_v1_fs_proto.Services().ByName("FsService").Methods().ByName(name)
}

// try makes one call, and uses what the call returned in further calls. It reports whether the context may have changed.
func (w *world) try(q request, path string, mustFail bool) (changed bool) {
	replies, err := w.caller.call(q)
	if err != nil || len(replies) == 0 {
		return trees[q.name()]
	}
	if mustFail && reached(q, replies) {
		w.leak("%s %q reached something by its %s: %.200v", q.name(), path, q.aimed, replies)
	}
	if opened, ok := replies[0].(*ctxfsv1.OpenResponse); ok {
		w.useHandle(opened.GetFd())
	}
	if q.aimed == "path" && q.msg.ProtoReflect().Descriptor().Fields().ByName("dest") != nil || q.aimed == "target" {
		w.follow("ReadFile", &ctxfsv1.ReadFileRequest{Path: freshName})
		w.follow("Readdir", &ctxfsv1.ReaddirRequest{Path: freshName, Recursive: true, WithStats: true})
	}
	return !readers[q.name()]
}

// reached reports whether a call that should fail had an effect, or found something. The target of a new link does not count:
// a link may name anything until a call follows it.
func reached(q request, replies []proto.Message) bool {
	switch m := replies[0].(type) {
	case *ctxfsv1.BatchResponse:
		return q.aimed != "target" && q.step != "Rm" // with force it says nothing; what is outside is looked at
	case *ctxfsv1.WatchChangesResponse:
		return m.GetReady() == nil // the path selects changes, and is not looked up
	case *ctxfsv1.ExistsResponse:
		return m.GetExists()
	case *ctxfsv1.RmResponse:
		return m.GetRemoved() > 0
	case *ctxfsv1.MkdtempResponse:
		return false // of a prefix, which may stand for a name of its own; what appears outside is seen there
	}
	return q.aimed != "target"
}

func (w *world) follow(method protoreflect.Name, msg proto.Message) {
	_, _ = w.caller.call(request{method: methodNamed(method), msg: msg}) // checked by the caller
}

func (w *world) useHandle(fd int32) {
	w.follow("Read", &ctxfsv1.ReadRequest{Fd: fd, Position: proto.Int64(0)})
	w.follow("Fstat", &ctxfsv1.FstatRequest{Fd: fd})
	w.follow("ListHandles", &ctxfsv1.ListHandlesRequest{})
	w.follow("Close", &ctxfsv1.CloseRequest{Fd: fd})
}

// outsideFD names a descriptor of this process that leads outside.
func (w *world) outsideFD() string {
	if w.out == nil {
		f, err := os.Open(w.in("outside"))
		w.must(err)
		w.out = f
		w.Cleanup(func() { _ = f.Close() })
	}
	return fdName(w.out)
}

// TestPaths tries every row by every driver and implementation.
func TestPaths(t *testing.T) {
	calls, leaks, cases := 0, 0, 0
	all := configs(t)
	for _, cfg := range all {
		t.Run(cfg.String(), func(t *testing.T) {
			w := newWorld(t, cfg)
			w.shared = len(all) == 4
			w.attack(row{name: "warm up", look: []string{"d"}}, new(int))
			base := w.resources()
			for _, r := range rows(w) {
				cases++
				found := w.attack(r, &calls)
				w.checkHeld(r.name, base)
				for _, l := range append(found, w.takeLeaks()...) {
					leaks++
					t.Errorf("%s: %s", r.name, l)
				}
			}
			w.checkResources(base)
			w.report()
		})
	}
	fmt.Printf("attack: %d path cases (%d calls), %d leaks\n", cases, calls, leaks)
}

// TestZonePaths makes the attacks of TestPaths on a context with two zones. What leads from zone to zone stays inside. While there is no time for
// all, the zones of both kinds share what openat2 has to refuse in any context.
func TestZonePaths(t *testing.T) {
	calls, leaks, cases := 0, 0, 0
	for _, cfg := range []config{
		{driver: "copy", implementation: "openat2", transport: "session", zones: zones.Sandboxed},
		{driver: "copy", implementation: "openat2", transport: "unary", zones: zones.Direct, turn: 1},
		{driver: "copy", implementation: "walk", transport: "websocket", zones: zones.Direct},
	} {
		t.Run(string(cfg.zones)+"-"+cfg.implementation, func(t *testing.T) {
			w := newWorld(t, cfg)
			ofZones := zoneRows(w)
			for i, r := range append(ofZones, rows(w)...) {
				w.shared = i >= len(ofZones) && cfg.implementation == "openat2"
				cases++
				for _, l := range append(w.attack(r, &calls), w.takeLeaks()...) {
					leaks++
					t.Errorf("%s: %s", r.name, l)
				}
			}
			w.report()
		})
	}
	fmt.Printf("attack: %d path cases in zones (%d calls), %d leaks\n", cases, calls, leaks)
}

// zoneRows are attacks that only zones have: names beside them, and in a direct zone git's own directory, by all its names and by links.
func zoneRows(w *world) []row {
	all := []row{{
		name: "beside the zones", plant: func(w *world) { w.plantSecrets(filepath.Join(w.dir, "beside")) }, planted: map[string]bool{"beside": true},
		through: []string{"beside/target", "/beside", "d/../beside/target", "e/../d/../beside", "new", "new/x"},
	}}
	if w.cfg.zones == zones.Direct {
		all = append(all, row{
			name: "git's own directory", planted: map[string]bool{"d/in/.git": true}, plant: func(w *world) {
				w.plantSecrets(filepath.Join(w.dir, "d/in/.git"))
				w.link("in/.git", "d/l")
				w.link("../d/in/.git", "e/l")
			},
			through: []string{"d/in/.git/target", "d/in/.GIT/target", "d/in/.git./new", "d/in/git~1/new", "d/l/target", "d/l/new", "e/l/target", "e/../d/in/.git/sub/target", "d/in/.git", "d/.git", "d/.git/hooks/pre-commit"},
		})
	}
	return all
}

// TestNaivePaths shows that the rows can fail: well over half of them must, with a rootfs that checks words.
func TestNaivePaths(t *testing.T) {
	w := newWorld(t, config{driver: "copy", implementation: "naive", transport: "unary", open: openNaive})
	caught, all := 0, rows(w)
	var missed []string
	for _, r := range all {
		if found := w.attack(r, new(int)); len(found) > 0 {
			caught++
			t.Logf("%s: %d, %s", r.name, len(found), found[0])
		} else {
			missed = append(missed, r.name)
		}
		w.repair()
	}
	fmt.Printf("attack: naive rootfs: caught in %d of %d path rows\n", caught, len(all))
	t.Logf("not caught: %q", missed)
	if caught*10 < len(all)*6 {
		t.Errorf("the naive rootfs was caught in %d of %d rows alone", caught, len(all))
	}
}

// repair undoes what an attack did outside.
func (w *world) repair() {
	w.Helper()
	for path := range w.snapshot().files {
		if _, known := w.before.files[path]; !known {
			w.must(os.RemoveAll(path))
		}
	}
	w.plantOutside()
	w.before = w.snapshot()
}

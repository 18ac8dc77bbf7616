package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// mover changes what a path leads to, over and over, while operations use it. It works on
// disk, as a program in the context would.
type mover struct {
	name string
	// plant makes what is moved.
	plant func(w *world) error
	// turn is one change and its reverse.
	turn func(dir string) error
	// paths lead to a directory that is sometimes not there, sometimes outside.
	paths []string
}

// arena is what the races' links lead to, from the top of the context.
const arena = "../../../outside"

func movers() []mover {
	return []mover{
		{name: "exchange of a directory and a link", plant: plantPair, turn: exchange, paths: []string{"r/x", "r/y"}},
		{name: "unlink and relink", plant: plantPair, turn: relink, paths: []string{"r/x"}},
		{name: "ancestor moved out", plant: plantAncestor, turn: moveAncestor, paths: []string{"r/anc/x/up", "anc/x/up"}},
	}
}

// fillDir makes the content of the directory that is inside.
func fillDir(dir string) error {
	err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
	for _, name := range []string{"target", "sub/target"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte("inside"), 0o644))
	}
	return err
}

func plantPair(w *world) error {
	return errors.Join(fillDir(filepath.Join(w.dir, "r/x")), os.Symlink("../"+arena, filepath.Join(w.dir, "r/y")))
}

func exchange(dir string) error {
	x, y := filepath.Join(dir, "r/x"), filepath.Join(dir, "r/y")
	swap := func() error { return unix.Renameat2(unix.AT_FDCWD, x, unix.AT_FDCWD, y, unix.RENAME_EXCHANGE) }
	return errors.Join(swap(), swap())
}

func relink(dir string) error {
	x, away := filepath.Join(dir, "r/x"), filepath.Join(dir, "r/away")
	return errors.Join(os.Rename(x, away), os.Symlink("../"+arena, x), os.Remove(x), os.Rename(away, x))
}

// plantAncestor makes a link that leads to a directory of the context, and outside once
// the directory that it stands in has moved up.
func plantAncestor(w *world) error {
	x := filepath.Join(w.dir, "r/anc/x")
	return errors.Join(fillDir(filepath.Join(w.dir, "in")), os.MkdirAll(x, 0o755), os.Symlink("../../../in", filepath.Join(x, "up")))
}

func moveAncestor(dir string) error {
	from, to := filepath.Join(dir, "r/anc"), filepath.Join(dir, "anc")
	return errors.Join(os.Rename(from, to), os.Rename(to, from))
}

// race is one operation, done again and again on a directory at path.
type race struct {
	name string
	do   func(c *racer, path string, n int)
}

// racer makes a race's calls.
type racer struct {
	w    *world
	fs   ctxfsv1.FsServiceClient
	ctx  context.Context //nolint:containedctx // of the race
	done atomic.Int64
}

// saw checks what a call returned.
func (c *racer) saw(what string, m proto.Message, err error) bool {
	c.done.Add(1)
	if err != nil {
		c.w.checkBytes(what+"'s error", []byte(err.Error()))
		return false
	}
	c.w.checkReply(what, m)
	return true
}

func races() []race {
	return []race{
		{"read", func(c *racer, p string, _ int) {
			m, err := c.fs.ReadFile(c.ctx, &ctxfsv1.ReadFileRequest{Path: p + "/target"})
			c.saw("readFile", m, err)
		}},
		{"write", func(c *racer, p string, n int) {
			m, err := c.fs.WriteFile(c.ctx, &ctxfsv1.WriteFileRequest{Path: p + "/target", Atomic: n%3 == 0, Content: &ctxfsv1.WriteFileRequest_Text{Text: "overwritten"}})
			c.saw("writeFile", m, err)
		}},
		{"open", raceOpen},
		{"mkdir -p", func(c *racer, p string, n int) {
			m, err := c.fs.Mkdir(c.ctx, &ctxfsv1.MkdirRequest{Path: fmt.Sprintf("%s/new%d/x", p, n%50), Recursive: true})
			c.saw("mkdir", m, err)
		}},
		{"rm -r", func(c *racer, p string, _ int) {
			m, err := c.fs.Rm(c.ctx, &ctxfsv1.RmRequest{Path: p + "/sub", Recursive: true, Force: true})
			c.saw("rm", m, err)
			_, _ = c.fs.Mkdir(c.ctx, &ctxfsv1.MkdirRequest{Path: p + "/sub/y", Recursive: true}) // to be removed the next time
		}},
		{"cp -r", func(c *racer, p string, n int) {
			m, err := c.fs.Cp(c.ctx, &ctxfsv1.CpRequest{Path: p, Dest: "copied", Recursive: true, Dereference: n%2 == 0})
			c.saw("cp", m, err)
			m, err = c.fs.Cp(c.ctx, &ctxfsv1.CpRequest{Path: "src", Dest: p + "/sub", Recursive: true})
			c.saw("cp", m, err)
		}},
		{"rename", func(c *racer, p string, _ int) {
			m, err := c.fs.Rename(c.ctx, &ctxfsv1.RenameRequest{Path: p + "/target", Dest: "r/stolen"})
			c.saw("rename", m, err)
			m, err = c.fs.Rename(c.ctx, &ctxfsv1.RenameRequest{Path: "r/stolen", Dest: p + "/target"})
			c.saw("rename", m, err)
		}},
		{"chmod", func(c *racer, p string, n int) {
			m, err := c.fs.Chmod(c.ctx, &ctxfsv1.ChmodRequest{Path: p + "/target", ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: 0o640 + uint32(n%8)}})
			c.saw("chmod", m, err)
		}},
		{"utimes", func(c *racer, p string, n int) {
			at := proto.Int64(int64(n) * 1e9)
			m, err := c.fs.Utimes(c.ctx, &ctxfsv1.UtimesRequest{Path: p + "/target", AtimeNs: at, MtimeNs: at})
			c.saw("utimes", m, err)
		}},
		{"readdir -r", func(c *racer, p string, n int) {
			m, err := c.fs.Readdir(c.ctx, &ctxfsv1.ReaddirRequest{Path: either(n, p, "r"), Recursive: true, WithStats: true})
			c.saw("readdir", m, err)
		}},
		{"glob", func(c *racer, p string, n int) {
			s, err := c.fs.Glob(c.ctx, &ctxfsv1.GlobRequest{Path: either(n, p, "r"), Patterns: []string{"**"}})
			drain(c, "glob", s, err)
		}},
		{"grep", func(c *racer, p string, n int) {
			s, err := c.fs.Grep(c.ctx, &ctxfsv1.GrepRequest{Path: either(n, p, "r"), Pattern: "."})
			drain(c, "grep", s, err)
		}},
		{"watch", raceWatch},
		{"realpath", func(c *racer, p string, _ int) {
			m, err := c.fs.Realpath(c.ctx, &ctxfsv1.RealpathRequest{Path: p + "/target"})
			if c.saw("realpath", m, err) && !filepath.IsAbs(m.GetPath()) {
				c.w.leak("realpath is %q", m.GetPath())
			}
		}},
	}
}

func either(n int, a, b string) string {
	if n%2 == 0 {
		return a
	}
	return b
}

func raceOpen(c *racer, p string, _ int) {
	opened, err := c.fs.Open(c.ctx, &ctxfsv1.OpenRequest{Path: p + "/target", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}})
	if !c.saw("open", opened, err) {
		return
	}
	fd := opened.GetFd()
	read, err := c.fs.Read(c.ctx, &ctxfsv1.ReadRequest{Fd: fd, Position: proto.Int64(0)})
	c.saw("read", read, err)
	wrote, err := c.fs.Write(c.ctx, &ctxfsv1.WriteRequest{Fd: fd, Position: proto.Int64(0), Content: &ctxfsv1.WriteRequest_Text{Text: "inside"}})
	c.saw("write", wrote, err)
	closed, err := c.fs.Close(context.WithoutCancel(c.ctx), &ctxfsv1.CloseRequest{Fd: fd})
	c.saw("close", closed, err)
}

// drain takes a stream to its end.
func drain[T any](c *racer, what string, s grpc.ServerStreamingClient[T], err error) {
	for err == nil {
		var m *T
		if m, err = s.Recv(); err == nil {
			pm, _ := any(m).(proto.Message)
			c.saw(what, pm, nil)
		}
	}
	c.done.Add(1)
}

// raceWatch watches for a moment in which something happens outside.
func raceWatch(c *racer, p string, n int) {
	ctx, cancel := context.WithTimeout(c.ctx, 20*time.Millisecond)
	defer cancel()
	s, err := c.fs.Watch(ctx, &ctxfsv1.WatchRequest{Path: either(n, p, "r"), Recursive: n%4 < 2})
	for err == nil {
		var m *ctxfsv1.WatchResponse
		if m, err = s.Recv(); err == nil {
			c.saw("watch", m, nil)
			c.w.touchOutside()
		}
	}
	c.done.Add(1)
}

// touchOutside gives outside files the times that they have, which watches of them tell.
func (w *world) touchOutside() {
	for _, dir := range []string{w.in("outside"), w.in("ws", ".contexts", "in")} {
		name := filepath.Join(dir, "name-"+w.secret)
		if info, err := os.Lstat(name); err == nil {
			_ = os.Chtimes(name, info.ModTime(), info.ModTime()) // only to be told of
		}
	}
}

// race runs an operation against a mover for a while, and returns what got out.
func (w *world) race(r race, m mover, long time.Duration) (found []string, done int64) {
	w.Helper()
	w.replant(row{})
	w.file("src/file", "inside")
	w.must(m.plant(w))
	ctx, cancel := context.WithTimeout(w.attacker.ctx, long)
	defer cancel()
	c := &racer{w: w, fs: ctxfsv1.NewFsServiceClient(w.cc), ctx: ctx}
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ctx.Err() == nil && !w.leaking(); n++ {
			r.do(c, m.paths[n%len(m.paths)], n)
		}
		cancel()
	})
	for n := 0; ctx.Err() == nil; n++ {
		_ = m.turn(w.dir) // what an operation moved away comes back with fillDir
		if n%64 == 0 {
			_ = fillDir(filepath.Join(w.dir, homeOf(m)))
		}
	}
	all.Wait()
	w.checkInside(r.name+", "+m.name, nil)
	w.replant(row{})
	w.checkAll(r.name + ", " + m.name)
	return w.takeLeaks(), c.done.Load()
}

// homeOf is where a mover's inner directory is between its turns.
func homeOf(m mover) string {
	if len(m.paths) == 2 && m.paths[1] == "anc/x/up" {
		return "in"
	}
	return "r/x"
}

// TestRaces runs every operation against every mover, by every driver and implementation.
func TestRaces(t *testing.T) {
	all := configs(t)
	long := attackTime() / time.Duration(len(all))
	cases, leaks, done := 0, 0, int64(0)
	for _, cfg := range all {
		t.Run(cfg.String(), func(t *testing.T) {
			w := newWorld(t, cfg)
			w.race(races()[0], movers()[0], time.Millisecond)
			base := w.resources()
			for _, m := range movers() {
				for _, r := range races() {
					found, n := w.race(r, m, long)
					cases, leaks, done = cases+1, leaks+len(found), done+n
					for _, l := range found {
						t.Errorf("%s, %s: %s", r.name, m.name, l)
					}
				}
			}
			w.checkResources(base)
		})
	}
	fmt.Printf("attack: %d races (%d calls), %d leaks\n", cases, done, leaks)
}

// pairing is a race and its mover.
type pairing struct {
	race  race
	mover mover
}

func (p pairing) String() string { return p.race.name + ", " + p.mover.name }

// TestNaiveRaces shows that the races can fail. A busy machine gets a second, longer round.
func TestNaiveRaces(t *testing.T) {
	w := newWorld(t, config{driver: "copy", implementation: "naive", transport: "unary", open: openNaive})
	var all []pairing
	for _, m := range movers() {
		for _, r := range races() {
			all = append(all, pairing{race: r, mover: m})
		}
	}
	missed := w.missed(all, attackTime())
	enough := func() bool { return (len(all)-len(missed))*10 >= len(all)*6 }
	if !enough() {
		missed = w.missed(missed, 4*attackTime())
	}
	fmt.Printf("attack: naive rootfs: caught in %d of %d race rows\n", len(all)-len(missed), len(all))
	t.Logf("not caught: %v", missed)
	if !enough() {
		t.Errorf("the naive rootfs was not caught in %d of %d races", len(missed), len(all))
	}
}

// missed returns the races in which nothing was found.
func (w *world) missed(all []pairing, long time.Duration) (missed []pairing) {
	for _, p := range all {
		if found, _ := w.race(p.race, p.mover, long); len(found) == 0 {
			missed = append(missed, p)
			continue
		}
		w.repair()
	}
	return missed
}

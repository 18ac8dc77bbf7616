package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// race is one operation, done again and again on a directory at path.
type race struct {
	name string
	do   func(c *racer, path string, n int)
}

// racer makes a race's calls.
type racer struct {
	w   *world
	fs  ctxfsv1.FsServiceClient
	ctx context.Context //nolint:containedctx // of the race
	did tally
}

// saw checks and counts what a call returned.
func (c *racer) saw(what string, m proto.Message, err error) bool {
	c.look(what, m, err)
	c.did.count(what, err == nil && tells(m))
	return err == nil
}

// look checks what came back.
func (c *racer) look(what string, m proto.Message, err error) {
	if err != nil {
		c.w.checkBytes(what+"'s error", []byte(err.Error()))
		return
	}
	c.w.checkReply(what, m)
}

// tells reports whether a reply says that the call found something.
func tells(m proto.Message) bool {
	switch m := m.(type) {
	case *ctxfsv1.RmResponse:
		return m.GetRemoved() > 0
	case *ctxfsv1.GlobResponse:
		return m.GetMatches() != nil
	case *ctxfsv1.GrepResponse:
		return m.GetFile() != nil
	}
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
			c.saw(either(n%3, "atomic writeFile", "writeFile"), m, err)
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
		{"cp -r", raceCopy},
		{"rename", func(c *racer, p string, _ int) {
			m, err := c.fs.Rename(c.ctx, &ctxfsv1.RenameRequest{Path: p + "/target", Dest: "stolen"})
			c.saw("rename from it", m, err)
			m, err = c.fs.Rename(c.ctx, &ctxfsv1.RenameRequest{Path: "stolen", Dest: p + "/target"})
			c.saw("rename into it", m, err)
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
			m, err := c.fs.Readdir(c.ctx, &ctxfsv1.ReaddirRequest{Path: either(n%2, p, "r"), Recursive: true, WithStats: true})
			c.saw(either(n%2, "readdir", "readdir above"), m, err)
		}},
		{"glob", func(c *racer, p string, n int) {
			s, err := c.fs.Glob(c.ctx, &ctxfsv1.GlobRequest{Path: either(n%2, p, "r"), Patterns: []string{"**"}})
			drain(c, either(n%2, "glob", "glob above"), s, err, nil)
		}},
		{"grep", func(c *racer, p string, n int) {
			s, err := c.fs.Grep(c.ctx, &ctxfsv1.GrepRequest{Path: either(n%2, p, "."), Pattern: "."})
			drain(c, either(n%2, "grep", "grep above"), s, err, nil)
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

// either is a when n is 0.
func either(n int, a, b string) string {
	if n == 0 {
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

func raceCopy(c *racer, p string, n int) {
	m, err := c.fs.Cp(c.ctx, &ctxfsv1.CpRequest{Path: p, Dest: either(n%2, "followed", "copied"), Recursive: true, Dereference: n%2 == 0})
	c.saw(either(n%2, "cp -L from it", "cp from it"), m, err)
	m, err = c.fs.Cp(c.ctx, &ctxfsv1.CpRequest{Path: "src", Dest: p + "/sub", Recursive: true})
	c.saw("cp into it", m, err)
}

// drain takes a stream to its end. It worked when it told something.
func drain[T any](c *racer, what string, s grpc.ServerStreamingClient[T], err error, each func()) {
	told := false
	for err == nil {
		var m *T
		if m, err = s.Recv(); err == nil {
			pm, _ := any(m).(proto.Message)
			c.look(what, pm, nil)
			told = told || tells(pm)
			if each != nil {
				each()
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		c.look(what, nil, err)
	}
	c.did.count(what, told)
}

// raceWatch watches for a moment in which something happens outside.
func raceWatch(c *racer, p string, n int) {
	ctx, cancel := context.WithTimeout(c.ctx, 20*time.Millisecond) // clock: one of many short watches; none must see anything
	defer cancel()
	s, err := c.fs.Watch(ctx, &ctxfsv1.WatchRequest{Path: either(n%2, p, "r"), Recursive: n%4 < 2})
	drain(c, either(n%2, "watch", "watch above"), s, err, c.w.touchOutside)
}

// touchOutside sets the times of outside files to their old values, so that a watch of them would send an event.
func (w *world) touchOutside() {
	for _, dir := range []string{w.in("outside"), w.in("outside", "in"), w.in("ws", ".contexts", "in")} {
		name := filepath.Join(dir, "name-"+w.secret)
		if info, err := os.Lstat(name); err == nil {
			_ = os.Chtimes(name, info.ModTime(), info.ModTime()) // only to cause an event
		}
	}
}

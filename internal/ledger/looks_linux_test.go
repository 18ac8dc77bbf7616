package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// within bounds a stream of FsService, and ends it when it is left.
func (l *lane) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.ctx, time.Minute)
}

// listing is what an answer says of names, to be compared with the model. Content is not in it, but its size.
type listing map[string]fs.FileInfo

// equalListing compares what was listed of a directory with what the model holds there.
func (l *lane) equalListing(top string, recursive bool, got listing, err error) error {
	if err != nil {
		return err
	}
	want := l.state
	if top != "" {
		want = want.below(top)
	}
	count := 0
	for p, n := range want {
		if !recursive && path.Dir(p) != "." {
			continue
		}
		count++
		if err := equalInfo(path.Join(top, p), n, got[p]); err != nil {
			return err
		}
	}
	return equal("the number of entries in "+top, count, len(got), nil)
}

// equalInfo compares a name's attributes with the model's.
func equalInfo(at string, want node, info fs.FileInfo) error {
	if info == nil {
		return &wrongRead{at + " is missing"}
	}
	got := node{kind: info.Mode().Type(), perm: info.Mode().Perm(), text: want.text, mtime: info.ModTime().UnixNano()}
	if got.kind == fs.ModeSymlink {
		got.perm = 0
	}
	if d := differs(want, got); d != "" {
		return &wrongRead{at + " " + d}
	}
	if want.kind == 0 {
		return equal("the size of "+at, int64(len(want.text)), info.Size(), nil)
	}
	return nil
}

// list asks by the client, with stats.
func (l *lane) list(top string, recursive bool) error {
	entries, err := l.fsys.List(l.at(top), client.ListOptions{Recursive: recursive, Stats: true})
	got := listing{}
	for _, e := range entries {
		info, ierr := e.Info()
		err = errors.Join(err, ierr)
		got[relative(path.Join(l.prefix, top), e.Path())] = info
	}
	return l.equalListing(top, recursive, got, err)
}

// relative is p from top on.
func relative(top, p string) string { return p[min(len(p), len(top)+1):] }

func readDir(l *lane) []step {
	at := l.one(isDir)
	return reading("readdir", func() error { return l.list(at, false) }, at)
}

func readTree(l *lane) []step {
	return reading("readdir -r", func() error { return l.list("", true) })
}

// openDir lists as a stream, few entries at a time.
func openDir(l *lane) []step {
	return reading("opendir", func() error {
		ctx, cancel := l.within()
		defer cancel()
		s, err := l.raw.Opendir(ctx, &ctxfsv1.OpendirRequest{Path: l.prefix, Recursive: true, BufferSize: 3})
		var got []string
		for err == nil {
			var r *ctxfsv1.OpendirResponse
			r, err = s.Recv()
			for _, e := range r.GetEntries().GetEntries() {
				got = append(got, relative(l.prefix, path.Join(e.GetParentPath(), e.GetName())))
			}
		}
		return equalNames("opendir", l.state.paths(func(string, node) bool { return true }), got, unlessEnd(err))
	})
}

// stats asks all that can be asked of a name that is no link.
func stats(l *lane) []step {
	at := l.one(notLink)
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	n := l.state[at]
	info := func(call func(string) (fs.FileInfo, error)) func() error {
		return func() error {
			got, err := call(l.at(at))
			if err == nil {
				err = equalInfo(at, n, got)
			}
			return err
		}
	}
	c.read("stat", info(l.fsys.Stat))
	c.read("lstat", info(l.fsys.Lstat))
	c.read("access", func() error { return l.fsys.Access(l.at(at), client.AccessRead|client.AccessWrite) })
	c.read("realpath", func() error {
		got, err := l.fsys.Realpath(l.at(at))
		return equal("the real path of "+at, l.prefix+"/"+at, got, err)
	})
	c.read("statfs", func() error {
		got, err := l.fsys.Statfs(l.at(at))
		return equal("that blocks have a size", true, got.GetBsize() > 0, err)
	})
	return c.steps
}

// read adds a step that changes nothing.
func (c *chain) read(name string, do func() error) {
	c.then(name, nil, nil, do)
	c.steps[len(c.steps)-1].reads = true
}

// links asks what a link says, and whether there is something where it leads.
func links(l *lane) []step {
	at := l.one(isSymlink)
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	target := l.state[at].text
	c.read("readlink", func() error {
		got, err := l.fsys.Readlink(l.at(at))
		return equal("the target of "+at, target, got, err)
	})
	c.read("exists", func() error {
		got, err := l.fsys.Exists(l.at(at))
		_, there := l.state[path.Join(path.Dir(at), target)]
		return equal("that something is where "+at+" leads", there, got, err)
	})
	return c.steps
}

// readHandle reads what can be read of an open file.
func readHandle(l *lane) []step {
	at := l.one(isFile)
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	text := l.state[at].text
	off, length := l.part(text)
	var fd int32
	c.read("open to read", func() error { return l.rawOpen(&ctxfsv1.OpenRequest{Path: l.prefix + "/" + at}, &fd) })
	c.throughReader(at, text, off, length, &fd)
	c.read("list handles", func() error { return l.listed(fd, "") })
	c.read("close", func() error { return l.rawClose(fd, false) })
	return c.steps
}

// throughReader reads of a handle.
func (c *chain) throughReader(at, text string, off, length int, fd *int32) {
	l, start, size := c.l, int64(off), int64(length)
	want := text[off : off+length]
	c.read("read", func() error {
		r, err := l.raw.Read(l.ctx, &ctxfsv1.ReadRequest{Fd: *fd, Position: &start, Length: &size})
		return equalText(at, want, r.GetData(), err)
	})
	c.read("readv", func() error {
		half := size / 2
		r, err := l.raw.Readv(l.ctx, &ctxfsv1.ReadvRequest{Fd: *fd, Position: &start, Lengths: []int64{half, size - half}})
		return equalText(at, want, r.GetData(), err)
	})
	c.read("fstat", func() error {
		r, err := l.raw.Fstat(l.ctx, &ctxfsv1.FstatRequest{Fd: *fd})
		return equal("the size of "+at, int64(len(text)), r.GetStat().GetSize(), err)
	})
}

// listed makes sure that a handle is among those that are open, by a client instance.
func (l *lane) listed(fd int32, instance string) error {
	r, err := l.raw.ListHandles(l.ctx, &ctxfsv1.ListHandlesRequest{})
	for _, h := range r.GetHandles() {
		if h.GetFd() == fd {
			return equal("the instance of a handle", instance, h.GetClientInstance(), err)
		}
	}
	return equal("that an open handle is listed", true, false, err)
}

// hold has a handle under a lease of its own.
func hold(l *lane) []step {
	at, instance := l.one(isFile), "holds-"+l.name
	return reading("hold", func() error {
		ctx, cancel := l.within()
		defer cancel()
		s, err := l.raw.Hold(ctx, &ctxfsv1.HoldRequest{ClientInstance: instance})
		if err == nil {
			_, err = s.Recv()
		}
		var fd int32
		if err == nil {
			err = l.rawOpen(&ctxfsv1.OpenRequest{Path: l.prefix + "/" + at, ClientInstance: instance}, &fd)
		}
		if err == nil {
			err = l.listed(fd, instance)
		}
		if err == nil { // the lease would keep it: the next hold takes that up
			err = l.rawClose(fd, false)
		}
		return err
	}, at)
}

// watchOnly opens a watch and closes it.
func watchOnly(l *lane) []step {
	recursive := l.rng.IntN(2) == 0
	return reading("watch", func() error {
		w, err := l.fsys.Watch(l.name, recursive)
		if err != nil {
			return err
		}
		return w.Close()
	})
}

// feedEnd reads the feed of the context up to its end.
func feedEnd(l *lane) []step {
	return reading("feed", func() error {
		for n, err := range l.fsys.Feed(client.FeedOptions{Once: true}) {
			if err != nil {
				return err
			}
			if n.Kind == client.NoticeReady {
				return nil
			}
		}
		return &wrongRead{"the feed ended before it was ready"}
	})
}

// watchWrite awaits to be told of a file that is written.
func watchWrite(l *lane) []step {
	at, text := l.free(fileSlots), l.content()
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	var w *client.Watcher
	c.read("watch", func() (err error) {
		w, err = l.fsys.Watch(l.name, true)
		return err
	})
	c.then("writeFile", func(t tree) tree { return t.with(at, file(text, 0o644)) }, nil, func() error {
		err := l.fsys.WriteFile(l.at(at), []byte(text), 0o644)
		if err != nil {
			return errors.Join(err, w.Close())
		}
		return nil
	})
	c.read("await an event", func() error { return errors.Join(awaitEvent(w, at), w.Close()) })
	return c.steps
}

// awaitEvent waits until a watch reports an event for a name, or an overflow.
func awaitEvent(w *client.Watcher, name string) error {
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for {
		select {
		case e, ok := <-w.Events():
			if !ok {
				return fmt.Errorf("watch %s: it ended: %w", name, w.Err())
			}
			if e.Name == name || e.Kind == client.EventOverflow {
				return nil
			}
		case <-timer.C:
			return &wrongRead{"no event told of " + name}
		}
	}
}

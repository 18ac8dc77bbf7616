package ledger

import (
	"os"
	"time"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func attributeOperations() []operation {
	return []operation{
		{"chmod", chmod}, {"utimes", chtimes}, {"lutimes", lchtimes},
		{"chown", func(l *lane) []step { return chown(l, "chown", l.fsys.Chown, l.one(notLink)) }},
		{"lchown", func(l *lane) []step { return chown(l, "lchown", l.fsys.Lchown, l.one(isSymlink)) }},
	}
}

func notLink(p string, n node) bool { return !isSymlink(p, n) }

func chmod(l *lane) []step {
	at := l.one(notLink)
	perm := pick(l, anyPerms)
	if at == "" {
		return nil
	}
	return single(step{
		name: "chmod", after: l.state.changed(at, func(n *node) { n.perm = perm }),
		do: func() error { return l.fsys.Chmod(l.at(at), perm) },
	})
}

// someTime is one that no clock gives now.
func (l *lane) someTime() time.Time { return time.Unix(1e9+l.rng.Int64N(1e8), l.rng.Int64N(1e9)) }

func times(l *lane, name string, call func(string, time.Time, time.Time) error, at string) []step {
	if at == "" {
		return nil
	}
	when := l.someTime()
	return single(step{
		name: name, after: l.state.changed(at, func(n *node) { n.mtime = when.UnixNano() }),
		do: func() error { return call(l.at(at), when, when) },
	})
}

func chtimes(l *lane) []step  { return times(l, "utimes", l.fsys.Chtimes, l.one(isFile)) }
func lchtimes(l *lane) []step { return times(l, "lutimes", l.fsys.Lchtimes, l.one(isSymlink)) }

// chown gives to whom it belongs already, which anybody may.
func chown(l *lane, name string, call func(string, int, int) error, at string) []step {
	return single(step{name: name, do: func() error { return call(l.at(at), os.Getuid(), os.Getgid()) }}, at)
}

func handleOperations() []operation {
	return []operation{{"handle", onHandle}, {"handle of a new file", onNewHandle}, {"handle, vectors", onRawHandle}, {"atomic handle", onAtomicHandle}}
}

// chain is the steps of an operation that are being planned; state is what the last one leaves.
type chain struct {
	l     *lane
	state tree
	steps []step
}

// then adds a step; change, which may be nil, makes of the state before what is after.
func (c *chain) then(name string, change func(t tree) tree, partly partial, do func() error) {
	if change != nil {
		c.state = change(c.state)
	}
	c.steps = append(c.steps, step{name: name, after: c.state, partly: partly, do: do})
}

func onHandle(l *lane) []step {
	at := l.small()
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	var f *client.File
	c.then("open", nil, nil, func() (err error) {
		f, err = l.fsys.OpenFile(l.at(at), os.O_RDWR, 0)
		return err
	})
	c.throughHandle(at, func() *client.File { return f })
	return c.steps
}

func onNewHandle(l *lane) []step {
	at, perm := l.free(fileSlots), pick(l, filePerms)
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	made := func(t tree) tree { return t.with(at, file("", perm)) }
	if at == "" { // an old one is emptied
		at, flags = l.one(isFile), os.O_RDWR|os.O_TRUNC
		made = func(t tree) tree { return t.rewritten(at, "") }
	}
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	var f *client.File
	c.then("open to create", made, nil, func() (err error) {
		f, err = l.fsys.OpenFile(l.at(at), flags, perm)
		return err
	})
	c.throughHandle(at, func() *client.File { return f })
	return c.steps
}

// throughHandle does what can be done on an open file.
func (c *chain) throughHandle(at string, f func() *client.File) {
	l := c.l
	first, second, perm, when := l.text(60<<10), l.text(4<<10), pick(l, filePerms), l.someTime()
	off := l.rng.IntN(len(c.state[at].text) + 50)
	size := l.rng.IntN(100 << 10)
	c.write("write to a handle", at, first, 0, func() error {
		_, err := f().Write([]byte(first))
		return err
	})
	c.write("write at an offset", at, second, off, func() error {
		_, err := f().WriteAt([]byte(second), int64(off))
		return err
	})
	c.then("ftruncate", func(t tree) tree { return t.rewritten(at, sized(t[at].text, size)) }, nil, func() error { return f().Truncate(int64(size)) })
	c.then("fchmod", func(t tree) tree { return t.changed(at, func(n *node) { n.perm = perm }) }, nil, func() error { return f().Chmod(perm) })
	c.then("fchown", nil, nil, func() error { return f().Chown(os.Getuid(), os.Getgid()) })
	c.then("futimes", func(t tree) tree { return t.changed(at, func(n *node) { n.mtime = when.UnixNano() }) }, nil,
		func() error { return f().Chtimes(when, when) })
	if l.rng.IntN(4) == 0 { // the disk is slow
		c.then("fsync", nil, nil, func() error { return f().Sync() })
	}
	c.then("close", nil, nil, func() error { return f().Close() })
}

func (c *chain) write(name, at, text string, off int, do func() error) {
	c.then(name, func(t tree) tree { return t.rewritten(at, overlaid(t[at].text, text, off)) }, inPlace(at, text, off), do)
}

// onRawHandle uses what the Go client has no method for.
func onRawHandle(l *lane) []step {
	at := l.small()
	if at == "" {
		return nil
	}
	c := &chain{l: l, state: l.state}
	var fd int32
	open := &ctxfsv1.OpenRequest{Path: l.prefix + "/" + at, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}}
	c.then("open", nil, nil, func() error { return l.rawOpen(open, &fd) })
	a, b := l.text(20<<10), l.text(20<<10)
	start := int64(0)
	c.write("writev", at, a+b, 0, func() error {
		_, err := l.raw.Writev(l.ctx, &ctxfsv1.WritevRequest{Fd: fd, Position: &start, Buffers: [][]byte{[]byte(a), []byte(b)}})
		return err
	})
	c.write("writeFile to a handle", at, b, 0, func() error {
		_, err := l.raw.WriteFile(l.ctx, &ctxfsv1.WriteFileRequest{Fd: &fd, Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte(b)}})
		return err
	})
	c.then("fdatasync", nil, nil, func() error {
		_, err := l.raw.Fdatasync(l.ctx, &ctxfsv1.FdatasyncRequest{Fd: fd})
		return err
	})
	c.then("close", nil, nil, func() error { return l.rawClose(fd, false) })
	return c.steps
}

// onAtomicHandle writes a file that appears when it is committed, or never.
func onAtomicHandle(l *lane) []step {
	at, perm := l.free(fileSlots), uint32(0o644)
	after := l.state.with(at, file("", 0o644))
	if at == "" || l.rng.IntN(2) == 0 {
		if at = l.one(isFile); at == "" {
			return nil
		}
		after = l.replaced(at, "")
	}
	a, b := l.text(60<<10), l.text(60<<10)
	var fd int32
	c := &chain{l: l, state: l.state}
	c.then("open atomically", nil, nil, func() error {
		return l.rawOpen(&ctxfsv1.OpenRequest{
			Path: l.prefix + "/" + at, Atomic: true,
			FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}, ModeForm: &ctxfsv1.OpenRequest_Mode{Mode: perm},
		}, &fd)
	})
	for _, text := range []string{a, b} {
		c.then("write to an atomic handle", nil, nil, func() error {
			_, err := l.raw.Write(l.ctx, &ctxfsv1.WriteRequest{Fd: fd, Content: &ctxfsv1.WriteRequest_Data{Data: []byte(text)}})
			return err
		})
	}
	if l.rng.IntN(5) == 0 {
		c.then("close an atomic handle", nil, nil, func() error { return l.rawClose(fd, false) })
		return c.steps
	}
	c.then("commit", func(tree) tree { return after.changed(at, func(n *node) { n.text = a + b }) }, nil, func() error { return l.rawClose(fd, true) })
	return c.steps
}

func (l *lane) rawOpen(req *ctxfsv1.OpenRequest, fd *int32) error {
	r, err := l.raw.Open(l.ctx, req)
	*fd = r.GetFd()
	return err
}

func (l *lane) rawClose(fd int32, commit bool) error {
	_, err := l.raw.Close(l.ctx, &ctxfsv1.CloseRequest{Fd: fd, Commit: commit})
	return err
}

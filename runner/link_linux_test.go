package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// ends returns the two ends of a connection.
func ends(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]*net.UnixConn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*net.UnixConn) //nolint:forcetypeassert // it is one
		t.Cleanup(func() { _ = c.Close() })
	}
	return conns[0], conns[1]
}

type handler = func(op string, body json.RawMessage, reply func(any, *os.File, error))

// pair returns two links that are connected. handle answers the calls of the first.
func pair(t *testing.T, handle handler) *link {
	t.Helper()
	a, b := ends(t)
	caller, callee := newLink(a), newLink(b)
	caller.handle = func(string, json.RawMessage, func(any, *os.File, error)) { t.Error("the callee called") }
	callee.handle = handle
	for _, l := range []*link{caller, callee} {
		go l.serve()
		t.Cleanup(func() {
			_ = l.conn.Close()
			<-l.done
		})
	}
	return caller
}

func TestLinkCalls(t *testing.T) {
	t.Parallel()
	notes := make(chan string, 1)
	l := pair(t, func(op string, body json.RawMessage, reply func(any, *os.File, error)) {
		switch op {
		case "echo":
			go reply(body, nil, nil)
		case "file":
			r, w, err := os.Pipe()
			if err == nil {
				_, err = w.WriteString("through the link")
			}
			reply(nil, r, errors.Join(err, w.Close()))
			_ = r.Close()
		case "refuse":
			reply(nil, nil, &fserr.Error{Code: fserr.ENOENT, Path: "/x", Detail: "no such thing", Hint: "make one"})
		case "flood":
			reply(strings.Repeat("x", maxPacket), nil, nil)
		case "nonsense":
			reply(func() {}, nil, nil)
		case "note":
			notes <- string(body)
			reply("nobody waits", nil, nil)
		}
	})
	var n int
	if _, err := l.call(t.Context(), "echo", 42, &n); err != nil || n != 42 {
		t.Errorf("echo: %d, %v", n, err)
	}
	f, err := l.call(t.Context(), "file", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "through the link" {
		t.Errorf("file: %q, %v", text, err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a received file is inherited by commands: %v", err)
	}
	_ = f.Close()
	_, err = l.call(t.Context(), "refuse", nil, nil)
	var known *fserr.Error
	if !errors.As(err, &known) || known.Code != fserr.ENOENT || known.Path != "/x" || known.Hint != "make one" {
		t.Errorf("refuse: %#v", err)
	}
	l.note("note", "hello")
	if got := <-notes; got != `"hello"` {
		t.Errorf("note: %s", got)
	}
	if _, err := l.call(t.Context(), "echo", strings.Repeat("x", maxPacket), nil); err == nil {
		t.Error("a packet that is too large was sent")
	}
	for _, op := range []string{"flood", "nonsense"} {
		if _, err := l.call(t.Context(), op, nil, nil); err == nil || !strings.Contains(err.Error(), "the reply to "+op) {
			t.Errorf("a reply that cannot be sent: %v", err)
		}
	}
	if _, err := l.call(t.Context(), "echo", 1, &n); err != nil || n != 1 {
		t.Errorf("after all that: %d, %v", n, err)
	}
}

func TestLinkCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	called, late := make(chan struct{}), make(chan func(), 1)
	l := pair(t, func(op string, _ json.RawMessage, reply func(any, *os.File, error)) {
		if op == "now" {
			reply(nil, nil, nil)
			return
		}
		late <- func() { reply("late", os.Stdin, nil) }
		close(called)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-called
		cancel()
	}()
	if _, err := l.call(ctx, "never", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	(<-late)()
	if _, err := l.call(t.Context(), "now", nil, nil); err != nil {
		t.Errorf("after a reply that came too late: %v", err)
	}
}

func TestLinkEndFailsItsCalls(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(conn *net.UnixConn) error{
		"closed":  (*net.UnixConn).Close,
		"no JSON": func(c *net.UnixConn) error { _, err := c.Write([]byte("{")); return err },
		"too long": func(c *net.UnixConn) error {
			_, err := c.Write([]byte(`"` + strings.Repeat("x", maxPacket) + `"`))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := ends(t)
			l := newLink(a)
			go l.serve()
			failed := make(chan error, 1)
			go func() {
				_, err := l.call(t.Context(), "wait", nil, nil)
				failed <- err
			}()
			if _, err := b.Read(make([]byte, maxPacket)); err != nil {
				t.Fatal(err)
			}
			if err := end(b); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; !errors.Is(err, errGone) {
				t.Errorf("a call under way: %v", err)
			}
			<-l.done
			if _, err := l.call(t.Context(), "later", nil, nil); !errors.Is(err, errGone) {
				t.Errorf("a later call: %v", err)
			}
		})
	}
}

// TestContinuingOneCommandDelaysNoOtherCall has a command that takes long to continue: a shared sandbox may not take messages, for seconds.
func TestContinuingOneCommandDelaysNoOtherCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next, continued := make(chan struct{}), false
		paused := &heldLease{lease: lease{ID: 1}, resume: func() { <-next; continued = true }}
		h := &host{log: zap.NewNop(), gate: &remoteGate{leases: map[uint64]*heldLease{1: paused}}}
		noReply := func(any, *os.File, error) {}
		h.handle(nil, opResume, json.RawMessage("1"), noReply)
		h.handle(nil, opKeep, json.RawMessage("1"), func(any, *os.File, error) { close(next) })
		synctest.Wait()
		if !continued {
			t.Error("the command did not continue")
		}
	})
}

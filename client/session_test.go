package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// later runs f and returns its error by a channel.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	clocktest.Await(t, what, ok)
}

// wantTransport checks that err is the transport's, and what it says of the call.
func wantTransport(t *testing.T, err error, code codes.Code, may bool) {
	t.Helper()
	var broken *client.TransportError
	switch {
	case !errors.As(err, &broken):
		t.Errorf("%v is no *TransportError", err)
	case broken.Code != code || broken.MayHaveHappened != may:
		t.Errorf("%v: code %v, may have happened %t; want %v, %t", err, broken.Code, broken.MayHaveHappened, code, may)
	}
}

func TestServerRestartedBetweenCalls(t *testing.T) {
	t.Parallel()
	workspace := servertest.Workspace(t)
	var c *client.Client
	t.Run("before", func(t *testing.T) {
		address := servertest.Start(t, workspace, nil)
		var err error
		c, err = client.Dial(context.Background(), client.WithAddress(address), client.WithPanel("panels/test"))
		must(t, err)
		must(t, c.FS().WriteFile("a", []byte("x"), 0o644))
	})
	defer c.Close()
	wantTransport(t, c.FS().WriteFile("b", []byte("x"), 0o644), codes.Unavailable, false)
	t.Run("after", func(t *testing.T) {
		servertest.Start(t, workspace, nil)
		eventually(t, "the server is found again", func() bool { return c.FS().WriteFile("c", []byte("x"), 0o644) == nil })
	})
	t.Run("unnoticed", func(t *testing.T) {
		servertest.Start(t, workspace, nil)
		must(t, c.FS().WriteFile("d", []byte("x"), 0o644))
	})
}

// TestConnectionCut has the connection cut while replies are on their way.
func TestConnectionCut(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), nil)
	p, direct := newProxy(t, address), dialTo(t, address).FS()
	f := dialTo(t, p.address()).FS()
	must(t, f.WriteFile("before", []byte("x"), 0o644))
	p.hold(replies)
	write := later(func() error { return f.WriteFile("new", []byte("x"), 0o644) })
	stat := later(func() error { _, err := f.Stat("before"); return err })
	eventually(t, "the file is written", func() bool { ok, err := direct.Exists("new"); return ok && err == nil })
	p.cut()
	if err := <-write; err != nil {
		wantTransport(t, err, codes.Unavailable, true)
	} else {
		t.Error("a write whose reply was cut off succeeded")
	}
	must(t, <-stat)
	must(t, f.WriteFile("after", []byte("x"), 0o644))
	if n := p.connections(); n != 3 { // gRPC's, which nothing needs again, and the session's two
		t.Errorf("%d connections, want 3", n)
	}
}

// TestHandlesAreTheInstances has two windows of one panel; one loses its connection and
// comes back, the other ends.
func TestHandlesAreTheInstances(t *testing.T) {
	t.Parallel()
	p, stays := proxied(t, func(c *server.Config) { c.LeaseGrace = 10 * time.Second })
	must(t, stays.FS().WriteFile("a", []byte("0123456789"), 0o644))
	kept, err := stays.FS().OpenFile("a", os.O_RDONLY, 0)
	must(t, err)
	b := make([]byte, 5)
	_, err = kept.Read(b)
	must(t, err)
	ends := dialTo(t, p.address())
	lost, err := ends.FS().OpenFile("a", os.O_RDONLY, 0)
	must(t, err)

	must(t, ends.Close())
	p.cut()
	_, err = kept.Read(b)
	must(t, err)
	if string(b) != "56789" {
		t.Errorf("read %q after the connection came back", b)
	}
	eventually(t, "the other window's handle closes", func() bool {
		handles, err := stays.FS().Handles()
		must(t, err)
		return len(handles) == 1 && handles[0].GetFd() == kept.Fd()
	})
	_, err = stays.FS().FileOf(lost.Fd(), "a").Stat()
	if !errors.Is(err, fserr.EBADF) || !strings.Contains(err.Error(), "client instance is gone") {
		t.Errorf("the other window's handle: %v", err)
	}
	must(t, kept.Close())
}

// TestPanelCloseEndsItsSession closes a panel here: its handles close there, and its folder is still to be had.
func TestPanelCloseEndsItsSession(t *testing.T) {
	t.Parallel()
	c := dialTo(t, servertest.Start(t, servertest.Workspace(t), func(c *server.Config) { c.LeaseGrace = 50 * time.Millisecond }))
	p, err := c.OpenPanel(t.Context(), "panels/test")
	must(t, err)
	_, err = p.FS().OpenFile("README.md", os.O_RDONLY, 0)
	must(t, err)
	must(t, p.Close())
	eventually(t, "the handle closes", func() bool {
		handles, err := c.FS().Handles()
		must(t, err)
		return len(handles) == 0
	})
	_, err = p.FS().Stat("README.md")
	must(t, err)
}

// TestTokenRefresh has a session outlive the token that it began with: a watch would end with it. A machine may be too busy to refresh a token
// of some seconds in time; then the next one lives twice as long.
func TestTokenRefresh(t *testing.T) {
	t.Parallel()
	for life := 2 * time.Second; ; life *= 2 {
		err := outliveToken(t, life)
		if err == nil {
			return
		}
		if life > time.Minute {
			t.Fatalf("a session whose first token lived %v: %v", life, err)
		}
	}
}

// outliveToken watches for longer than the life of a token.
func outliveToken(t *testing.T, life time.Duration) error {
	t.Helper()
	p, err := dial(t).OpenPanel(t.Context(), "panels/test", client.TokenLife(life))
	must(t, err)
	w, err := p.FS().Watch(".", false)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // it may have ended already
	_, expires := p.Token()
	// clock: the first token expires meanwhile, however long that takes
	<-time.After(time.Until(expires) + 200*time.Millisecond)
	if err := p.FS().WriteFile("new", nil, 0o644); err != nil {
		return err
	}
	if ev, ok := <-w.Events(); !ok || ev.Name != "new" {
		return fmt.Errorf("the watch got %v, %w", ev, w.Err())
	}
	return nil
}

func TestCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		hold    direction
		content int
		calls   int
	}{
		{"for a reply", replies, 1, 1},
		{"for a connection that is stuck", requests, 100 << 10, 20},
		{"for its turn", replies, 1, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, cl := proxied(t, nil)
			must(t, cl.FS().WriteFile("f", nil, 0o644))
			p.hold(c.hold)
			ctx, cancel := context.WithCancel(t.Context())
			var calls []<-chan error
			for i := range c.calls {
				calls = append(calls, later(func() error {
					return cl.FS().With(ctx).WriteFile(fmt.Sprint(i), make([]byte, c.content), 0o644)
				}))
			}
			p.awaitHeld(c.hold)
			cancel()
			for _, call := range calls {
				if err := <-call; !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want context.Canceled", err)
				}
			}
			p.release()
			must(t, cl.FS().WriteFile("g", nil, 0o644))
			if n := p.connections(); n != 2 { // gRPC's and the session's
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestTenThousandAtOnce(t *testing.T) {
	t.Parallel()
	f := panel(t)
	var wg sync.WaitGroup
	for i := range 10_000 {
		wg.Go(func() {
			name, want := "README.md", error(nil)
			if i%3 == 0 {
				name, want = "missing", fserr.ENOENT
			}
			if _, err := f.Stat(name); !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
}

// TestSlowWatch leaves a watch unread while thousands of events arrive.
func TestSlowWatch(t *testing.T) {
	t.Parallel()
	f := panel(t)
	w, err := f.Watch(".", false)
	must(t, err)
	const files = 6000
	for i := range files {
		must(t, f.WriteFile(fmt.Sprintf("%05d", i), nil, 0o644))
		_, err := f.Stat("README.md")
		must(t, err)
	}
	last, overflow, n := "", false, 0
	for ev := range w.Events() {
		if overflow = ev.Kind == client.EventOverflow; overflow {
			break
		}
		if ev.Name < last {
			t.Fatalf("%q after %q", ev.Name, last)
		}
		last = ev.Name
		n++
	}
	if !overflow || n == 0 {
		t.Errorf("overflow %t after %d events, the last about %q: %v", overflow, n, last, w.Err())
	}
	must(t, w.Close())
}

// TestManyWatches has more watches than a session takes.
func TestManyWatches(t *testing.T) {
	t.Parallel()
	f := panel(t)
	var all []*client.Watcher
	for range 70 {
		w, err := f.Watch(".", false)
		must(t, err)
		all = append(all, w)
	}
	must(t, f.WriteFile("new", nil, 0o644))
	for _, w := range all {
		if ev := <-w.Events(); ev.Name != "new" {
			t.Errorf("%v, %v", ev, w.Err())
		}
		must(t, w.Close())
	}
}

func TestCloseWithCallsInFlight(t *testing.T) {
	t.Parallel()
	p, c := proxied(t, nil)
	f := c.FS()
	must(t, f.Mkdir("d", 0o755))
	w, err := f.Watch(".", false)
	must(t, err)
	p.hold(replies)
	var calls []<-chan error
	for i := range 300 { // more than may be under way
		calls = append(calls, later(func() error { return f.Mkdir(fmt.Sprintf("d/%d", i), 0o755) }))
	}
	p.awaitHeld(replies)
	must(t, c.Close())
	var sent int
	for _, call := range calls {
		err := <-call
		var broken *client.TransportError
		if !errors.As(err, &broken) || broken.Code != codes.Canceled {
			t.Fatalf("%v", err)
		}
		if broken.MayHaveHappened {
			sent++
		}
	}
	if sent == 0 {
		t.Error("no call may have happened")
	}
	for range w.Events() {
		continue
	}
	wantTransport(t, w.Err(), codes.Canceled, false)
	must(t, w.Close())
}

func TestContentThatNoSessionCarries(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]client.Option{"by a session": nil, "without": {client.WithoutSession()}} {
		t.Run(name, func(t *testing.T) {
			f := dialTo(t, servertest.Start(t, servertest.Workspace(t), nil), opts...).FS()
			for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 5 << 20} {
				want := bytes.Repeat([]byte("x"), size)
				must(t, f.WriteFile("f", want, 0o644))
				must(t, f.AppendFile("f", want, 0o644))
				file, err := f.OpenFile("f", os.O_RDWR, 0)
				must(t, err)
				_, err = file.WriteAt(want, int64(2*size))
				must(t, err)
				want = bytes.Repeat(want, 3)
				got := make([]byte, len(want))
				_, err = file.ReadAt(got, 0)
				must(t, err)
				must(t, file.Close())
				if whole, err := f.ReadFile("f"); err != nil || !bytes.Equal(whole, want) || !bytes.Equal(got, want) {
					t.Errorf("%d bytes came back as %d and %d: %v", len(want), len(whole), len(got), err)
				}
			}
		})
	}
}

// TestHandlesHaveAnInstanceBySession checks that handles have a client instance with a session, and none without.
func TestHandlesHaveAnInstanceBySession(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), nil)
	for _, c := range []struct {
		name string
		opts []client.Option
		want bool
	}{{"by a session", nil, true}, {"without", []client.Option{client.WithoutSession()}, false}} {
		t.Run(c.name, func(t *testing.T) {
			f := dialTo(t, address, c.opts...).FS()
			file, err := f.OpenFile("README.md", os.O_RDONLY, 0)
			must(t, err)
			handles, err := f.Handles()
			must(t, err)
			if len(handles) != 1 || handles[0].GetClientInstance() != "" != c.want {
				t.Errorf("handles %v", handles)
			}
			must(t, file.Close())
		})
	}
}

package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// wantOpen checks which of a panel's handles are open, by a session that has none.
func (s *talk) wantOpen(what string, fds ...int32) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("%s: handles %v are open", what, fds), func() bool {
		open := s.works(&ctxfsv1.ListHandlesRequest{}).GetListHandles().GetHandles()
		if len(open) != len(fds) {
			return false
		}
		for i, h := range open {
			if h.GetFd() != fds[i] {
				return false
			}
		}
		return true
	})
}

// TestAReloadClosesTheOldHandles reloads a panel: another instance begins before the old one's end is known.
func TestAReloadClosesTheOldHandles(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		old := begin(t, addr(r), token, "before")
		left := old.file("/a")
		s := begin(t, addr(r), r.openPanel(t, "p").GetToken(), "after")
		kept := s.file("/a")
		s.wantOpen("both windows are there", left, kept)
		old.cut()
		s.wantOpen("after the grace", kept)
		_, err := s.do(opFstat(left))
		wantError(t, err, codes.FailedPrecondition, "EBADF", "its client instance is gone")
		s.works(opFstat(kept))
	})
}

// TestALateEndOfAnOldStream has an instance come back before its old stream is known to have ended.
func TestALateEndOfAnOldStream(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		old, clock := begin(t, addr(r), token, "one"), begin(t, addr(r), token, "clock")
		fd, ticks := old.file("/a"), clock.file("/a")
		again := begin(t, addr(r), token, "one")
		if !again.ready.GetResumed() {
			t.Error("the lease was not resumed")
		}
		again.wantOpen("before", fd, ticks)
		old.cut()
		eventually(t, "the old stream has ended", func() bool { return r.sessions.Count() == 2 })
		clock.cut()
		again.wantOpen("a grace later", fd)
		again.works(opFstat(fd))
	})
}

// TestTwoWindowsOfAPanel checks that the one's end is not the other's.
func TestTwoWindowsOfAPanel(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		left, right := begin(t, addr(r), token, "left"), begin(t, addr(r), token, "right")
		l, rfd := left.file("/l"), right.file("/r")
		left.works(opWrite(l, "seen by both"))
		if got := right.works(opStat("/l")).GetStat().GetStat().GetSize(); got != 12 {
			t.Errorf("the other window sees %d bytes", got)
		}
		right.works(opFstat(l)) // one panel, one table
		left.cut()
		right.wantOpen("after the grace", rfd)
	})
}

// childEnv makes the test binary a client: its value is the transport, the address and a token.
const childEnv = "CTXFS_TEST_SESSION"

// TestClient is the client that TestAKilledClient kills.
func TestClient(t *testing.T) {
	t.Parallel()
	transport, rest, isChild := strings.Cut(os.Getenv(childEnv), " ")
	if !isChild {
		return
	}
	addr, token, _ := strings.Cut(rest, " ")
	begin := map[string]begin{"grpc": beginGRPC, "websocket": beginWeb}[transport]
	s := begin(t, addr, token, "child")
	fmt.Println("fd", s.file("/a"))
	_, _ = io.Copy(io.Discard, os.Stdin) // which ends with the parent, should that die first
}

func TestAKilledClient(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		s := begin(t, addr(r), token, "parent")
		_, transport, _ := strings.Cut(t.Name(), "/")
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClient$")
		child.Env = append(os.Environ(), childEnv+"="+transport+" "+addr(r)+" "+token)
		stdin, err := child.StdinPipe()
		s.must(err)
		defer func() { _ = stdin.Close() }()
		out, err := child.StdoutPipe()
		s.must(err)
		s.must(child.Start())
		var fd int32
		line, err := bufio.NewReader(out).ReadString('\n')
		s.must(err)
		if _, err := fmt.Sscanf(line, "fd %d", &fd); err != nil {
			t.Fatalf("the child said %q", line)
		}
		s.wantOpen("while it lives", fd)
		s.must(child.Process.Kill())
		_ = child.Wait() // "signal: killed"
		s.wantOpen("after the grace")
	})
}

// relay is a network between client and server, which can go.
type relay struct {
	net.Listener
	to    string
	done  sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
	// gone, once closed, lets nothing pass any more.
	gone chan struct{}
	// pace, when set, is how often 32 KiB pass to the client.
	pace time.Duration
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	return slowRelay(t, to, 0)
}

func slowRelay(t *testing.T, to string, pace time.Duration) *relay {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	y := &relay{Listener: l, to: to, gone: make(chan struct{}), pace: pace}
	y.done.Go(y.serve)
	t.Cleanup(func() {
		y.cut()
		y.done.Wait()
	})
	return y
}

func (y *relay) serve() {
	for {
		near, err := y.Accept()
		if err != nil {
			return
		}
		var d net.Dialer
		far, err := d.DialContext(context.Background(), "tcp", y.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		if c, ok := far.(*net.TCPConn); ok && y.pace > 0 {
			_ = c.SetReadBuffer(64 << 10)
		}
		y.mu.Lock()
		y.conns = append(y.conns, near, far)
		y.mu.Unlock()
		y.done.Go(func() { y.pass(near, far, y.pace) })
		y.done.Go(func() { y.pass(far, near, 0) })
	}
}

// pass copies. Once the network is gone it drops everything, and reports no error.
func (y *relay) pass(to, from net.Conn, pace time.Duration) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if pace > 0 {
			// clock: the network is slow
			<-time.After(pace)
		}
		select {
		case <-y.gone:
		default:
			_, _ = to.Write(buf[:n]) // its reader sees the end
		}
		if err != nil {
			return
		}
	}
}

// cut ends all connections.
func (y *relay) cut() {
	_ = y.Close()
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, c := range y.conns {
		_ = c.Close()
	}
}

func TestACutConnection(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		near, network := begin(t, addr(r), token, "near"), newRelay(t, addr(r))
		far := begin(t, network.Addr().String(), token, "far")
		near.wantOpen("while it lasts", far.file("/a"))
		network.cut()
		near.wantOpen("after the grace")
		if e := far.last(); e.err == nil {
			t.Error("the client was not told")
		}
	})
}

// TestAHalfOpenConnection swallows all that either end says, and answers nothing: the keepalive must find out.
func TestAHalfOpenConnection(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		cfg := sessionConfig(t)
		cfg.Keepalive = time.Second
		r := start(t, cfg)
		token := r.openPanel(t, "p").GetToken()
		near, network := begin(t, addr(r), token, "near"), newRelay(t, addr(r))
		far := begin(t, network.Addr().String(), token, "far")
		near.wantOpen("while it lasts", far.file("/a"))
		close(network.gone)
		near.wantOpen("after keepalive and grace")
	})
}

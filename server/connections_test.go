package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ctxfs/ctxfs/internal/accept"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// preface begins HTTP/2, with empty settings.
const preface = http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// dialPlain connects to an address, and ends the connection with the test.
func dialPlain(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// wantClosed reads until the server closes conn.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(clocktest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "i/o timeout") {
		t.Error("the server leaves the connection open")
	}
}

// TestConnectionsWithoutACallAreClosed has connections get to each stage before an authenticated call, and no further.
func TestConnectionsWithoutACallAreClosed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", encrypted), func(t *testing.T) {
			cfg := sessionConfig(t)
			cfg.Keepalive = time.Hour // no other bound ends them
			if encrypted {
				cfg.TLSCert, cfg.TLSKey = ca.files(t)
			}
			r := startDeps(t, cfg, Deps{HandshakeTime: time.Hour}, func(s *Server) {
				for _, g := range []*connGroup{s.conns.unix, s.conns.tcp, s.conns.http} {
					g.firstCallTime = 300 * time.Millisecond
				}
			})
			for stage, text := range map[string]string{
				"silent":               "",
				"half a preface":       "PRI * HTTP",
				"a preface":            preface,
				"half a frame":         preface + "\x00\x00\xff\x01\x04\x00\x00",
				"headers without end":  preface + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82",
				"half a request":       "GET /livez HTTP/1.1\r\nHost: localhost\r\n",
				"an unauthorized call": "GET /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
				"a body that is late":  "PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
				"an idle WebSocket":    "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
			} {
				for network, address := range map[string]string{"unix": r.Info().Addresses.Socket, "tcp": r.Info().Addresses.TCP[0], "http": r.Info().Addresses.HTTP} {
					if network == "unix" && strings.Contains(text, "/v1/content") {
						continue // the peer's user authorizes it there
					}
					t.Run(stage+" over "+network, func(t *testing.T) {
						t.Parallel()
						kind := network
						if network == "http" {
							kind = "tcp"
						}
						conn := dialPlain(t, kind, address)
						if encrypted && kind == "tcp" && stage != "silent" {
							conn = tls.Client(conn, &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, NextProtos: protocolOf(text)})
						}
						if _, err := io.WriteString(conn, text); err != nil {
							t.Fatal(err)
						}
						wantClosed(t, conn)
					})
				}
			}
		})
	}
}

func protocolOf(text string) []string {
	if strings.HasPrefix(text, "PRI") {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}

// TestAuthenticatedConnectionsStay makes a call over each kind of connection, and another one after the time for the first.
func TestAuthenticatedConnectionsStay(t *testing.T) {
	t.Parallel()
	r := startWith(t, sessionConfig(t), func(s *Server) {
		s.conns.unix.firstCallTime, s.conns.tcp.firstCallTime, s.conns.http.firstCallTime = time.Second, time.Second, time.Second
	})
	health, err := grpc_health_v1.NewHealthClient(r.host(t)).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Recv(); err != nil {
		t.Fatal(err)
	}
	token := r.openPanel(t, "p").GetToken()
	sessions := []*talk{
		beginWeb(t, r.Info().Addresses.HTTP, token, ""), beginWeb(t, r.Info().Addresses.TCP[0], token, ""), beginGRPC(t, r.Info().Addresses.TCP[0], token, ""),
	}
	silent := []net.Conn{
		dialPlain(t, "unix", r.Info().Addresses.Socket), dialPlain(t, "tcp", r.Info().Addresses.TCP[0]), dialPlain(t, "tcp", r.Info().Addresses.HTTP),
	}
	for _, conn := range silent {
		wantClosed(t, conn) // the sessions are older
	}
	for _, s := range sessions {
		s.works(opStat("/"))
	}
	r.stop()
	if _, err := health.Recv(); err != nil {
		t.Errorf("the host's health watch has ended before the server: %v", err)
	}
}

// TestSlowFirstCallIsNotTimedOut sends the first message of a connection in two halves, the second after the time for the
// first call.
func TestSlowFirstCallIsNotTimedOut(t *testing.T) {
	t.Parallel()
	r := startWith(t, sessionConfig(t), func(s *Server) { s.conns.tcp.firstCallTime = time.Second })
	token := r.openPanel(t, "p").GetToken()
	c := dialFrames(t, r.Info().Addresses.TCP[0])
	c.headers(1, false, ctxfsv1.FsService_Mkdir_FullMethodName, "authorization", bearerOf(token))
	message := "\x00\x00\x00\x00\x04\x12\x02/d"
	c.must(c.framer.WriteData(1, false, []byte(message[:5])))
	wantClosed(t, dialPlain(t, "tcp", r.Info().Addresses.TCP[0])) // a connection that is younger
	c.must(c.framer.WriteData(1, true, []byte(message[5:])))
	c.wantTrailer(1, "0")
}

// TestNewConnectionsReplaceSilentOnes connects more often than connections may be silent, and then makes calls.
func TestNewConnectionsReplaceSilentOnes(t *testing.T) {
	t.Parallel()
	const most = 8
	r := startWith(t, sessionConfig(t), func(s *Server) { s.conns.http.maxUnauthenticated, s.conns.tcp.maxUnauthenticated = most, most })
	token := r.openPanel(t, "p").GetToken()
	known := beginWeb(t, r.Info().Addresses.HTTP, token, "")
	var silent []net.Conn
	for range 3 * most {
		silent = append(silent, dialPlain(t, "tcp", r.Info().Addresses.HTTP))
	}
	for _, conn := range silent[:2*most] {
		wantClosed(t, conn)
	}
	eventually(t, "the newest are left", func() bool { return r.conns.http.countUnauthenticated() == most })
	known.works(opStat("/"))
	beginWeb(t, r.Info().Addresses.HTTP, token, "").works(opStat("/"))
	beginWeb(t, r.Info().Addresses.TCP[0], token, "").works(opStat("/"))
	want := fmt.Sprintf(`ctxfs_connections_refused_total{listener="http",reason="unauthenticated"} %d`, 2*most+1) // one more for the last session
	if text := r.metricsText(t); !strings.Contains(text, want) || !strings.Contains(text, `ctxfs_connections{listener="http"}`) {
		t.Errorf("/metrics lacks %s", want)
	}
}

// TestAFullListenerKeepsRoomForOtherPanels has a panel connect until it is refused; another panel still gets in.
func TestAFullListenerKeepsRoomForOtherPanels(t *testing.T) {
	t.Parallel()
	const most = 16
	r := startWith(t, sessionConfig(t), func(s *Server) { s.conns.tcp.max, s.conns.tcp.maxUnauthenticated = most, most/2 })
	greedy, other := r.openPanel(t, "greedy").GetToken(), r.openPanel(t, "other").GetToken()
	stat := func(token string) error {
		cc := dial(t, r.Info().Addresses.TCP[0], nil)
		_, err := ctxfsv1.NewFsServiceClient(cc).Stat(with(t, "authorization", bearerOf(token)), &ctxfsv1.StatRequest{Path: "/"})
		return err
	}
	for range most * 3 / 4 {
		if err := stat(greedy); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, stat(greedy), codes.ResourceExhausted, "EMFILE", "this panel has 12 connections")
	for range 3 {
		if err := stat(other); err != nil {
			t.Error(err)
		}
	}
	host := ctxfsv1.NewContextServiceClient(r.host(t))
	if _, err := host.ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{}); err != nil {
		t.Error(err) // the unix socket has room of its own
	}
}

// TestAFullListenerKeepsRoomForOtherSites has visitors of a site that belongs to no panel connect until they are refused; those of another
// one still get in.
func TestAFullListenerKeepsRoomForOtherSites(t *testing.T) {
	t.Parallel()
	const most = 16
	r := startWith(t, pagesConfig(t), func(s *Server) { s.conns.pages.max, s.conns.pages.maxUnauthenticated = most, most/2 })
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "text")
	visit := func(site string) int {
		t.Helper()
		conn := dialPlain(t, "tcp", r.Info().Addresses.Gateway)
		u, err := url.Parse(site)
		if err == nil {
			_, err = io.WriteString(conn, "GET /a.txt HTTP/1.1\r\nHost: "+u.Host+"\r\n\r\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	crowded, other := r.openSite(t, "ctx_p", nil).GetUrl(), r.openSite(t, "ctx_p", nil).GetUrl()
	for range most * 3 / 4 {
		if got := visit(crowded); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
	}
	if got := visit(crowded); got != http.StatusServiceUnavailable {
		t.Errorf("one connection more than the site's share: %d", got)
	}
	for range 3 {
		if got := visit(other); got != http.StatusOK {
			t.Errorf("another site: %d", got)
		}
	}
}

// TestFullListenerRefusesAtOnce fills a listener with authenticated connections: a further one is closed, not left waiting.
func TestFullListenerRefusesAtOnce(t *testing.T) {
	t.Parallel()
	const most = 4
	r := startWith(t, sessionConfig(t), func(s *Server) { s.conns.http.max, s.conns.http.maxUnauthenticated = most, most/2 })
	token := readToken(t, r)
	for range most {
		beginWeb(t, r.Info().Addresses.HTTP, token, "")
	}
	wantClosed(t, dialPlain(t, "tcp", r.Info().Addresses.HTTP))
	if n := r.conns.http.count(); n != most {
		t.Errorf("%d connections", n)
	}
}

// TestConnectionsShareTheDescriptors divides limits of descriptors.
func TestConnectionsShareTheDescriptors(t *testing.T) {
	for _, c := range []struct {
		descriptors          int
		tcp, http            bool
		wantUnix, wantOthers int
	}{
		{0, true, true, maxConnections / 4, maxConnections * 3 / 8},
		{1 << 20, true, false, maxConnections / 4, maxConnections * 3 / 4},
		{512, true, true, 40, 60},
		{512, true, false, 40, 120},
		{512, false, false, 160, 120},
		{64, true, true, minConnections / 4, minConnections * 3 / 8},
	} {
		g := newConnGroups(c.descriptors, c.tcp, c.http, false, newMetrics("test"))
		if g.unix.max != c.wantUnix || g.tcp.max != c.wantOthers || g.http.max != c.wantOthers {
			t.Errorf("%+v: %d, %d, %d", c, g.unix.max, g.tcp.max, g.http.max)
		}
	}
}

func TestAClientThatCancelsItsCallsIsReadMoreSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &acceptedConn{}
		for _, step := range []struct {
			what             string
			cancelled, ended int
			want             time.Duration
		}{
			{"a few", freeCancels, 0, 0},
			{"ten more", 10, 0, 10 * cancelPause},
			{"none since", 0, 0, 0},
			{"very many", 100_000, 0, maxCancelPause},
			{"as many that ended", 0, 100_000, 0},
			{"a few again", freeCancels, 0, 0},
		} {
			for range step.cancelled {
				c.callEnded(true)
			}
			for range step.ended {
				c.callEnded(false)
			}
			begun := time.Now()
			c.pace()
			if took := time.Since(begun); took != step.want {
				t.Errorf("after %s: the connection is read %v later, want %v", step.what, took, step.want)
			}
		}
	})
}

// failing fails with each of its errors before it accepts.
type failing struct {
	net.Listener
	errs chan error
}

func (f failing) Accept() (net.Conn, error) {
	select {
	case err := <-f.errs:
		return nil, err
	default:
		return f.Listener.Accept()
	}
}

// TestListenersOutliveFailures has every listener fail as when the kernel has no epoll watch, no memory and no buffers left, and then has one
// fail for good: the others go on.
func TestListenersOutliveFailures(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Gateway = "127.0.0.1:0"
	r := startDeps(t, cfg, Deps{}, func(s *Server) {
		for _, l := range []*net.Listener{&s.ls.grpc[0], &s.ls.grpc[1], &s.ls.http, &s.ls.pages} {
			errs := make(chan error, 3)
			for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS} {
				errs <- &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("epoll_ctl", errno)}
			}
			c := (*l).(connListener)
			inner := c.Listener.(accept.Listener)
			inner.Listener = failing{inner.Listener, errs}
			*l = connListener{inner, c.group}
		}
	})
	at := r.Info().Addresses
	live := func(network, address string) {
		t.Helper()
		conn := dialPlain(t, network, address)
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.0\r\n\r\n"); err != nil {
			t.Error(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(clocktest.Patience)); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.") {
			t.Errorf("%s: %q, %v", address, answer, err)
		}
	}
	live("unix", at.Socket)
	for _, address := range []string{at.TCP[0], at.HTTP, at.Gateway} {
		live("tcp", address)
	}
	if err := r.ls.http.Close(); err != nil {
		t.Fatal(err)
	}
	live("unix", at.Socket)
	live("tcp", at.TCP[0])
	live("tcp", at.Gateway)
}

// TestShortageClosesConnectionsWithoutACall closes the oldest of them when a new one gets no descriptor, watch or memory, and none when
// the new one had gone already.
func TestShortageClosesConnectionsWithoutACall(t *testing.T) {
	t.Parallel()
	for errno, closed := range map[syscall.Errno]int{syscall.ENOSPC: 1, syscall.EMFILE: 1, syscall.ECONNABORTED: 0} {
		refused := 0
		g := newConnGroup(10, func(string) { refused++ })
		first, _ := net.Pipe()
		if g.admit(first) == nil {
			t.Fatal("the first connection was not admitted")
		}
		errs := make(chan error, 1)
		errs <- os.NewSyscallError("accept4", errno)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		dialPlain(t, "tcp", l.Addr().String())
		if _, err := listenerOf(failing{l, errs}, g, zap.NewNop()).Accept(); err != nil || refused != closed {
			t.Errorf("%v: %v, and %d connections were closed, want %d", errno, err, refused, closed)
		}
	}
}

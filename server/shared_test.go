package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/ctxfs/ctxfs/client"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// dialShared opens a WebSocket at a gRPC address, as a host over the unix socket.
func dialShared(t *testing.T, r *running, header http.Header) *websocket.Conn {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.Info().Addresses.Socket)
	}}
	ws, _, err := websocket.Dial(t.Context(), "ws://localhost/v1/session", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// TestWebSocketAtTheGRPCAddresses has sessions by WebSocket where gRPC is spoken.
func TestWebSocketAtTheGRPCAddresses(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.HTTP = ""
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	tcp := beginWeb(t, r.Info().Addresses.TCP[0], token, "tab")
	tcp.works(opWriteFile("/a", "x"))
	if tcp.ready.GetContextId() != "ctx_p" {
		t.Errorf("ready: %v", tcp.ready)
	}
	host := overWeb(t, dialShared(t, r, http.Header{"Ctxfs-Panel": {"p"}})).open("", "")
	host.works(opStat("/a"))
	beginGRPC(t, r.Info().Addresses.TCP[0], token, "").works(opStat("/a"))
	tcp.works(opStat("/a"))

	overWeb(t, dialWeb(t, r.Info().Addresses.TCP[0], nil)).openRefused(codes.Unauthenticated, "no token")
	r.stop()
	tcp.ends(codes.Unavailable, "the server is stopping")
	host.ends(codes.Unavailable, "the server is stopping")
}

// openRefused opens without a token, and expects the refusal.
func (s *talk) openRefused(code codes.Code, words string) {
	s.Helper()
	s.must(s.say(openRequest("", "")))
	s.ends(code, words)
}

// TestAHostsHandlesCloseWithItsWebSocket has a host that names no panel.
func TestAHostsHandlesCloseWithItsWebSocket(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	r.openPanel(t, "p")
	s := overWeb(t, dialShared(t, r, nil)).open("", "")
	s.works(&ctxfsv1.OpenRequest{ContextId: "ctx_p", Path: "/a", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}})
	if n := r.parts.handles.Count(); n != 1 {
		t.Errorf("%d handles", n)
	}
	s.cut()
	r.wantIdle(t)
}

func TestWebSocketAtTheGRPCAddressOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cfg := sessionConfig(t)
	cfg.TLSCert, cfg.TLSKey = ca.files(t)
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
	}}
	t.Cleanup(client.CloseIdleConnections)
	ws := dialWebWith(t, r.Info().Addresses.TCP[0], &websocket.DialOptions{HTTPClient: client})
	overWeb(t, ws).open("", token).works(opStat("/"))
	creds := credentials.NewTLS(&tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12})
	beginOn(t, dial(t, r.Info().Addresses.TCP[0], creds), token, "").works(opStat("/"))
}

// TestTheGoClientOverTLS has its session go by WebSocket, and the rest by gRPC.
func TestTheGoClientOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cfg := sessionConfig(t)
	cfg.TLSCert, cfg.TLSKey = ca.files(t)
	r := start(t, cfg)
	c, err := client.Dial(t.Context(), client.WithAddress(r.Info().Addresses.TCP[0]), client.WithToken(r.openPanel(t, "p").GetToken()),
		client.WithTLS(&tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	content := strings.Repeat("x", 100<<10)
	if err := c.FS().WriteFile("a", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := c.FS().ReadFile("a"); err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	metrics := httptest.NewRecorder()
	promhttp.HandlerFor(r.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/", nil))
	want := `ctxfs_rpc_duration_seconds_count{code="OK",method="/ctxfs.v1.FsService/WriteFile",transport="websocket"} 1`
	if !strings.Contains(metrics.Body.String(), want) {
		t.Errorf("the metrics lack %s", want)
	}
}

// TestOtherRequestsAtAGRPCAddress makes plain HTTP requests, and such as pages of other sites make.
func TestOtherRequestsAtAGRPCAddress(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	for _, c := range []struct {
		name, request string
		want          int
		words         string
	}{
		{"another path", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "this address speaks gRPC"},
		{"metrics", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "this address speaks gRPC"},
		{"no WebSocket", "GET /v1/session HTTP/1.1\r\nHost: localhost\r\n\r\n", 426, ""},
		{"another name", "GET /v1/session HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "use 127.0.0.1"},
		{"another origin", "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 403, "origin"},
		{"a long header", "GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 64<<10), 431, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dialRaw(t, r)
			go func() { _, _ = io.WriteString(conn, c.request) }()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
			if resp.StatusCode != c.want || !strings.Contains(string(body), c.words) {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, body, c.want, c.words)
			}
		})
	}
}

func dialRaw(t *testing.T, r *running) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.Info().Addresses.TCP[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestHalfARequestIsCutOff says part of an HTTP request to a gRPC address, and no more:
// gRPC must not lift the deadline that HTTP has set.
func TestHalfARequestIsCutOff(t *testing.T) {
	t.Parallel()
	r := startDeps(t, sessionConfig(t), Deps{HandshakeTime: time.Hour}, func(s *Server) {
		s.gateway.Shared.ReadHeaderTimeout, s.conns.tcp.firstCallTime = 100*time.Millisecond, time.Hour
	})
	for range 20 {
		conn := dialRaw(t, r)
		if _, err := io.WriteString(conn, "GET /v1/session HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(clocktest.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Fatalf("the connection stays open: %v", err)
		}
	}
}

// TestSilentConnectionsDoNotHoldUpTheEnd has clients say nothing, or too little, while the server stops.
func TestSilentConnectionsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"nothing": "", "some bytes": "PR", "half a preface": "PRI * HTTP/2.0\r\n", "half a request": "GET /v1/session HTTP/1.1\r\n"} {
		t.Run(name, func(t *testing.T) {
			// No bound of their own ends them.
			r := startDeps(t, sessionConfig(t), Deps{HandshakeTime: time.Hour}, func(s *Server) { s.conns.tcp.firstCallTime = time.Hour })
			conn := dialRaw(t, r)
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the connection is known", func() bool {
				return r.conns.tcp.countUnauthenticated() == 1
			})
			r.stop()
			if err := r.wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

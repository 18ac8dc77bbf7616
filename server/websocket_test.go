package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/session"
)

func TestWebSocketOperations(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	s := beginWeb(t, r.Info().Addresses.HTTP, token, "tab")
	if s.ready.GetClientInstance() != "tab" || s.ready.GetContextId() != "ctx_p" {
		t.Errorf("ready: %v", s.ready)
	}
	_, err := s.do(opStat("/nope"))
	wantError(t, err, codes.NotFound, "ENOENT", "stat '/nope'")
	watch := s.ask(opWatch("/"))
	if m := s.next(); m.GetId() != watch || sessiontest.ResultOf(m).GetWatch().GetReady() == nil {
		t.Fatalf("want the watch's ready, got %v", m)
	}
	write := s.ask(opWriteFile("/a", strings.Repeat("x", 256<<10)))
	for written, seen := false, false; !written || !seen; {
		m := s.next()
		written = written || m.GetId() == write && sessiontest.ResultOf(m) != nil
		seen = seen || m.GetId() == watch && sessiontest.ResultOf(m).GetWatch().GetEvent().GetFilename() == "a"
	}
	s.must(s.say(&ctxfsv1.SessionRequest{Id: watch, Request: &ctxfsv1.SessionRequest_Cancel{}}))
	for m := s.next(); m.GetError().GetReason() != "ECANCELED"; m = s.next() {
		if !m.GetMore() {
			t.Fatalf("the watch ended with %v", m)
		}
	}
	fd := s.file("/a")
	if got := s.works(opRead(fd, 0, 256<<10)).GetRead().GetBytesRead(); got != 256<<10 {
		t.Errorf("read %d bytes", got)
	}
	s.works(opClose(fd))
	for _, metric := range []string{
		`ctxfs_rpc_duration_seconds_count{code="NotFound",method="/ctxfs.v1.FsService/Stat",transport="websocket"} 1`, "ctxfs_sessions 1",
	} {
		if body := r.metricsText(t); !strings.Contains(body, metric) {
			t.Errorf("/metrics lacks %s", metric)
		}
	}
}

// metricsText returns what /metrics answers.
func (r *running) metricsText(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Info().Addresses.HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", bearerOf(readToken(t, r)))
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestWebSocketLeavesInPeace closes as a browser does.
func TestWebSocketLeavesInPeace(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	ws := dialWeb(t, r.Info().Addresses.HTTP, nil)
	s := overWeb(t, ws).open("", r.openPanel(t, "p").GetToken())
	s.ask(opWatch("/"))
	s.next()
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	eventually(t, "the session is recorded as a success", func() bool {
		return strings.Contains(r.metricsText(t), `ctxfs_rpc_duration_seconds_count{code="OK",method="/ctxfs.v1.FsService/Session",transport="websocket"} 1`)
	})
}

// eventually polls until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	clocktest.Await(t, what, is)
}

func TestWebSocketOrigins(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Origins = []string{"http://localhost:5173", "https://app.example:443"}
	r := start(t, cfg)
	addr := r.Info().Addresses.HTTP
	for _, c := range []struct {
		name, host string
		origins    []string
		want       int
	}{
		{"no browser", "", nil, 101},
		{"listed", "", []string{"http://localhost:5173"}, 101},
		{"listed, in capitals", "", []string{"HTTP://LOCALHOST:5173"}, 101},
		{"listed with the port that goes without saying", "", []string{"https://app.example"}, 101},
		{"the server's own", "", []string{"http://" + addr}, 101},
		{"the server's own by another scheme", "", []string{"https://" + addr}, 403},
		{"another port", "", []string{"http://localhost:5174"}, 403},
		{"another scheme", "", []string{"https://localhost:5173"}, 403},
		{"a name that begins alike", "", []string{"http://localhost:51730"}, 403},
		{"foreign", "", []string{"https://evil.example"}, 403},
		{"a sandboxed frame", "", []string{"null"}, 403},
		{"empty", "", []string{""}, 403},
		{"two", "", []string{"http://localhost:5173", "https://evil.example"}, 403},
		{"rebinding", "evil.example", []string{"http://evil.example"}, 403},
		{"rebinding without an origin", "evil.example:7421", nil, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := &websocket.DialOptions{Host: c.host, HTTPHeader: http.Header{"Origin": c.origins}}
			ws, resp, err := websocket.Dial(t.Context(), "ws://"+addr+"/v1/session", opts)
			if resp == nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.want {
				t.Errorf("HTTP %d, want %d: %v", resp.StatusCode, c.want, err)
			}
			if resp.Body != nil {
				_ = resp.Body.Close()
			}
			if ws != nil {
				_ = ws.CloseNow()
			}
		})
	}
}

func TestWebSocketNeedsAnUpgrade(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Info().Addresses.HTTP+"/v1/session", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("HTTP %d", resp.StatusCode)
	}
}

func opening(token string) *ctxfsv1.SessionRequest {
	return &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{Token: token}}}
}

// TestCallsThatTravelWithOpen sends calls in the message that opens a session: they are answered after ready, as if each had come by itself.
func TestCallsThatTravelWithOpen(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	check := func(t *testing.T, s *talk, first *ctxfsv1.SessionRequest) {
		t.Helper()
		for id := range uint64(3) {
			first.Also = append(first.Also, sessiontest.Call(id+1, opStat("/")))
		}
		s.must(s.say(first))
		if m := s.next(); m.GetReady() == nil {
			t.Fatalf("the first message is %v, want ready", m)
		}
		answered := map[uint64]bool{}
		for range first.GetAlso() {
			m := s.next()
			if sessiontest.ResultOf(m).GetStat() == nil {
				t.Errorf("call %d is answered with %v", m.GetId(), m)
			}
			answered[m.GetId()] = true
		}
		if len(answered) != 3 {
			t.Errorf("answers came to %v", answered)
		}
	}
	t.Run("websocket", func(t *testing.T) {
		t.Parallel()
		check(t, overWeb(t, dialWeb(t, r.Info().Addresses.HTTP, nil)), opening(token))
	})
	t.Run("grpc", func(t *testing.T) {
		t.Parallel()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", bearerOf(token))
		stream, err := ctxfsv1.NewFsServiceClient(dial(t, r.Info().Addresses.TCP[0], nil)).Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		check(t, &talk{T: t, say: stream.Send, hear: stream.Recv}, opening(""))
	})
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		s, first := overWeb(t, dialWeb(t, r.Info().Addresses.HTTP, nil)), opening(token)
		for id := range uint64(128) {
			first.Also = append(first.Also, sessiontest.Call(id+1, opStat("/")))
		}
		s.must(s.say(first))
		s.next() // ready
		s.ends(codes.InvalidArgument, "129 requests came together")
	})
}

func TestWebSocketIdentity(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	panel, host := r.openPanel(t, "p").GetToken(), readToken(t, r)
	for _, c := range []struct {
		name   string
		header http.Header
		first  *ctxfsv1.SessionRequest
		// context is the session's; code is why there is none.
		context string
		code    codes.Code
		words   string
	}{
		{name: "token in open", first: opening(panel), context: "ctx_p"},
		{name: "token in the header", header: http.Header{"Authorization": {bearerOf(panel)}}, first: opening(""), context: "ctx_p"},
		{name: "host for a panel", header: http.Header{"Authorization": {bearerOf(host)}, "Ctxfs-Panel": {"p"}}, first: opening(""), context: "ctx_p"},
		{name: "host", first: opening(host)},
		{name: "none", first: opening(""), code: codes.Unauthenticated, words: "no token"},
		{name: "forged", first: opening(strings.Repeat("x", 43)), code: codes.Unauthenticated, words: "unknown"},
		{name: "no bearer", header: http.Header{"Authorization": {"Basic YTpi"}}, first: opening(""), code: codes.Unauthenticated, words: "Bearer TOKEN"},
		{
			name: "in both places", header: http.Header{"Authorization": {bearerOf(panel)}}, first: opening(panel),
			code: codes.InvalidArgument, words: "one of them",
		},
		{
			name: "panel for another", header: http.Header{"Ctxfs-Panel": {"q"}}, first: opening(panel),
			code: codes.PermissionDenied, words: "cannot act for another",
		},
		{
			name: "not open", header: http.Header{"Authorization": {bearerOf(panel)}}, code: codes.InvalidArgument, words: "first message is not open",
			first: sessiontest.Call(1, opStat("/")),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := overWeb(t, dialWeb(t, r.Info().Addresses.HTTP, c.header))
			s.must(s.say(c.first))
			if c.code != codes.OK {
				s.ends(c.code, c.words)
				return
			}
			if m := s.next(); m.GetReady() == nil || m.GetReady().GetContextId() != c.context {
				t.Errorf("got %v, want ready in %q", m, c.context)
			}
		})
	}
	eventually(t, "no connection is unauthenticated", func() bool { return r.conns.http.countUnauthenticated() == 0 })
}

func TestWebSocketHostByQuery(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	r.openPanel(t, "p")
	s := overWeb(t, dialWeb(t, r.Info().Addresses.HTTP+"?ctxfs-panel=p", nil)).open("", readToken(t, r))
	if s.ready.GetContextId() != "ctx_p" {
		t.Errorf("ready: %v", s.ready)
	}
}

// TestWebSocketRefusesMessages sends what is no SessionRequest, before and after open.
func TestWebSocketRefusesMessages(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	large := bytes.Repeat([]byte("x"), session.MaxMessage+1)
	for _, c := range []struct {
		name   string
		opened bool
		kind   websocket.MessageType
		data   []byte
		want   websocket.StatusCode
		words  string
	}{
		{"text first", false, websocket.MessageText, []byte("{}"), 1003, "binary messages"},
		{"text", true, websocket.MessageText, []byte("{}"), 1003, "binary messages"},
		{"no protobuf first", false, websocket.MessageBinary, []byte("\xff"), 1007, "as protobuf"},
		{"no protobuf", true, websocket.MessageBinary, []byte("\xff"), 1007, "as protobuf"},
		{"too large first", false, websocket.MessageBinary, large[:16<<10+1], 1009, "at most 16384 bytes"},
		{"too large", true, websocket.MessageBinary, large, 1009, "at most 1048576 bytes"},
		{"no operation", true, websocket.MessageBinary, nil, 1002, "of no kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws := dialWeb(t, r.Info().Addresses.HTTP, nil)
			s := overWeb(t, ws)
			if c.opened {
				s.open("", token)
			}
			s.must(ws.Write(t.Context(), c.kind, c.data))
			e := s.last()
			var closed websocket.CloseError
			if !errors.As(e.err, &closed) || closed.Code != c.want || closed.Reason == "" || !strings.Contains(e.closing.GetMessage(), c.words) {
				t.Errorf("closing %v, then %v; want %q, %d", e.closing, e.err, c.words, c.want)
			}
		})
	}
	// Before open there is no call yet.
	eventually(t, "the session that had too large a message is counted", func() bool { return rejections(t, r)["request_bytes"] == 1 })
}

func TestOpenMustComeInTime(t *testing.T) {
	t.Parallel()
	r := startWith(t, sessionConfig(t), func(s *Server) { s.gateway.OpenTime = 50 * time.Millisecond })
	overWeb(t, dialWeb(t, r.Info().Addresses.HTTP, nil)).ends(codes.Unauthenticated, "open did not come in time")
}

// TestStrangersDoNotHoldUpTheEnd stops a server that waits for an open.
func TestStrangersDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	s := overWeb(t, dialWeb(t, r.Info().Addresses.HTTP, nil))
	eventually(t, "there is a stranger", func() bool { return r.conns.http.countUnauthenticated() == 1 })
	r.stop()
	s.ends(codes.Unavailable, "the server is stopping")
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

func TestConfigRefusesABadOrigin(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Origins = []string{"http://localhost:5173/"}
	var bad *ConfigError
	if err := cfg.Validate(Origins{"origin": "flag --origin"}); !errors.As(err, &bad) || bad.Origin != "flag --origin" {
		t.Errorf("got %v", err)
	}
}

// TestWebSocketIsNotCutByTimeouts lives on silence longer than the keepalive, while both ends answer pings.
func TestWebSocketIsNotCutByTimeouts(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = time.Second
	r := startWith(t, cfg, func(s *Server) {
		s.gateway.Own.ReadTimeout, s.gateway.Own.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	pings := make(chan struct{}, 10)
	ws := dialWebWith(t, r.Info().Addresses.HTTP, &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool {
			pings <- struct{}{}
			return true
		},
	})
	s := overWeb(t, ws).open("", r.openPanel(t, "p").GetToken())
	heard := make(chan error, 1)
	go func() {
		_, err := s.hear()
		heard <- err
	}()
	<-pings
	<-pings
	s.ask(opStat("/"))
	if err := <-heard; err != nil {
		t.Error(err)
	}
}

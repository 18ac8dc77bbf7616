package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// talk is a client's end of a session, by whatever transport.
type talk struct {
	*testing.T
	say  func(*ctxfsv1.SessionRequest) error
	hear func() (*ctxfsv1.SessionResponse, error)
	// cut drops the client's end without a word.
	cut   func()
	ready *ctxfsv1.SessionReady
	id    uint64
}

// sessionConfig listens for both.
func sessionConfig(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Listen, cfg.HTTP = []string{"127.0.0.1:0"}, "127.0.0.1:0"
	cfg.LeaseGrace = 200 * time.Millisecond
	return cfg
}

func beginWeb(t *testing.T, addr, token, instance string) *talk {
	t.Helper()
	return overWeb(t, dialWeb(t, addr, nil)).open(instance, token)
}

// dialWeb makes a WebSocket connection to "host:port" or "host:port?query".
func dialWeb(t *testing.T, addr string, header http.Header) *websocket.Conn {
	t.Helper()
	return dialWebWith(t, addr, &websocket.DialOptions{HTTPHeader: header})
}

func dialWebWith(t *testing.T, addr string, opts *websocket.DialOptions) *websocket.Conn {
	t.Helper()
	addr, query, _ := strings.Cut(addr, "?")
	scheme := "ws://"
	if opts.HTTPClient != nil {
		scheme = "wss://" // tests give a client only for TLS
	}
	ws, resp, err := websocket.Dial(t.Context(), scheme+addr+"/v1/session?"+query, opts)
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func overWeb(t *testing.T, ws *websocket.Conn) *talk {
	return &talk{
		T:   t,
		cut: func() { _ = ws.CloseNow() },
		say: func(m *ctxfsv1.SessionRequest) error {
			data, err := proto.Marshal(m)
			return errors.Join(err, ws.Write(context.Background(), websocket.MessageBinary, data))
		},
		hear: func() (*ctxfsv1.SessionResponse, error) {
			_, data, err := ws.Read(context.Background())
			if err != nil {
				return nil, err
			}
			m := new(ctxfsv1.SessionResponse)
			return m, proto.Unmarshal(data, m)
		},
	}
}

func openRequest(instance, token string) *ctxfsv1.SessionRequest {
	return &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{ClientInstance: instance, Token: token}}}
}

func (s *talk) open(instance, token string) *talk {
	s.Helper()
	s.must(s.say(openRequest(instance, token)))
	m := s.next()
	if s.ready = m.GetReady(); s.ready == nil {
		s.Fatalf("the first message is %v, want ready", m)
	}
	return s
}

func (s *talk) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *talk) next() *ctxfsv1.SessionResponse {
	s.Helper()
	m, err := s.hear()
	s.must(err)
	return m
}

// ask sends an operation and returns its id.
func (s *talk) ask(op proto.Message) uint64 {
	s.Helper()
	s.id++
	s.must(s.say(sessiontest.Call(s.id, op)))
	return s.id
}

// do asks and takes the reply, which must be the next message.
func (s *talk) do(op proto.Message) (*sessiontest.Result, error) {
	s.Helper()
	id := s.ask(op)
	m := s.next()
	if m.GetId() != id {
		s.Fatalf("message about %d, want %d: %v", m.GetId(), id, m)
	}
	if m.GetError() != nil {
		return nil, fserrpb.FromSession(m.GetError())
	}
	return sessiontest.ResultOf(m), nil
}

// works is do of what must not fail.
func (s *talk) works(op proto.Message) *sessiontest.Result {
	s.Helper()
	r, err := s.do(op)
	s.must(err)
	return r
}

// file opens a file of the session's own and returns its fd.
func (s *talk) file(path string) int32 {
	s.Helper()
	return s.works(opOpen(path, "a+")).GetOpen().GetFd()
}

// end is how a session ended.
type end struct {
	closing *ctxfsv1.SessionError
	err     error
}

// last hears until the end, however it comes. It cuts off a session that does not end.
func (s *talk) last() (e end) {
	defer time.AfterFunc(clocktest.Patience, s.cut).Stop()
	for {
		m, err := s.hear()
		if err != nil {
			e.err = err
			return e
		}
		if e.closing != nil {
			s.Errorf("closing was not the last message: %v came", m)
		}
		if m.GetClosing() != nil {
			e.closing = m.GetClosing().GetError()
		}
	}
}

// ends checks that the server ends the session: with closing, then the status.
func (s *talk) ends(code codes.Code, words string) {
	s.Helper()
	e := s.last()
	if codes.Code(e.closing.GetCode()) != code || !strings.Contains(e.closing.GetMessage(), words) {
		s.Errorf("closing says %v, want %v, %q", e.closing, code, words)
	}
	want := map[codes.Code]websocket.StatusCode{
		codes.Unauthenticated: 1008, codes.PermissionDenied: 1008, codes.Unavailable: 1001, codes.InvalidArgument: 1002,
	}[code]
	if got := websocket.CloseStatus(e.err); got != want && status.Code(e.err) != code {
		s.Errorf("the session ended with %v, want %v or %d", e.err, code, want)
	}
}

func opStat(path string) proto.Message {
	return &ctxfsv1.StatRequest{Path: path}
}

func opOpen(path, flags string) proto.Message {
	return &ctxfsv1.OpenRequest{
		Path: path, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: flags},
	}
}

func opRead(fd int32, position, length int64) proto.Message {
	return &ctxfsv1.ReadRequest{Fd: fd, Position: &position, Length: &length}
}

func opClose(fd int32) proto.Message {
	return &ctxfsv1.CloseRequest{Fd: fd}
}

func opWatch(path string) proto.Message {
	return &ctxfsv1.WatchRequest{Path: path}
}

func opWriteFile(path, text string) proto.Message {
	return &ctxfsv1.WriteFileRequest{
		Path: path, Content: &ctxfsv1.WriteFileRequest_Text{Text: text},
	}
}

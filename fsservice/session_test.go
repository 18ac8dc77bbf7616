package fsservice_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// talk is a client's end of a session.
type talk struct {
	*world
	stream ctxfsv1.FsService_SessionClient
	ready  *ctxfsv1.SessionReady
	cut    context.CancelFunc
	id     uint64
}

// session begins a session for an identity and a client instance.
func (w *world) session(as, instance string) *talk {
	w.Helper()
	return w.begin(as, &ctxfsv1.SessionOpen{ClientInstance: instance})
}

// begin is session with all that can be said at its beginning.
func (w *world) begin(who string, open *ctxfsv1.SessionOpen) *talk {
	w.Helper()
	ctx, cut := context.WithCancel(w.as(who))
	w.Cleanup(cut)
	stream, err := w.client.Session(ctx)
	w.must(err)
	t := &talk{world: w, stream: stream, cut: cut}
	t.must(stream.Send(&ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: open}}))
	t.ready = t.recv().GetReady()
	if t.ready == nil {
		w.Fatal("the first message is not ready")
	}
	return t
}

func (t *talk) recv() *ctxfsv1.SessionResponse {
	t.Helper()
	m, err := t.stream.Recv()
	t.must(err)
	return m
}

// recvLast receives a message and returns the last of those that came together.
func (t *talk) recvLast() *ctxfsv1.SessionResponse {
	t.Helper()
	m := t.recv()
	if also := m.GetAlso(); len(also) > 0 {
		return also[len(also)-1]
	}
	return m
}

// ask sends an operation and returns its id.
func (t *talk) ask(op proto.Message) uint64 {
	t.Helper()
	t.id++
	t.must(t.stream.Send(sessiontest.Call(t.id, op)))
	return t.id
}

// do asks and takes the reply, which must be the next message.
func (t *talk) do(op proto.Message) (*sessiontest.Result, error) {
	t.Helper()
	id := t.ask(op)
	m := t.recv()
	if m.GetId() != id {
		t.Fatalf("message about %d, want %d: %v", m.GetId(), id, m)
	}
	if m.GetError() != nil {
		return nil, fserrpb.FromSession(m.GetError())
	}
	return sessiontest.ResultOf(m), nil
}

// works is do of what must not fail.
func (t *talk) works(op proto.Message) *sessiontest.Result {
	t.Helper()
	r, err := t.do(op)
	t.must(err)
	return r
}

func (t *talk) cancel(id uint64) {
	t.Helper()
	t.must(t.stream.Send(&ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Cancel{}}))
}

// ends checks how the server ends the session: with closing, then the status.
func (t *talk) ends(code codes.Code, words string) {
	t.Helper()
	m := t.recvLast()
	for m.GetId() != 0 { // what a watch has seen meanwhile
		m = t.recvLast()
	}
	if got := m.GetClosing().GetError(); codes.Code(got.GetCode()) != code || !strings.Contains(got.GetMessage(), words) {
		t.Errorf("the last message is %v, want closing, %v, %q", m, code, words)
	}
	if _, err := t.stream.Recv(); status.Code(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("the session ended with %v, want %v, %q", err, code, words)
	}
}

func opStat(path string) proto.Message {
	return &ctxfsv1.StatRequest{Path: path}
}

func opOpen(path, flags string, atomic bool) proto.Message {
	return &ctxfsv1.OpenRequest{
		Path: path, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: flags}, Atomic: atomic,
	}
}

func opWrite(fd int32, text string) proto.Message {
	return &ctxfsv1.WriteRequest{
		Fd: fd, Content: &ctxfsv1.WriteRequest_Text{Text: text},
	}
}

func opClose(fd int32, commit bool) proto.Message {
	return &ctxfsv1.CloseRequest{Fd: fd, Commit: commit}
}

func opWatch(path string) proto.Message {
	return &ctxfsv1.WatchRequest{Path: path}
}

func TestSessionOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a.txt", "hello")
	s := w.session("a", "one")
	if s.ready.GetClientInstance() != "one" || s.ready.GetContextId() != "ctx_a" || s.ready.GetResumed() {
		t.Errorf("ready: %v", s.ready)
	}
	if got := s.works(opStat("/a.txt")).GetStat().GetStat().GetSize(); got != 5 {
		t.Errorf("size %d", got)
	}
	_, err := s.do(opStat("/b.txt"))
	s.wantError(err, "ENOENT: no such file or directory, stat '/b.txt'")
	_, err = s.do(&ctxfsv1.HoldRequest{})
	s.wantError(err, `EOPNOTSUPP: a session has no RPC ""; it calls RPCs of this server by full name ("/ctxfs.v1.FsService/Stat") that stream neither requests nor content`)
	s.id++
	call := &ctxfsv1.SessionCall{Method: ctxfsv1.FsService_ReadStream_FullMethodName}
	s.must(s.stream.Send(&ctxfsv1.SessionRequest{Id: s.id, Request: &ctxfsv1.SessionRequest_Call{Call: call}}))
	if got := s.recv().GetError(); got.GetReason() != "EOPNOTSUPP" {
		t.Errorf("a stream of content in a session: %v, want EOPNOTSUPP", got)
	}
	fd := s.works(opOpen("/a.txt", "r+", false)).GetOpen().GetFd()
	s.works(opWrite(fd, strings.Repeat("x", 256<<10)))
	_, err = s.do(opWrite(fd, strings.Repeat("x", 320<<10)))
	s.wantError(err, "EFBIG: content of more than 256 KiB in one message of a session; read and write ranges on a handle, or use FsService/ReadStream and WriteStream")
	s.works(opClose(fd, false))
	s.must(s.stream.CloseSend())
	if _, err := s.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after all was said: %v", err)
	}
}

func TestSessionFirstAccessSeeds(t *testing.T) {
	t.Parallel()
	s := newWorld(t).session("b", "")
	if len(s.ready.GetClientInstance()) < 10 {
		t.Errorf("no name was picked: %v", s.ready)
	}
	if !s.works(opStat("/")).GetStat().GetStat().ProtoReflect().IsValid() {
		t.Error("no attributes")
	}
}

func TestSessionRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say   func(s *talk)
		words string
	}{
		"open again": {func(s *talk) {
			s.must(s.stream.Send(&ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{}}}))
		}, "open already"},
		"nothing": {func(s *talk) { s.must(s.stream.Send(&ctxfsv1.SessionRequest{Id: 7})) }, "message 7 is of no kind"},
		"id 0":    {func(s *talk) { s.id--; s.ask(opStat("/")) }, "id is 0"},
		"an id twice, together": {func(s *talk) {
			w := sessiontest.Call(9, opWatch("/"))
			s.must(s.stream.Send(&ctxfsv1.SessionRequest{Id: 9, Request: w.GetRequest(), Also: []*ctxfsv1.SessionRequest{w}}))
		}, "id 9 is in use"},
		"also in also": {func(s *talk) {
			m := func(also ...*ctxfsv1.SessionRequest) *ctxfsv1.SessionRequest {
				return &ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Cancel{Cancel: &ctxfsv1.SessionCancel{}}, Also: also}
			}
			s.must(s.stream.Send(m(m(m()))))
		}, "a request in also has one itself"},
		"an id twice": {func(s *talk) { s.ask(opWatch("/")); s.recv(); s.id--; s.ask(opStat("/")) }, "id 1 is in use"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).begin("a", &ctxfsv1.SessionOpen{Batches: true})
			c.say(s)
			s.ends(codes.InvalidArgument, c.words)
		})
	}
}

func TestSessionFirstMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		first *ctxfsv1.SessionRequest
		words string
	}{
		"no open":      {sessiontest.Call(1, opStat("/")), "first message is not open"},
		"a bad name":   {&ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{ClientInstance: "a/b"}}}, "bad client_instance"},
		"a token here": {&ctxfsv1.SessionRequest{Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{Token: "x"}}}, "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := w.client.Session(w.as("a"))
			w.must(err)
			w.must(stream.Send(c.first))
			if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %q", err, c.words)
			}
		})
	}
}

// TestSessionKeepsTheOrderOfAHandle sends writes without waiting: they must follow one another.
func TestSessionKeepsTheOrderOfAHandle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session("a", "")
	fd := s.works(opOpen("/log", "w", false)).GetOpen().GetFd()
	var want strings.Builder
	for i := range 100 {
		text := strings.Repeat(string(rune('a'+i%26)), 1000+i)
		want.WriteString(text)
		s.ask(opWrite(fd, text))
	}
	s.ask(opClose(fd, false))
	for range 101 {
		if m := s.recv(); m.GetError() != nil {
			t.Fatal(m)
		}
	}
	w.wantContent("log", want.String())
}

func TestSessionWatchAndCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session("a", "")
	id := s.ask(opWatch("/"))
	if m := s.recv(); sessiontest.ResultOf(m).GetWatch().GetReady() == nil || !m.GetMore() || m.GetId() != id {
		t.Fatalf("want ready, got %v", m)
	}
	w.put("new", "x")
	if m := s.recv(); sessiontest.ResultOf(m).GetWatch().GetEvent().GetFilename() != "new" {
		t.Fatalf("want the event, got %v", m)
	}
	s.cancel(id)
	for {
		m := s.recv()
		if m.GetMore() {
			continue // further events of the write
		}
		if m.GetId() != id || m.GetError().GetReason() != "ECANCELED" {
			t.Errorf("the watch ended with %v", m)
		}
		break
	}
	s.cancel(id) // of nothing
	s.works(opStat("/new"))
}

func TestSessionBoundsWatches(t *testing.T) {
	t.Parallel()
	s := newWorld(t).session("a", "")
	for range s.ready.GetMaxWatches() {
		s.ask(opWatch("/"))
		if sessiontest.ResultOf(s.recv()).GetWatch().GetReady() == nil {
			t.Fatal("no watch")
		}
	}
	_, err := s.do(opWatch("/"))
	s.wantError(err, "EMFILE: 64 watches are open on this session, its limit; cancel some, watch")
	s.works(opStat("/"))
}

func TestSessionParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a.txt", "x")
	w.put("b.txt", "x")
	s := w.session("a", "")
	id := s.ask(&ctxfsv1.GlobRequest{Patterns: []string{"*.txt"}})
	var parts []*ctxfsv1.GlobResponse
	for {
		m := s.recv()
		if m.GetId() != id || m.GetError() != nil {
			t.Fatal(m)
		}
		if !m.GetMore() {
			if m.GetReply() != nil {
				t.Errorf("the last message is %v, want no reply", m)
			}
			break
		}
		parts = append(parts, sessiontest.ResultOf(m).GetGlob())
	}
	if len(parts) < 2 || parts[len(parts)-1].GetSummary().GetMatches() != 2 {
		t.Errorf("got %v", parts)
	}
}

func TestAtomicHandles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a", "old")
	s := w.session("a", "")
	fd := s.works(opOpen("/a", "w", true)).GetOpen().GetFd()
	s.works(opWrite(fd, "new"))
	w.wantContent("a", "old")
	s.works(opClose(fd, true))
	w.wantContent("a", "new")
	_, err := s.do(opWrite(fd, "more"))
	s.wantError(err, "EBADF: bad file descriptor 3, write")

	fd = s.works(opOpen("/a", "w", true)).GetOpen().GetFd()
	s.works(opWrite(fd, "never"))
	s.works(opClose(fd, false))
	w.wantContent("a", "new")

	_, err = s.do(opOpen("/a", "r+", true))
	s.wantError(err, "EINVAL: atomic goes with the flags w, wx, w+ and wx+ only, open '/a'")
	fd = s.works(opOpen("/a", "r", false)).GetOpen().GetFd()
	_, err = s.do(opClose(fd, true))
	s.wantError(err, "EINVAL: handle 5 is not atomic; open it with atomic, or close it without commit, close")
	s.works(opClose(fd, false))

	fd = s.works(opOpen("/b", "wx", true)).GetOpen().GetFd()
	w.put("b", "theirs")
	_, err = s.do(opClose(fd, true))
	s.wantError(err, "EEXIST: file already exists, close")
	w.wantContent("b", "theirs")
}

// TestLeaseOfASession has a client vanish, come back, and vanish for good.
func TestLeaseOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a", "text")
	old, other := w.session("a", "one"), w.session("a", "two")
	fd := old.works(opOpen("/a", "r", false)).GetOpen().GetFd()
	kept := other.works(opOpen("/a", "r", false)).GetOpen().GetFd()
	old.cut()
	again := w.session("a", "one")
	if !again.ready.GetResumed() {
		t.Error("the lease was not resumed")
	}
	again.works(opClose(fd, false))
	fd = again.works(opOpen("/a", "r", false)).GetOpen().GetFd()
	again.cut()
	if name := <-w.gone; name != "one" {
		t.Errorf("the instance %q is gone", name)
	}
	_, err := other.do(opClose(fd, false))
	w.wantError(err, "EBADF: bad file descriptor 5 (closed: its client instance is gone), close")
	other.works(opClose(kept, false))
}

func TestHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("a", "text")
	open := func(instance string) (int32, error) {
		r, err := w.client.Open(w.as("a"), &ctxfsv1.OpenRequest{Path: "/a", ClientInstance: instance})
		return r.GetFd(), err
	}
	_, err := open("tab")
	w.wantError(err, "EINVAL: client instance 'tab' has no lease; hold one by FsService/Hold first, or leave client_instance empty, open '/a'")
	ctx, cut := context.WithCancel(w.as("a"))
	defer cut()
	hold, err := w.client.Hold(ctx, &ctxfsv1.HoldRequest{ClientInstance: "tab"})
	w.must(err)
	m, err := hold.Recv()
	w.must(err)
	if m.GetHeld().GetGraceMs() != grace.Milliseconds() || m.GetHeld().GetResumed() {
		t.Errorf("held: %v", m)
	}
	fd, err := open("tab")
	w.must(err)
	loose, err := open("")
	w.must(err)
	cut()
	<-w.gone
	_, err = w.client.Close(w.as("a"), &ctxfsv1.CloseRequest{Fd: fd})
	w.wantError(err, "EBADF: bad file descriptor 3 (closed: its client instance is gone), close")
	_, err = w.client.Close(w.as("a"), &ctxfsv1.CloseRequest{Fd: loose})
	w.must(err)
}

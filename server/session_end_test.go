package server

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// manyLines is what a grep for "x" answers at such length that it is under way until its client reads.
func manyLines(t *testing.T, r *running) {
	t.Helper()
	write(t, filepath.Join(r.Info().ContextsDir, "ctx_p", "lines"), strings.Repeat("x"+strings.Repeat("y", 1000)+"\n", 20_000))
}

// busy begins a session with a handle, a watch, and a grep that has sent its first part.
func busy(t *testing.T, begin begin, r *running, addr, token string) *talk {
	t.Helper()
	manyLines(t, r)
	s := begin(t, addr, token, "busy")
	s.file("/held")
	s.ask(opWatch("/"))
	s.next()
	s.ask(opGrep("x"))
	for m := s.next(); sessiontest.ResultOf(m).GetGrep() == nil; {
		m = s.next()
	}
	return s
}

// renew returns a further token of panel p.
func renew(t *testing.T, r *running, ttl time.Duration) string {
	t.Helper()
	resp, err := ctxfsv1.NewPanelServiceClient(r.host(t)).RenewToken(t.Context(), &ctxfsv1.RenewTokenRequest{PanelId: "p", TtlMs: ttl.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetToken()
}

// shortLived calls use with tokens of panel p that expire soon, each after twice the time of the one before, until one lasts long enough
// for use on this machine.
func shortLived(t *testing.T, r *running, use func(token string) error) {
	t.Helper()
	for life := time.Second; ; life *= 2 {
		err := use(renew(t, r, life))
		if err == nil {
			return
		}
		if life > clocktest.Patience || !strings.Contains(err.Error(), "expired") {
			t.Fatalf("with a token of %v: %v", life, err)
		}
	}
}

func closePanel(t *testing.T, r *running) {
	t.Helper()
	if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
		t.Fatal(err)
	}
}

func TestClosePanelEndsASessionInMidOperation(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token, other := r.openPanel(t, "p").GetToken(), r.openPanel(t, "q").GetToken()
		bystander := begin(t, addr(r), other, "")
		s := busy(t, begin, r, addr(r), token)
		closePanel(t, r)
		s.ends(codes.Unauthenticated, "the panel was closed")
		bystander.works(opStat("/"))
		eventually(t, "its handles are closed", func() bool { return r.parts.handles.Count() == 0 })
	})
}

func TestExpiryEndsASessionInMidOperation(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		token := r.openPanel(t, "p").GetToken()
		manyLines(t, r)
		s := begin(t, addr(r), token, "")
		var expires time.Time
		shortLived(t, r, func(token string) error {
			m, err := s.tryRefresh(token)
			expires = time.Unix(0, m.GetRefreshed().GetExpiresNs())
			return err
		})
		s.id++
		_ = s.say(sessiontest.Call(s.id, opGrep("x"))) // the session may have ended already
		// clock: the client reads nothing until its token expires, however long that takes
		<-time.After(time.Until(expires))
		s.ends(codes.Unauthenticated, "the token expired")
	})
}

func TestTheEndOfTheServerEndsASessionInMidOperation(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		s := busy(t, begin, r, addr(r), r.openPanel(t, "p").GetToken())
		r.stop()
		s.ends(codes.Unavailable, "the server is stopping")
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestHalfClosedSessionAnswersCallsWithAWindow half-closes the stream while a call waits for credit, which cannot come any more. The client still
// gets all of the answer.
func TestHalfClosedSessionAnswersCallsWithAWindow(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	manyLines(t, r)
	ctx, cut := context.WithCancel(with(t, "authorization", bearerOf(token)))
	t.Cleanup(cut)
	stream, err := ctxfsv1.NewFsServiceClient(dial(t, r.Info().Addresses.TCP[0], nil)).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := (&talk{T: t, say: stream.Send, hear: stream.Recv, cut: cut}).open("", "")
	call := sessiontest.Call(1, opGrep("x"))
	call.GetCall().Window = 1
	s.must(s.say(call))
	lines := len(sessiontest.ResultOf(s.next()).GetGrep().GetFile().GetLines())
	s.must(stream.CloseSend())
	defer time.AfterFunc(clocktest.Patience, cut).Stop() // one that hangs
	var matches int64
	for {
		m, err := s.hear()
		if errors.Is(err, io.EOF) {
			break
		}
		s.must(err)
		if m.GetError() != nil {
			t.Fatal(m.GetError())
		}
		part := sessiontest.ResultOf(m).GetGrep()
		lines += len(part.GetFile().GetLines())
		matches += part.GetSummary().GetMatches()
	}
	if matches < 1000 || int64(lines) != matches {
		t.Errorf("the client got %d lines of %d", lines, matches)
	}
}

// TestClosePanelEndsHoldsAndWatches covers clients that use the RPCs.
func TestClosePanelEndsHoldsAndWatches(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	fs := ctxfsv1.NewFsServiceClient(dial(t, r.Info().Addresses.TCP[0], nil))
	ctx := with(t, "authorization", bearerOf(r.openPanel(t, "p").GetToken()))
	hold, err := fs.Hold(ctx, &ctxfsv1.HoldRequest{ClientInstance: "tab"})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := fs.Watch(ctx, &ctxfsv1.WatchRequest{Path: "/"})
	if err != nil {
		t.Fatal(err)
	}
	for name, stream := range map[string]grpc.ClientStream{"hold": hold, "watch": watch} {
		if err := stream.RecvMsg(new(ctxfsv1.HoldResponse)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	closePanel(t, r)
	for name, stream := range map[string]grpc.ClientStream{"hold": hold, "watch": watch} {
		if err := stream.RecvMsg(new(ctxfsv1.HoldResponse)); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefreshTokenKeepsASession lets two sessions begin with one token, and one of them refresh it.
func TestRefreshTokenKeepsASession(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		r.openPanel(t, "p")
		token, foreign := renew(t, r, time.Hour), r.openPanel(t, "q").GetToken()
		var kept, lost *talk
		shortLived(t, r, func(short string) error {
			kept, lost = begin(t, addr(r), token, ""), begin(t, addr(r), token, "")
			if m := kept.refresh(foreign); m.GetError().GetReason() != "EACCES" || !strings.Contains(m.GetError().GetMessage(), "not one of this session's panel") {
				t.Errorf("another panel's token: %v", m)
			}
			if m := kept.refresh("forged"); codes.Code(m.GetError().GetCode()) != codes.Unauthenticated {
				t.Errorf("a forged token: %v", m)
			}
			kept.works(opStat("/"))
			_, err := kept.tryRefresh(short)
			before, errBefore := lost.tryRefresh(short)
			after, errAfter := kept.tryRefresh(renew(t, r, time.Hour))
			if err = errors.Join(err, errBefore, errAfter); err != nil {
				kept.cut()
				lost.cut()
				return err
			}
			if longer := after.GetRefreshed().GetExpiresNs() - before.GetRefreshed().GetExpiresNs(); time.Duration(longer) < 50*time.Minute {
				t.Errorf("the token of an hour lasts %v longer than the short one", time.Duration(longer))
			}
			return nil
		})
		lost.ends(codes.Unauthenticated, "the token expired") // with the token that both had
		kept.works(opWriteFile("/still", "here"))
	})
}

func TestAReadOnlySession(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		r := start(t, sessionConfig(t))
		begin(t, addr(r), r.openPanel(t, "p").GetToken(), "").works(opWriteFile("/a", "text"))
		opened, err := ctxfsv1.NewPanelServiceClient(r.host(t)).OpenPanel(context.Background(), &ctxfsv1.OpenPanelRequest{PanelId: "p", ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		s := begin(t, addr(r), opened.GetToken(), "")
		if !s.ready.GetReadOnly() {
			t.Errorf("ready: %v", s.ready)
		}
		_, err = s.do(opWriteFile("/a", "other"))
		wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
		fd := s.works(opOpen("/a", "r")).GetOpen().GetFd()
		_, err = s.do(opWrite(fd, "other"))
		wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
		if got := s.works(opRead(fd, 0, 10)).GetRead().GetBytesRead(); got != 4 {
			t.Errorf("read %d bytes", got)
		}
	})
}

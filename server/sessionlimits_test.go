package server

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestASessionIsHeldBack does more in a session than a panel may in a second.
func TestASessionIsHeldBack(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		cfg := sessionConfig(t)
		cfg.OperationsPerSecond = 5
		r := start(t, cfg)
		s := begin(t, addr(r), r.openPanel(t, "p").GetToken(), "")
		var refused error
		for i := 0; i < 100 && refused == nil; i++ {
			_, refused = s.do(opStat("/"))
		}
		wantError(t, refused, codes.ResourceExhausted, "EAGAIN", "more than 5 operations in a second")
		if retryOf(refused) != time.Second {
			t.Errorf("retry after %s", retryOf(refused))
		}
		wantRejections(t, r, map[string]int{"operations_per_second": 1})
		eventually(t, "the session goes on", func() bool {
			_, err := s.do(opStat("/"))
			return err == nil
		})
	})
}

// TestOperationsOfASessionAreInFlight has one of a session's operations last, and asks for more: in that session, and beside it.
func TestOperationsOfASessionAreInFlight(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, begin begin, addr func(*running) string) {
		cfg := sessionConfig(t)
		cfg.InFlightPerPanel = 1
		r := start(t, cfg)
		token := r.openPanel(t, "p").GetToken()
		s := begin(t, addr(r), token, "")
		fd := s.file("/a")
		h, release, err := r.parts.handles.Use("p", fd, "")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		h.Position.Lock()
		lasts := s.ask(opWrite(fd, "x"))
		eventually(t, "it is under way", func() bool { return r.calls.limits.use("p").inFlight.Load() == 1 })
		_, inside := s.do(opStat("/"))
		_, beside := ctxfsv1.NewFsServiceClient(r.host(t)).Stat(with(t, "authorization", bearerOf(token)), &ctxfsv1.StatRequest{Path: "/"})
		h.Position.Unlock()
		for where, err := range map[string]error{"in the session": inside, "beside it": beside} {
			wantError(t, err, codes.ResourceExhausted, "EAGAIN", "more than 1 operations at once")
			if retryOf(err) != 100*time.Millisecond {
				t.Errorf("%s: retry after %s", where, retryOf(err))
			}
		}
		wantRejections(t, r, map[string]int{"in_flight": 2})
		if m := s.next(); m.GetId() != lasts || sessiontest.ResultOf(m).GetWrite().GetBytesWritten() != 1 {
			t.Errorf("the one that lasted: %v", m)
		}
		s.works(opStat("/"))
	})
}

// sessionWays are the ways that a session or a hold begins; each returns why it did not. One that did lasts until ctx ends.
var sessionWays = map[string]func(ctx context.Context, t *testing.T, r *running, token string) error{
	"grpc": func(ctx context.Context, t *testing.T, r *running, token string) error {
		stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).Session(withBearer(ctx, token))
		if err == nil {
			_ = stream.Send(openRequest("", "")) // Recv returns the error
			_, err = stream.Recv()
		}
		return err
	},
	"websocket": func(ctx context.Context, t *testing.T, r *running, token string) error {
		s := overWeb(t, dialWeb(t, r.Info().Addresses.HTTP, nil))
		s.must(s.say(openRequest("", token)))
		m := s.next()
		if m.GetReady() == nil {
			return fserrpb.FromSession(m.GetClosing().GetError())
		}
		context.AfterFunc(ctx, s.cut)
		return nil
	},
	"hold": func(ctx context.Context, t *testing.T, r *running, token string) error {
		stream, err := ctxfsv1.NewFsServiceClient(r.host(t)).Hold(withBearer(ctx, token), &ctxfsv1.HoldRequest{ClientInstance: "instance-of-a-test"})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	},
}

func withBearer(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", bearerOf(token))
}

// TestSessionsAreBoundedByWhicheverWay begins one by each way, and then one too many by each.
func TestSessionsAreBoundedByWhicheverWay(t *testing.T) {
	t.Parallel()
	for name, begin := range sessionWays {
		t.Run(name, func(t *testing.T) {
			cfg := sessionConfig(t)
			cfg.SessionsPerPanel = 1
			r := start(t, cfg)
			token := r.openPanel(t, "p").GetToken()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := begin(ctx, t, r, token); err != nil {
				t.Fatal(err)
			}
			for _, another := range sessionWays {
				wantError(t, another(ctx, t, r, token), codes.ResourceExhausted, "EMFILE", "this panel has 1 sessions already")
			}
			wantRejections(t, r, map[string]int{"sessions": len(sessionWays)})
			if err := begin(ctx, t, r, r.openPanel(t, "q").GetToken()); err != nil {
				t.Errorf("another panel: %v", err)
			}
			cancel()
			eventually(t, "the first one's end makes room", func() bool { return begin(t.Context(), t, r, token) == nil })
		})
	}
}

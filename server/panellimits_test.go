package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// rejections returns how many calls a limit has refused.
func rejections(t *testing.T, r *running, limit string) int {
	t.Helper()
	families, err := r.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "ctxfs_limit_rejections_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == limit {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// retryOf returns when a refused call may be tried again, 0 when that is not told.
func retryOf(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func TestAPanelIsHeldBack(t *testing.T) {
	cfg := testConfig(t)
	cfg.OperationsPerSecond = 5
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	one := with(t, "authorization", bearerOf(r.openPanel(t, "one").GetToken()))
	two := with(t, "authorization", bearerOf(r.openPanel(t, "two").GetToken()))
	var refused error
	for range 100 {
		if _, err := fs.Stat(one, &ctxfsv1.StatRequest{Path: "/"}); err != nil {
			refused = err
			break
		}
	}
	wantError(t, refused, codes.ResourceExhausted, "EAGAIN", "more than 5 operations in a second")
	if retryOf(refused) != time.Second {
		t.Errorf("retry after %s", retryOf(refused))
	}
	if n := rejections(t, r, "operations_per_second"); n != 1 {
		t.Errorf("%d refusals were counted", n)
	}
	for range 3 { // another panel, and a host, are not held back
		if _, err := fs.Stat(two, &ctxfsv1.StatRequest{Path: "/"}); err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		if _, err := fs.Stat(t.Context(), &ctxfsv1.StatRequest{ContextId: "ctx_one", Path: "/"}); err != nil {
			t.Error(err)
		}
	}
}

func TestSessionsAndWatchesAreBounded(t *testing.T) {
	cfg := testConfig(t)
	cfg.SessionsPerPanel, cfg.WatchesPerPanel, cfg.InFlightPerPanel = 1, 1, 1
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	token := r.openPanel(t, "p").GetToken()
	watch := func(ctx context.Context) error {
		s, err := fs.Watch(ctx, &ctxfsv1.WatchRequest{Path: "/"})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	hold := func(ctx context.Context) error {
		s, err := fs.Hold(ctx, &ctxfsv1.HoldRequest{ClientInstance: "instance-of-a-test"})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	for name, begin := range map[string]func(context.Context) error{"watches": watch, "sessions": hold} {
		first, cancel := context.WithCancel(with(t, "authorization", bearerOf(token)))
		if err := begin(first); err != nil {
			t.Fatal(name, err)
		}
		wantError(t, begin(with(t, "authorization", bearerOf(token))), codes.ResourceExhausted, "EMFILE", "has 1 "+name+" already")
		cancel()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // the server has no event to wait for
			if err := begin(with(t, "authorization", bearerOf(token))); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: the first one's end made no room: %v", name, err)
			}
		}
		if rejections(t, r, name) == 0 {
			t.Errorf("no refusal of %s was counted", name)
		}
	}
	if rejections(t, r, "handles") != 0 {
		t.Error("they were counted as handles")
	}
	// What streams count for is not in flight.
	if _, err := fs.Stat(with(t, "authorization", bearerOf(token)), &ctxfsv1.StatRequest{Path: "/"}); err != nil {
		t.Error(err)
	}
}

func TestOperationsInFlightAreBounded(t *testing.T) {
	cfg := testConfig(t)
	cfg.InFlightPerPanel = 2
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	ctx := with(t, "authorization", bearerOf(r.openPanel(t, "p").GetToken()))
	open := func() error {
		s, err := fs.WriteStream(ctx)
		if err == nil {
			err = s.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: fmt.Sprint("/f", time.Now().UnixNano())}}})
		}
		return err
	}
	if err := errors.Join(open(), open()); err != nil {
		t.Fatal(err)
	}
	for r.calls.limits.use("p").inFlight.Load() < 2 {
		time.Sleep(time.Millisecond) // the server has no event to wait for
	}
	_, err := fs.Stat(ctx, &ctxfsv1.StatRequest{Path: "/"})
	wantError(t, err, codes.ResourceExhausted, "EAGAIN", "more than 2 operations at once")
	if retryOf(err) == 0 {
		t.Error("it is not told when to retry")
	}
}

// TestTheQuotaOfAContext writes by every way there is until no more goes.
func TestTheQuotaOfAContext(t *testing.T) {
	cfg := testConfig(t)
	cfg.ContextMaxBytes, cfg.ContextMaxEntries = 4<<20, 200
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	piece := bytes.Repeat([]byte("x"), 256<<10)
	for name, write := range map[string]func(ctx context.Context, i int) error{
		"WriteFile": func(ctx context.Context, i int) error {
			_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: fmt.Sprint("/f", i), Content: &ctxfsv1.WriteFileRequest_Data{Data: piece}})
			return err
		},
		"AppendFile": func(ctx context.Context, _ int) error {
			_, err := fs.AppendFile(ctx, &ctxfsv1.AppendFileRequest{Path: "/a", Content: &ctxfsv1.AppendFileRequest_Data{Data: piece}})
			return err
		},
		"Write": func(ctx context.Context, i int) error {
			opened, err := fs.Open(ctx, &ctxfsv1.OpenRequest{Path: fmt.Sprint("/w", i), FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}})
			if err == nil {
				_, err = fs.Write(ctx, &ctxfsv1.WriteRequest{Fd: opened.GetFd(), Content: &ctxfsv1.WriteRequest_Data{Data: piece}})
			}
			return err
		},
		"WriteStream": func(ctx context.Context, i int) error {
			s, err := fs.WriteStream(ctx)
			if err != nil {
				return err
			}
			for _, m := range []*ctxfsv1.WriteStreamRequest{
				{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: fmt.Sprint("/s", i)}}},
				{Event: &ctxfsv1.WriteStreamRequest_Data{Data: piece}},
			} {
				if s.Send(m) != nil {
					break // the reason comes by CloseAndRecv
				}
			}
			_, err = s.CloseAndRecv()
			return err
		},
		"CopyFile": func(ctx context.Context, i int) error {
			if i == 0 {
				_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/source", Content: &ctxfsv1.WriteFileRequest_Data{Data: piece}})
				return err
			}
			_, err := fs.CopyFile(ctx, &ctxfsv1.CopyFileRequest{Path: "/source", Dest: fmt.Sprint("/c", i)})
			return err
		},
		"Cp": func(ctx context.Context, i int) error {
			if i == 0 {
				_, err := fs.Mkdir(ctx, &ctxfsv1.MkdirRequest{Path: "/tree"})
				if err == nil {
					_, err = fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/tree/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: piece}})
				}
				return err
			}
			_, err := fs.Cp(ctx, &ctxfsv1.CpRequest{Path: "/tree", Dest: fmt.Sprint("/t", i), Recursive: true})
			return err
		},
		"Mkdir": func(ctx context.Context, i int) error {
			_, err := fs.Mkdir(ctx, &ctxfsv1.MkdirRequest{Path: fmt.Sprint("/d", i)})
			return err
		},
		"Mkdtemp": func(ctx context.Context, _ int) error {
			_, err := fs.Mkdtemp(ctx, &ctxfsv1.MkdtempRequest{Prefix: "/t-"})
			return err
		},
		"Symlink": func(ctx context.Context, i int) error {
			_, err := fs.Symlink(ctx, &ctxfsv1.SymlinkRequest{Path: fmt.Sprint("/l", i), Target: "x"})
			return err
		},
		"Link": func(ctx context.Context, i int) error {
			if i == 0 {
				_, err := fs.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/source"})
				return err
			}
			_, err := fs.Link(ctx, &ctxfsv1.LinkRequest{Path: "/source", Dest: fmt.Sprint("/h", i)})
			return err
		},
		"Open": func(ctx context.Context, i int) error {
			opened, err := fs.Open(ctx, &ctxfsv1.OpenRequest{Path: fmt.Sprint("/o", i), FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}})
			if err == nil {
				_, err = fs.Close(ctx, &ctxfsv1.CloseRequest{Fd: opened.GetFd()})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := with(t, "authorization", bearerOf(r.openPanel(t, name).GetToken()))
			done, err := 0, error(nil)
			for ; err == nil && done < 500; done++ {
				err = write(ctx, done)
			}
			wantError(t, err, codes.ResourceExhausted, "EDQUOT", "--context-max-bytes")
			if done < 4 {
				t.Errorf("refused after %d", done)
			}
			if _, err := fs.Rm(ctx, &ctxfsv1.RmRequest{Path: "/src", Recursive: true, Force: true}); err != nil {
				t.Errorf("nothing can be removed: %v", err)
			}
			if _, err := fs.Stat(ctx, &ctxfsv1.StatRequest{Path: "/"}); err != nil {
				t.Error(err)
			}
		})
	}
	if n := rejections(t, r, "context_size"); n != 11 {
		t.Errorf("%d refusals were counted", n)
	}
}

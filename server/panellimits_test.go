package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// rejections returns how many calls each limit has refused.
func rejections(t *testing.T, r *running) map[string]int {
	t.Helper()
	families, err := r.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]int{}
	for _, f := range families {
		if f.GetName() != "ctxfs_limit_rejections_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			refused[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return refused
}

// wantRejections checks how many calls each limit has refused: none by those that are not named.
func wantRejections(t *testing.T, r *running, want map[string]int) {
	t.Helper()
	if got := rejections(t, r); !maps.Equal(got, want) {
		t.Errorf("refusals were counted as %v, want %v", got, want)
	}
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
	t.Parallel()
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
	wantRejections(t, r, map[string]int{"operations_per_second": 1})
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
	t.Parallel()
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
		eventually(t, "the end of the first of the "+name+" made room", func() bool { return begin(with(t, "authorization", bearerOf(token))) == nil })
		if rejections(t, r)[name] == 0 {
			t.Errorf("no refusal of %s was counted", name)
		}
	}
	if rejections(t, r)["handles"] != 0 {
		t.Error("they were counted as handles")
	}
	// What streams count for is not in flight.
	if _, err := fs.Stat(with(t, "authorization", bearerOf(token)), &ctxfsv1.StatRequest{Path: "/"}); err != nil {
		t.Error(err)
	}
}

func TestOperationsInFlightAreBounded(t *testing.T) {
	t.Parallel()
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
	eventually(t, "both are in flight", func() bool { return r.calls.limits.use("p").inFlight.Load() == 2 })
	_, err := fs.Stat(ctx, &ctxfsv1.StatRequest{Path: "/"})
	wantError(t, err, codes.ResourceExhausted, "EAGAIN", "more than 2 operations at once")
	if retryOf(err) == 0 {
		t.Error("it is not told when to retry")
	}
	wantRejections(t, r, map[string]int{"in_flight": 1})
}

// TestWhatIsTooMuchIsCounted has a panel open too many handles and read too much at once.
func TestWhatIsTooMuchIsCounted(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HandlesPerPanel = 1
	r := start(t, cfg)
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	ctx := with(t, "authorization", bearerOf(r.openPanel(t, "p").GetToken()))
	large := write(t, filepath.Join(r.folder("ctx_p"), "large"), "")
	if err := os.Truncate(large, 4<<20); err != nil {
		t.Fatal(err)
	}
	open := &ctxfsv1.OpenRequest{Path: "/large"}
	if _, err := fs.Open(ctx, open); err != nil {
		t.Fatal(err)
	}
	wantRejections(t, r, map[string]int{})
	_, err := fs.Open(ctx, open)
	wantError(t, err, codes.ResourceExhausted, "EMFILE", "1 handles are open, the limit of one panel")
	wantRejections(t, r, map[string]int{"handles": 1})
	_, err = fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/large"})
	wantError(t, err, codes.ResourceExhausted, "EFBIG", "reply of 4.0 MiB exceeds 3.5 MiB")
	wantRejections(t, r, map[string]int{"handles": 1, "reply_bytes": 1})
}

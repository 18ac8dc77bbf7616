package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

// manyStreams runs n streams of id and returns when all of them are in the table.
func manyStreams(t *testing.T, table *streamTable, id panels.Identity, n int) {
	t.Helper()
	running := make(chan struct{})
	for range n {
		go func() {
			_ = table.run(t.Context(), id, func(ctx context.Context) error {
				running <- struct{}{}
				<-ctx.Done()
				return nil
			})
		}()
	}
	for range n {
		<-running
	}
}

func TestAPanelsStreamsAreBounded(t *testing.T) {
	t.Parallel()
	table := newStreamTable()
	panel := func(name string) panels.Identity { return panels.Identity{Role: panels.RolePanel, Panel: name} }
	one := func(id panels.Identity) error {
		return table.run(t.Context(), id, func(context.Context) error { return nil })
	}
	manyStreams(t, table, panel("p"), maxPanelStreams)
	if err := one(panel("p")); !errors.Is(err, fserr.EMFILE) {
		t.Errorf("one stream more: %v, want EMFILE", err)
	}
	if err := one(panel("q")); err != nil {
		t.Errorf("another panel: %v", err)
	}
	if err := one(panels.Identity{Role: panels.RoleHost, Panel: "p"}); err != nil {
		t.Errorf("a host that acts for the panel: %v", err)
	}
	table.endPanel("p", errExpired)
	table.wait()
	eventually(t, "no stream is left", func() bool { return table.count() == 0 }) // run returns some time after its handler
	if err := one(panel("p")); err != nil {
		t.Errorf("after the streams ended: %v", err)
	}
	if len(table.counts) != 0 {
		t.Errorf("counts are left: %v", table.counts)
	}
}

// TestSitesWithoutAPanelHaveStreamsOfTheirOwn fills one site of a host with streams: the other sites of hosts still answer.
func TestSitesWithoutAPanelHaveStreamsOfTheirOwn(t *testing.T) {
	t.Parallel()
	table := newStreamTable()
	visitor := func(id string) panels.Identity { return sites.Site{ID: id, Hash: [32]byte{id[0]}}.Visitor() }
	one := func(id panels.Identity) error {
		return table.runHere(t.Context(), id, func(context.Context) error { return nil })
	}
	manyStreams(t, table, visitor("a"), maxPanelStreams)
	if err := one(visitor("a")); !errors.Is(err, fserr.EMFILE) {
		t.Errorf("one stream more: %v, want EMFILE", err)
	}
	if err := one(visitor("b")); err != nil {
		t.Errorf("another site: %v", err)
	}
	table.close()
	table.wait()
	eventually(t, "no stream is left", func() bool { return table.count() == 0 }) // run returns some time after its handler
	if len(table.counts) != 0 {
		t.Errorf("counts are left: %v", table.counts)
	}
}

// TestStreamsFollowTheExpiryOfTheirSite renews a site: its stream lasts longer, then ends at once, and streams of other sites do not.
func TestStreamsFollowTheExpiryOfTheirSite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, begun := newStreamTable(), time.Now()
		ends := map[string]chan time.Duration{}
		for _, id := range []string{"a", "b"} {
			site := sites.Site{ID: id, Hash: [32]byte{id[0]}, ExpiresAt: begun.Add(time.Hour)}
			end := make(chan time.Duration, 1)
			ends[id] = end
			go func() {
				err := table.runHere(t.Context(), site.Visitor(), func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
				if !errors.Is(err, fserr.EACCES) {
					t.Errorf("it ended with %v", err)
				}
				end <- time.Since(begun)
			}()
		}
		synctest.Wait()
		table.extendToken([32]byte{'a'}, begun.Add(3*time.Hour))
		if got := <-ends["b"]; got != time.Hour {
			t.Errorf("a site that was not renewed: %s", got)
		}
		time.Sleep(time.Hour) // of the test's own clock
		table.extendToken([32]byte{'a'}, time.Now())
		if got := <-ends["a"]; got != 2*time.Hour {
			t.Errorf("a site that got a shorter life: %s", got)
		}
	})
}

// closingPanels is a registry whose panel is closed after its first authentication.
type closingPanels struct {
	panels.Service
	asked int
}

func (c *closingPanels) Authenticate(context.Context, string) (panels.Identity, error) {
	if c.asked++; c.asked > 1 {
		return panels.Identity{}, &fserr.Error{Code: fserr.EACCES, Detail: "the panel was closed"}
	}
	return panels.Identity{Role: panels.RolePanel, Panel: "p", Context: "ctx_p", Owner: "p"}, nil
}

type silentStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silentStream) Context() context.Context { return s.ctx }

// TestAPanelClosedWhileItsStreamBegins closes the panel after the stream was authenticated and before it is in the table, where closing
// the panel would find it.
func TestAPanelClosedWhileItsStreamBegins(t *testing.T) {
	t.Parallel()
	in := newInterceptors(zap.NewNop(), &authenticator{panels: &closingPanels{}}, newMetrics("1"), newStreamTable())
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", bearerOf("token")))
	info := &grpc.StreamServerInfo{FullMethod: ctxfsv1.FsService_Watch_FullMethodName}
	err := in.stream(nil, silentStream{ctx: ctx}, info, func(any, grpc.ServerStream) error {
		t.Error("the handler ran")
		return nil
	})
	wantError(t, err, codes.Unauthenticated, "EACCES", "closed")
}

// TestOpenPanelChangesWhatAHostMayDoForIt has the host act for the panel before, so
// that the server remembers the panel's rights.
func TestOpenPanelChangesWhatAHostMayDoForIt(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	cc := r.host(t)
	fs, ps := ctxfsv1.NewFsServiceClient(cc), ctxfsv1.NewPanelServiceClient(cc)
	for _, readOnly := range []bool{false, true, false} {
		if _, err := ps.OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "p", ReadOnly: readOnly}); err != nil {
			t.Fatal(err)
		}
		_, err := fs.WriteFile(with(t, panelKey, "p"), &ctxfsv1.WriteFileRequest{Path: "/f"})
		if readOnly {
			wantError(t, err, codes.FailedPrecondition, "EROFS", "read-only")
		} else if err != nil {
			t.Errorf("a panel that may write: %v", err)
		}
	}
}

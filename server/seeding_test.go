package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// seedings returns how many seedings the server counted, by result.
func (r *running) seedings(t *testing.T) map[string]uint64 {
	t.Helper()
	families, err := r.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range families {
		if f.GetName() != "ctxfs_seed_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "result" {
					counts[l.GetValue()] += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return counts
}

// patient is longer than anything takes that is expected to happen.
const patient = 5 * time.Minute

// TestAHundredFirstAccessesSeedOnce has a hundred clients access a context that does not exist, each over a connection of its own, in
// every way at once.
func TestAHundredFirstAccessesSeedOnce(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	write(t, filepath.Join(cfg.Workspace, ".git", "HEAD"), "ref: refs/heads/main\n")
	for i := range 200 {
		write(t, filepath.Join(cfg.Workspace, fmt.Sprintf("d%d", i%10), fmt.Sprintf("f%d", i)), strings.Repeat("x", 1000+i))
	}
	// No limit of time counts here: a busy machine may take longer than each.
	r := startWith(t, cfg, func(s *Server) { s.conns.unix.firstCallTime = patient })
	ways := []func(context.Context, grpc.ClientConnInterface) error{opensPanel, ensures, readsFirst, readsFirst, listsFirst}
	begin := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 100 {
		cc := r.host(t)
		clients.Go(func() {
			ctx, cancel := context.WithTimeout(with(t, panelKey, "p"), patient)
			defer cancel()
			<-begin
			if err := ways[i%len(ways)](ctx, cc); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	close(begin)
	clients.Wait()
	if got := r.seedings(t); got["ok"] != 1 || len(got) != 1 {
		t.Errorf("seedings %v, want one", got)
	}
	list, err := ctxfsv1.NewContextServiceClient(r.host(t)).ListContexts(t.Context(), &ctxfsv1.ListContextsRequest{})
	if err != nil || len(list.GetContexts()) != 1 || list.GetContexts()[0].GetFiles() != 200 {
		t.Errorf("contexts %v, %v", list, err)
	}
}

func opensPanel(ctx context.Context, cc grpc.ClientConnInterface) error {
	resp, err := ctxfsv1.NewPanelServiceClient(cc).OpenPanel(ctx, &ctxfsv1.OpenPanelRequest{PanelId: "p"})
	if err == nil && resp.GetContextId() != "ctx_p" {
		return fmt.Errorf("opened %v", resp)
	}
	return err
}

func ensures(ctx context.Context, cc grpc.ClientConnInterface) error {
	s, err := ctxfsv1.NewContextServiceClient(cc).EnsureContext(ctx, &ctxfsv1.EnsureContextRequest{ContextId: "ctx_p"})
	if err != nil {
		return err
	}
	var last *ctxfsv1.EnsureContextResponse
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		last = m
	}
	if last.GetReady().GetContext().GetFiles() == 0 {
		return fmt.Errorf("ended in %v", last)
	}
	return nil
}

// readsFirst reads a file, which its first access has to bring.
func readsFirst(ctx context.Context, cc grpc.ClientConnInterface) error {
	resp, err := ctxfsv1.NewFsServiceClient(cc).ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/d9/f199"})
	if err == nil && len(resp.GetData()) != 1199 {
		return fmt.Errorf("read %d bytes", len(resp.GetData()))
	}
	return err
}

func listsFirst(ctx context.Context, cc grpc.ClientConnInterface) error {
	resp, err := ctxfsv1.NewFsServiceClient(cc).Readdir(ctx, &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true})
	if err == nil && len(resp.GetEntries()) < 210 {
		return fmt.Errorf("listed %d entries", len(resp.GetEntries()))
	}
	return err
}

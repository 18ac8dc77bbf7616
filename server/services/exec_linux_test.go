package services

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestListProcessesHasPages lists commands with the largest arguments, as a hostile panel starts them, and a small one. Each page fits into a
// message, and together they have all processes once.
func TestListProcessesHasPages(t *testing.T) {
	t.Parallel()
	dir, start := t.TempDir(), time.Unix(1_700_000_000, 0)
	var want []string
	for i := range 40 {
		id, argv := fmt.Sprintf("p-%010d", i), []string{"sh", strings.Repeat("x", 127<<10)}
		if i == 0 {
			argv = []string{"true"}
		}
		data, err := json.Marshal(map[string]any{
			"id": id, "command": exec.Command{Context: contexts.ID("ctx_a"), Argv: argv}, "started": start.Add(time.Duration(i/2) * time.Second), // pairs of one time
			"exit": exec.Exit{Reason: exec.Exited, Detail: "bwrap: \xff", At: time.Now()},
		})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, id+".json"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	engine, err := exec.Open(t.Context(), exec.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() }) // the directory goes with the test
	s := &Exec{Processes: engine}
	ctx := panels.WithIdentity(context.Background(), panels.Identity{Role: panels.RoleHost})
	var got []string
	last := start.Add(time.Hour).UnixNano()
	req := &ctxfsv1.ListProcessesRequest{}
	for pages := 1; ; pages++ {
		resp, err := s.ListProcesses(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := proto.Marshal(resp); err != nil || len(data) > 2<<20 {
			t.Fatalf("page %d has %d bytes, %v", pages, len(data), err)
		}
		for _, p := range resp.GetProcesses() {
			if p.GetStartedNs() > last {
				t.Errorf("%s is out of order", p.GetProcessId())
			}
			last, got = p.GetStartedNs(), append(got, p.GetProcessId())
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			if pages < 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed %v", got)
	}
	for _, token := range []string{"x", "12", "12/", "/p-1", "99999999999999999999/p-1"} {
		if resp, err := s.ListProcesses(ctx, &ctxfsv1.ListProcessesRequest{PageToken: token}); err == nil {
			t.Errorf("token %q: %d processes", token, len(resp.GetProcesses()))
		}
	}
}

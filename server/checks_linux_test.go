package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// checked is what ApplyChecked reported.
type checked struct {
	out     string
	ended   []*ctxfsv1.CheckEnded
	applied *ctxfsv1.ApplyResponse
}

func shellCheck(script string) *ctxfsv1.Check {
	return &ctxfsv1.Check{Argv: []string{"sh", "-c", script}}
}

// applyChecked applies app/app.txt of ctx_a after checks. seen is called with each message.
func (h *house) applyChecked(ctx context.Context, seen func(*checked), checks ...*ctxfsv1.Check) (*checked, error) {
	h.t.Helper()
	stream, err := h.reviews().ApplyChecked(ctx, &ctxfsv1.ApplyCheckedRequest{
		Apply: &ctxfsv1.ApplyRequest{ContextId: "ctx_a", Approve: true, Selection: selected("/app/app.txt")}, Checks: checks,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	got := &checked{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got.out += string(m.GetOutput().GetData())
		if m.GetEnded() != nil {
			got.ended = append(got.ended, m.GetEnded())
		}
		if m.GetApplied() != nil {
			got.applied = m.GetApplied()
		}
		if seen != nil {
			seen(got)
		}
	}
}

// checkHouse serves a workspace whose context ctx_a has an edit of app/app.txt, another edit, and an ignored directory.
func checkHouse(t *testing.T) *house {
	h, _ := execHouse(t)
	folder := h.folder("ctx_a")
	for name, text := range map[string]string{"app/app.txt": "edited\n", "app/other.txt": "not applied\n", "app/ignored/dep": "installed\n", "app/.gitignore": "ignored\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755), os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h.write("app/.gitignore", "ignored\n")
	return h
}

// wantApplied checks the workspace's file, and that no fork is left.
func (h *house) wantApplied(want string) {
	h.t.Helper()
	if text, err := os.ReadFile(h.in("app/app.txt")); err != nil || string(text) != want {
		h.t.Errorf("the workspace has %q, %v, want %q", text, err, want)
	}
	list, err := h.contexts().ListContexts(h.t.Context(), &ctxfsv1.ListContextsRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range list.GetContexts() {
		if strings.Contains(c.GetContextId(), "check") {
			h.t.Errorf("the fork %s is left", c.GetContextId())
		}
	}
}

func TestChecksSeeResultAndApply(t *testing.T) {
	t.Parallel()
	h := checkHouse(t)
	h.write("data/data.txt", "the workspace's edit\n")
	h.write("app/new.txt", "new in the workspace\n")
	got, err := h.applyChecked(t.Context(), nil,
		shellCheck("exec 2>&1; cat app/app.txt data/data.txt app/new.txt app/ignored/dep; ls app/other.txt; echo x > app/app.txt; echo x > made"),
		&ctxfsv1.Check{Argv: []string{"false"}, Optional: true}, &ctxfsv1.Check{Argv: []string{"sh", "-c", "sleep 100"}, WallMs: 100, Optional: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.out, "edited\nthe workspace's edit\nnew in the workspace\ninstalled\n") || !strings.Contains(got.out, "cannot access 'app/other.txt'") {
		t.Errorf("the check saw %q", got.out)
	}
	if len(got.ended) != 3 || !got.ended[0].GetPassed() || got.ended[1].GetPassed() || got.ended[2].GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_TIMEOUT {
		t.Errorf("the checks ended so: %v", got.ended)
	}
	if got.applied.GetJournalId() == 0 || len(got.applied.GetFiles()) != 1 {
		t.Errorf("applied %v", got.applied)
	}
	h.wantApplied("edited\n")
	if text, err := os.ReadFile(filepath.Join(h.folder("ctx_a"), "made")); err == nil {
		t.Errorf("the check wrote %q to the context", text)
	}
}

func TestFailedCheckAppliesNothing(t *testing.T) {
	t.Parallel()
	h := checkHouse(t)
	got, err := h.applyChecked(t.Context(), nil, shellCheck("echo broken; exit 7"), shellCheck("echo second"))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "CHECK_FAILED") || !strings.Contains(err.Error(), "code 7") {
		t.Errorf("got %v", err)
	}
	if got.out != "broken\n" || len(got.ended) != 1 || got.ended[0].GetExit().GetCode() != 7 || got.applied != nil {
		t.Errorf("got %+v", got)
	}
	h.wantApplied("app")
	if _, err := h.applyChecked(t.Context(), nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without checks: %v", err)
	}
}

// TestWorkspaceMovesDuringCheck changes the workspace while the check runs. The tree that would result was not checked then, unless the file is none that
// the check saw.
func TestWorkspaceMovesDuringCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, content string
		applies       bool
	}{
		"the file": {"app/app.txt", "edited\nand by the user\n", false}, "another file": {"app/second.txt", "by the user\n", false},
		"a file of another repository": {"data/data.txt", "by the user\n", false}, "an ignored file": {"app/node_modules/x", "installed\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := checkHouse(t)
			_, err := h.applyChecked(t.Context(), func(got *checked) {
				if got.out != "" {
					h.write(c.path, c.content)
				}
			}, shellCheck("echo running; sleep 1"))
			switch says := status.Convert(err).Message(); {
			case c.applies && err != nil:
				t.Error(err)
			case !c.applies && !strings.Contains(says, "STALE_REVISION") && !strings.Contains(says, "CONFLICT"):
				t.Errorf("got %v", err)
			}
			want := "app"
			if c.applies {
				want = "edited\n"
			} else if c.path == "app/app.txt" {
				want = c.content
			}
			h.wantApplied(want)
		})
	}
}

// TestCheckEndsWithCall leaves the call while a check runs.
func TestCheckEndsWithCall(t *testing.T) {
	t.Parallel()
	h := checkHouse(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_, err := h.applyChecked(ctx, func(got *checked) {
		if got.out != "" {
			leave()
		}
	}, shellCheck("echo running; sleep 1000"))
	if status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	h.stop() // it waits for its calls
	h.serve()
	h.wantApplied("app")
}

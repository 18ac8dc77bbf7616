package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// patchAgainst returns the difference between something and a context, for git apply, or the error of the call.
func (h *house) patchAgainst(id string, a *ctxfsv1.Against) (string, error) {
	h.t.Helper()
	stream, err := h.reviews().GetDiff(h.t.Context(), &ctxfsv1.GetDiffRequest{ContextId: id, Form: ctxfsv1.DiffForm_DIFF_FORM_UNIFIED, Against: a})
	if err != nil {
		h.t.Fatal(err)
	}
	var out strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		out.Write(m.GetText())
	}
}

func revision(id string) *ctxfsv1.Against {
	return &ctxfsv1.Against{What: &ctxfsv1.Against_Revision{Revision: id}}
}

func snapshot(name string) *ctxfsv1.Against {
	return &ctxfsv1.Against{What: &ctxfsv1.Against_Snapshot{Snapshot: name}}
}

func otherContext(id string) *ctxfsv1.Against {
	return &ctxfsv1.Against{What: &ctxfsv1.Against_ContextId{ContextId: id}}
}

func workspace(set bool) *ctxfsv1.Against {
	return &ctxfsv1.Against{What: &ctxfsv1.Against_Workspace{Workspace: set}}
}

// laterEdits are what the agent does after someone looked: to files that it had changed, and to others.
const laterEdits = `
	sed -i 's/line three/line 3/' src/main.go
	echo again >> src/deep/a.go
	rm new/dir/n; echo back > app.txt
	rm link; ln -s kept link
	chmod -x run
	printf 'a\0d' > bin
	mv renamed/c.go moved.go
	rm replaced/r; mkdir replaced/r; echo deep > replaced/r/deep
	echo later >> kept/b.go`

// TestDiffAgainst applies each difference with git to a copy of what the context is compared with, and looks for the context.
func TestDiffAgainst(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, h *house) {
		id := h.reviewed().GetContextId()
		folder := filepath.Join(h.r.Info().ContextsDir, id, "app")
		shell(t, folder, edits)
		submitted, err := h.reviews().SubmitReview(t.Context(), &ctxfsv1.SubmitReviewRequest{ContextId: id})
		if err != nil {
			t.Fatal(err)
		}
		lives := ctxfsv1.NewContextServiceClient(h.cc)
		if _, err := lives.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "looked"}); err != nil {
			t.Fatal(err)
		}
		if _, err := lives.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: id, NewContextId: "ctx_fork"}); err != nil {
			t.Fatal(err)
		}
		looked := treeOf(t, folder)
		shell(t, h.in("app"), "sed -i 's/line 9/line nine/' src/main.go; rm kept/b.go; echo mine > workspace-only; rm type/file; rmdir type; touch run")
		theirs := treeOf(t, h.in("app"))
		delete(theirs, "workspace-only")
		for name, against := range map[string]*ctxfsv1.Against{
			"revision": revision(submitted.GetRevision()), "snapshot": snapshot("looked"), "context": otherContext("ctx_fork"),
		} {
			if got, err := h.patchAgainst(id, against); got != "" || err != nil {
				t.Errorf("against %s, unchanged: %q, %v", name, got, err)
			}
		}

		shell(t, folder, laterEdits)
		want := treeOf(t, folder)
		for name, c := range map[string]struct {
			against *ctxfsv1.Against
			from    map[string]string
		}{
			"revision": {revision(submitted.GetRevision()), looked}, "snapshot": {snapshot("looked"), looked},
			"context": {otherContext("ctx_fork"), looked}, "workspace": {workspace(true), theirs},
		} {
			patch, err := h.patchAgainst(id, c.against)
			if err != nil {
				t.Errorf("against %s: %v", name, err)
				continue
			}
			wantTree(t, "against "+name, gitApplied(t, c.from, patch), want)
			changes, summary := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: id, Against: c.against})
			for path, change := range changes {
				if change.GetChangeId() != "" || change.GetDrifted() || summary.GetRevision() != "" {
					t.Errorf("against %s: %s can be decided on", name, path)
				}
			}
		}
	})
}

// gitApplied returns what git apply makes of a tree below app.
func gitApplied(t *testing.T, from map[string]string, patch string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for p, text := range from {
		name := filepath.Join(dir, "app", p)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mode := os.FileMode(0o644)
		if rest, ok := strings.CutPrefix(text, "+x "); ok {
			text, mode = rest, 0o755
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "patch"), patch)
	shell(t, dir, "GIT_CEILING_DIRECTORIES=/ git apply --whitespace=nowarn patch")
	return treeOf(t, filepath.Join(dir, "app"))
}

// TestDiffAgainstRefuses names what does not exist, and keeps panels from what is not theirs.
func TestDiffAgainstRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	panel := h.reviewed()
	id := panel.GetContextId()
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "panels/other"})
	for name, c := range map[string]struct {
		against *ctxfsv1.Against
		code    codes.Code
		text    string
	}{
		"revision": {revision("abc"), codes.NotFound, "nothing was submitted yet"},
		"path":     {revision("../../ctx_x"), codes.NotFound, "has no revision"},
		"snapshot": {snapshot("none"), codes.NotFound, `has no snapshot "none"`},
		"bad name": {snapshot("../x"), codes.InvalidArgument, "bad name of a snapshot"},
		"context":  {otherContext("ctx_none"), codes.NotFound, "ctx_none"},
		"bad ID":   {otherContext("none"), codes.InvalidArgument, "none"},
		"empty":    {workspace(false), codes.InvalidArgument, "against is empty"},
	} {
		_, err := h.patchAgainst(id, c.against)
		if status.Code(err) != c.code || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.code, c.text)
		}
	}
	for name, a := range map[string]*ctxfsv1.Against{"workspace": workspace(true), "context": otherContext("ctx_panels~other")} {
		stream, err := h.reviews().GetDiff(with(t, "authorization", bearerOf(panel.GetToken())), &ctxfsv1.GetDiffRequest{Against: a})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a panel reads against a %s: %v", name, err)
		}
	}
	if changes, _ := h.changes(with(t, "authorization", bearerOf(panel.GetToken())), &ctxfsv1.ListChangesRequest{Against: otherContext(id)}); len(changes) != 0 {
		t.Errorf("a context differs from itself: %v", changes)
	}
}

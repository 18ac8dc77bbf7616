package review

import (
	"io"
	"os"
	"testing"
)

// collecting removes the contents that nothing refers to, and that no call holds.
func (w *world) collecting() {
	w.t.Helper()
	must(w.t, w.reviews.collectContents(w.t.Context()))
}

// wantContents checks that the store has what an entry refers to.
func (w *world) wantContents(e *Entry) {
	w.t.Helper()
	used := map[string]bool{}
	e.use(used)
	for hash := range used {
		if hash != "" && !w.reviews.store.has(w.t.Context(), hash) {
			w.t.Errorf("a content that %v refers to was removed", e.Kind)
		}
	}
}

// TestPushHoldsContents has another call remove contents whenever a push reads one of a commit.
func TestPushHoldsContents(t *testing.T) {
	t.Parallel()
	w := newPushed(t)
	req := w.pushing(ToCommit, "main")
	blob := req.Blob
	req.Blob = func(id string) (io.Reader, error) {
		w.collecting()
		return blob(id)
	}
	e, err := w.push(req)
	must(t, err)
	w.wantContents(e)
	if left := w.changed(); left != "" {
		t.Errorf("after the push these changes are left: %s", left)
	}
	w.collecting()
	_, err = w.undo(e.ID)
	must(t, err)
}

// TestReadOfApprovedVersionHoldsIt has another call remove contents before an approved version, which has one hunk of two, is opened.
func TestReadOfApprovedVersionHoldsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, files{"a": numbered(30)})
	write(t, w.in(id), files{"a": byAgent(numbered(30)) + "another line\n"})
	w.hunk(0)
	w.reviews.point = func(phase string) {
		if phase == "approved found" {
			w.collecting()
		}
	}
	if got := w.version("a", OfApproved); got != byAgent(numbered(30)) {
		t.Errorf("the approved version is %q", got)
	}
}

// TestPlanHoldsContentsUntilItIsPlaced has other calls remove contents, and take approvals back, between the plan of an apply and its placing in a fork.
func TestPlanHoldsContentsUntilItIsPlaced(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]func(w *world) (ApplyRequest, files){
		"one hunk of two": func(w *world) (ApplyRequest, files) {
			w.hunk(0)
			return ApplyRequest{}, files{"a": byAgent(numbered(30))}
		},
		"merged with the workspace's": func(w *world) (ApplyRequest, files) {
			write(w.t, w.in("workspace"), files{"a": "the user's\n" + numbered(30)})
			return ApplyRequest{Selection: &Selection{All: true}, Approve: true}, files{"a": "the user's\n" + byAgent(numbered(30)) + "another line\n"}
		},
		"approved before": func(w *world) (ApplyRequest, files) {
			w.decide(Approved, Selection{All: true})
			return ApplyRequest{}, files{"a": byAgent(numbered(30)) + "another line\n"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, files{"a": numbered(30)})
			write(t, w.in(id), files{"a": byAgent(numbered(30)) + "another line\n"})
			must(t, os.CopyFS(w.in("ctx_b"), os.DirFS(w.in("layer"))))
			req, want := plan(w)
			req.Context, req.Actor = id, "host"
			e, release, err := w.reviews.Plan(t.Context(), req)
			must(t, err)
			must(t, w.reviews.Deleted(id))
			w.collecting()
			must(t, w.reviews.Place(t.Context(), "ctx_b", e))
			same(t, "the fork", read(t, w.in("ctx_b")), want)
			release()
			w.collecting()
			if n := w.stored(); n != 0 {
				t.Errorf("after the release the store has %d bytes", n)
			}
		})
	}
}

package review

import (
	"os"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// TestApplyKeepsOwners applies changes to files of other owners and groups: with a server that may give files away, and with one that may not.
func TestApplyKeepsOwners(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	owners := map[string][2]int{"owner": {1234, 0}, "group": {0, 4321}, "both": {1234, 4321}, "own": {0, 0}}
	for name, mayGive := range map[string]bool{"permitted": true, "not permitted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"owner": "1\n", "group": "1\n", "both": "1\n", "own": "1\n"})
			for file, o := range owners {
				must(t, os.Chown(w.in("workspace")+"/"+file, o[0], o[1]))
				write(t, w.in(id), files{file: "2\n"})
			}
			if !mayGive {
				root, err := rootfs.Open(w.in("workspace"), rootfs.Options{}) // which gives no file away, as another user's server
				must(t, err)
				defer func() { must(t, root.Close()) }()
				w.reviews.ws.root, root = root, w.reviews.ws.root
			}
			e, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id, Approve: true, Actor: "host", Selection: &Selection{All: true}})
			must(t, err)
			for _, f := range e.Files() {
				st, err := os.Stat(w.in("workspace") + "/" + string(f.Path))
				must(t, err)
				got := st.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // Linux
				want := owners[string(f.Path)]
				if !mayGive {
					want = [2]int{}
				}
				if int(got.Uid) != want[0] || int(got.Gid) != want[1] || f.OwnerLost != (want != owners[string(f.Path)]) {
					t.Errorf("%s is of %d:%d (owner lost: %v), want %v", f.Path, got.Uid, got.Gid, f.OwnerLost, want)
				}
			}
			if got := read(t, w.in("workspace")); got["both"] != "2\n" || got["own"] != "2\n" {
				t.Errorf("the workspace has %q", got)
			}
			_, err = w.reviews.Undo(t.Context(), UndoRequest{ID: e.ID, Actor: "host", May: func(*Entry) error { return nil }})
			must(t, err)
		})
	}
}

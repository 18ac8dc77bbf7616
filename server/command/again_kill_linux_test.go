package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const renamed = 300

// TestUserNSKillInARename kills a server while it renames a directory of the layer: every file is at the old or at the new
// name, and at the new one all are when any is.
func TestUserNSKillInARename(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.sh(fmt.Sprintf("mkdir -p ws/dir/sub && for i in $(seq %d); do echo $i > ws/dir/sub/$i; done", renamed))
	p.sh("cd ws && git add . && git -c user.name=t -c user.email=t@example.com commit -qm second")
	upper := filepath.Join(p.ws, ".contexts/.ctxfs/overlay-userns/ctx_demo/upper")
	from, to := "dir", "dir-0"
	for round, seen := range []func() bool{
		func() bool { return reserved(upper) != "" },
		func() bool { return len(names(filepath.Join(upper, reserved(upper), "sub"))) > renamed/2 },
		func() bool { return len(names(filepath.Join(upper, to))) > 0 },
	} {
		r := p.serve()
		fs, ctx := r.fs()
		done := make(chan error, 1)
		go func() {
			_, err := fs.Rename(ctx, &ctxfsv1.RenameRequest{Path: from, Dest: to})
			done <- err
		}()
		for over := false; !over && !seen(); {
			select {
			case err := <-done:
				t.Logf("round %d: the rename was over before the kill: %v", round, err)
				over = true
				done <- err
			default:
			}
		}
		p.must(syscall.Kill(r.pid, syscall.SIGKILL))
		<-done
		r.ended()
		r = p.serve()
		old, moved := r.files(from), r.files(to)
		if moved != renamed && (moved != 0 || old != renamed) {
			t.Errorf("round %d: %d files at the old name, %d at the new one", round, old, moved)
		}
		if left := reserved(upper); left != "" {
			t.Errorf("round %d: %s is left", round, left)
		}
		if moved == renamed { // the next round moves it on
			from, to = to, fmt.Sprintf("dir-%d", round+1)
		}
		p.must(r.cmd.Process.Signal(syscall.SIGTERM))
		r.ended()
	}
}

// names lists a directory; nothing when it is not there.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	list, _ := f.Readdirnames(-1) // it may be going
	return list
}

func reserved(dir string) string {
	for _, name := range names(dir) {
		if strings.HasPrefix(name, rootfs.ReservedPrefix) {
			return name
		}
	}
	return ""
}

// files counts the files below a directory of the context; 0 when it is not there.
func (r *running) files(dir string) int {
	r.Helper()
	fs, ctx := r.fs()
	got, err := fs.Readdir(ctx, &ctxfsv1.ReaddirRequest{Path: dir + "/sub"})
	if err != nil {
		return 0
	}
	return len(got.GetEntries())
}

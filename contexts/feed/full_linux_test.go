package feed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestFullDiskResetsReaders fills the disk under a feed: the change that has no room is reported to its caller, and readers get a reset.
func TestFullDiskResetsReaders(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", p.cfg.Dir, "tmpfs", 0, "size=256k"); err != nil {
		fmt.Println("feed: without a full disk: mount tmpfs:", err)
		t.Skip("this machine mounts no tmpfs")
	}
	t.Cleanup(func() {
		p.kill()
		_ = unix.Unmount(p.cfg.Dir, unix.MNT_DETACH)
	})
	r := p.read("")
	p.add("1")
	p.want(r, "1")
	fill := filepath.Join(p.cfg.Dir, "fill")
	for full := false; !full; {
		full = os.WriteFile(fill, make([]byte, size(fill)+4096), 0o600) != nil
	}
	err := p.feeds.Of("ctx_a").Append(make([]byte, 64<<10))
	if fserr.CodeOf(err) != fserr.ENOSPC {
		t.Fatalf("a change on a full disk is %v", err)
	}
	if err := os.WriteFile(fill, make([]byte, 256<<10), 0o600); fserr.CodeOf(err) != fserr.ENOSPC {
		t.Fatal(err)
	}
	if _, _, err := r.Next(); fserr.CodeOf(err) != fserr.ENOSPC {
		t.Errorf("a feed that has no room to begin again is %v", err)
	}
	p.add("nobody reads it")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	p.want(r, "!could not be recorded")
	p.add("2")
	p.want(r, "2")
}

func size(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

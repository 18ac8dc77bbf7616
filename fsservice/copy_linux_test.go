package fsservice_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestCopyFileOverAnExistingOneKeepsHoles copies a file of 1 GiB with data at its start and in its middle.
func TestCopyFileOverAnExistingOneKeepsHoles(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]string{
		"empty": "", "longer than the data": strings.Repeat("x", 1<<20), "in the hole": strings.Repeat("\x00", 64<<10) + "old", "with a hole": "old",
	} {
		w := newWorld(t)
		w.put("src", "data")
		w.put("dst", old)
		if name == "with a hole" {
			w.must(os.Truncate(filepath.Join(w.dir, "dst"), 64<<20))
		}
		src, err := os.OpenFile(filepath.Join(w.dir, "src"), os.O_WRONLY, 0)
		w.must(err)
		_, err = src.WriteAt([]byte("middle"), 512<<20)
		w.must(errors.Join(err, src.Truncate(1<<30), src.Close()))
		resp, err := w.client.CopyFile(w.as("a"), &ctxfsv1.CopyFileRequest{Path: "src", Dest: "dst"})
		w.must(err)
		dst, err := os.Open(filepath.Join(w.dir, "dst"))
		w.must(err)
		var st unix.Stat_t
		w.must(unix.Fstat(int(dst.Fd()), &st))
		if resp.GetBytesCopied() != 1<<30 || st.Size != 1<<30 || st.Blocks*512 > 4<<20 {
			t.Errorf("%s: %d bytes were copied; the file has %d and takes %d", name, resp.GetBytesCopied(), st.Size, st.Blocks*512)
		}
		for at, want := range map[int64]string{0: "data\x00", 64 << 10: "\x00\x00\x00", 512 << 20: "middle\x00"} {
			got := make([]byte, len(want))
			if _, err := dst.ReadAt(got, at); err != nil || string(got) != want {
				t.Errorf("%s: at %d is %q (%v)", name, at, got, err)
			}
		}
		w.must(dst.Close())
	}
}

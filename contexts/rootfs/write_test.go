package rootfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
)

// vectorFile is a file of every implementation, for reading and writing.
func vectorFile(t *testing.T, implementation string, flags Flags) (File, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := Open(dir, Options{Implementation: implementation})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	f, err := root.OpenFile("f", flags, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, filepath.Join(dir, "f")
}

func TestPiecesAreWrittenAsIfJoined(t *testing.T) {
	t.Parallel()
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			f, path := vectorFile(t, name, O_RDWR|O_CREAT)
			rapid.Check(t, func(r *rapid.T) {
				pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 0, 40).Draw(r, "pieces")
				for range rapid.IntRange(0, 8).Draw(r, "doublings") { // beyond IOV_MAX too
					pieces = append(pieces, pieces...)
				}
				joined, off := bytes.Join(pieces, nil), rapid.Int64Range(0, 100).Draw(r, "offset")
				want := append(make([]byte, off), joined...)
				if err := f.Truncate(0); err != nil {
					r.Fatal(err)
				}
				n, err := WritevAt(f, pieces, off)
				if rapid.Bool().Draw(r, "at its position") {
					if _, err := f.Seek(off, 0); err != nil {
						r.Fatal(err)
					}
					n, err = Writev(f, pieces)
				}
				got, readErr := os.ReadFile(path)
				if len(joined) == 0 {
					want = nil
				}
				if err != nil || readErr != nil || n != len(joined) || !bytes.Equal(got, want) {
					r.Fatalf("wrote %d of %d (%v): %x, want %x (%v)", n, len(joined), err, got, want, readErr)
				}
			})
		})
	}
}

func TestPiecesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	pieces := [][]byte{[]byte("ab"), []byte("c")}
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			f, _ := vectorFile(t, name, O_RDONLY|O_CREAT)
			if n, err := Writev(f, pieces); n != 0 || !errors.Is(err, fserr.EBADF) {
				t.Errorf("a file open for reading: %d, %v, want EBADF", n, err)
			}
			w, _ := vectorFile(t, name, O_WRONLY|O_CREAT)
			if n, err := WritevAt(w, pieces, -1); n != 0 || !errors.Is(err, fserr.EINVAL) {
				t.Errorf("before the beginning: %d, %v, want EINVAL", n, err)
			}
		})
	}
}

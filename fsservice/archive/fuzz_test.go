package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/archive"
)

// seeds adds archives of both formats.
func seeds(f *testing.F) {
	f.Helper()
	entries := []archive.Entry{
		{Name: ".", Type: archive.Directory, Mode: 0o755},
		{Name: "d", Type: archive.Directory, Mode: 0o500, MtimeNs: 1e18},
		{Name: "d/f", Mode: 0o644, Size: 4},
		{Name: "l", Type: archive.Symlink, Target: "../../d"},
	}
	for _, zipped := range []bool{false, true} {
		var out bytes.Buffer
		w := archive.NewTarWriter(&out)
		if zipped {
			w = archive.NewZipWriter(&out, func(int64) error { return nil })
		}
		for _, e := range entries {
			var content io.Reader
			if e.Type == archive.File {
				content = strings.NewReader("text")
			}
			if err := w.Add(e, content); err != nil {
				f.Fatal(err)
			}
		}
		if w.Links() {
			if err := w.Add(archive.Entry{Name: "h", Type: archive.HardLink, Target: "d/f"}, nil); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	var hostile bytes.Buffer
	w := tar.NewWriter(&hostile)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: "a/../../b", Linkname: "/etc/passwd"}), w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(hostile.Bytes())
}

// readAll reads an archive to its end. Every name must be one that stays inside, and the content must be bounded.
func readAll(t *testing.T, r archive.Reader, size int) {
	t.Helper()
	var total int64
	for {
		e, content, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			wantCode(t, err)
			return
		}
		if e.Name == "" || path.IsAbs(e.Name) || path.Clean(e.Name) != e.Name || strings.HasPrefix(e.Name, "..") && (len(e.Name) == 2 || e.Name[2] == '/') {
			t.Fatalf("an entry is named %q", e.Name)
		}
		if e.Mode&^0o1777 != 0 {
			t.Fatalf("%q has mode %o", e.Name, e.Mode)
		}
		if e.Type != archive.File {
			continue
		}
		n, err := io.Copy(io.Discard, content)
		if total += n; total > 65<<20+200*int64(size) {
			t.Fatalf("%d bytes expand to %d", size, total)
		}
		if err != nil {
			wantCode(t, err)
			return
		}
	}
}

func wantCode(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*fserr.Error](err); !ok {
		t.Fatalf("%v (%T) has no code", err, err)
	}
}

func FuzzTarReader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		readAll(t, archive.NewTarReader(bytes.NewReader(data)), len(data))
	})
}

func FuzzZipReader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		reserved := int64(0)
		r, err := archive.NewZipReader(bytes.NewReader(data), int64(len(data)), func(n int64) error {
			reserved += n
			return nil
		})
		if err != nil {
			wantCode(t, err)
			return
		}
		readAll(t, r, len(data))
		if reserved == 0 {
			t.Fatal("the names took no memory")
		}
	})
}

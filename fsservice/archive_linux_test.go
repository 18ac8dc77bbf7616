package fsservice_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	asTar = ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR
	asZip = ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_ZIP
)

// export returns an archive and its summary.
func (w *world) export(req *ctxfsv1.ExportRequest) ([]byte, *ctxfsv1.ArchiveSummary) {
	w.Helper()
	stream, err := w.client.Export(w.as("a"), req)
	w.must(err)
	var out []byte
	for {
		m, err := stream.Recv()
		w.must(err)
		if sum := m.GetSummary(); sum != nil {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				w.Errorf("after the summary: %v, want the end", err)
			}
			return out, sum
		}
		out = append(out, m.GetChunk()...)
	}
}

// imports sends an archive, in pieces.
func (w *world) imports(open *ctxfsv1.ImportOpen, archive []byte) (*ctxfsv1.ArchiveSummary, error) {
	w.Helper()
	return w.importsWith(w.as("a"), open, archive)
}

// importsWith is imports with the context of the call.
func (w *world) importsWith(ctx context.Context, open *ctxfsv1.ImportOpen, archive []byte) (*ctxfsv1.ArchiveSummary, error) {
	w.Helper()
	stream, err := w.client.Import(ctx)
	w.must(err)
	_ = stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: open}}) // CloseAndRecv has the error
	for len(archive) > 0 {
		n := min(len(archive), 100_000)
		if stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: archive[:n]}}) != nil {
			break // as above
		}
		archive = archive[n:]
	}
	resp, err := stream.CloseAndRecv()
	return resp.GetSummary(), err
}

// treeOf describes what is in a directory, with reserved names: modes, times, contents and targets.
func (w *world) treeOf(dir string, seconds bool) map[string]string {
	w.Helper()
	all := map[string]string{}
	w.must(filepath.WalkDir(filepath.Join(w.dir, dir), func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(name)
		if err != nil {
			return err
		}
		content := ""
		switch st.Mode().Type() {
		case 0:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%d bytes %x", len(data), crc32.ChecksumIEEE(data))
		case fs.ModeSymlink:
			if content, err = os.Readlink(name); err != nil {
				return err
			}
		}
		at := st.ModTime()
		if seconds {
			at = at.Truncate(time.Second)
		}
		if seconds && st.Mode().Type() == fs.ModeSymlink {
			at = time.Time{}
		}
		rel, err := filepath.Rel(filepath.Join(w.dir, dir), name)
		all[rel] = fmt.Sprintf("%v %d %s", st.Mode(), at.UnixNano(), content)
		return err
	}))
	return all
}

// fillArchived makes what archives must keep, in the directory src.
func (w *world) fillArchived() {
	w.Helper()
	w.put("src/run.sh", "#!/bin/sh\n")
	w.must(os.Chmod(filepath.Join(w.dir, "src/run.sh"), 0o755))
	w.put("src/closed/secret", "s")
	w.must(os.Chmod(filepath.Join(w.dir, "src/closed/secret"), 0o400))
	w.put("src/large", strings.Repeat("0123456789abcdef", 60_000))
	w.put("src/n\xe9/\xff", "not UTF-8")
	w.put("src/späße/数", "UTF-8")
	w.put("src/"+strings.Repeat("deep/", 40)+strings.Repeat("n", 200), "long")
	w.put("src/empty", "")
	w.must(os.Mkdir(filepath.Join(w.dir, "src/hollow"), 0o700))
	for name, target := range map[string]string{"link": "run.sh", "dangling": "no/where", "outside": "../../../../etc/passwd", "absolute": "/src/run.sh"} {
		w.must(os.Symlink(target, filepath.Join(w.dir, "src", name)))
	}
	w.must(os.Chmod(filepath.Join(w.dir, "src/closed"), 0o555))
	w.Cleanup(func() {
		for _, name := range []string{"src/closed", "new/closed"} {
			_ = os.Chmod(filepath.Join(w.dir, name), 0o755)
		}
	})
	for i, name := range []string{"run.sh", "large", "closed/secret", "closed", "hollow", "n\xe9", "."} {
		at := time.Unix(1_500_000_000+int64(i), 123_456_789)
		w.must(os.Chtimes(filepath.Join(w.dir, "src", name), at, at))
	}
}

func TestExportAndImportKeepATree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillArchived()
	for _, format := range []ctxfsv1.ArchiveFormat{asTar, asZip} {
		archive, sum := w.export(&ctxfsv1.ExportRequest{Path: "/src", Format: format})
		want := &ctxfsv1.ArchiveSummary{Files: 7, Directories: 44, Symlinks: 4, Bytes: 960_029}
		if sum.String() != want.String() {
			t.Errorf("%v: exported %v, want %v", format, sum, want)
		}
		got, err := w.imports(&ctxfsv1.ImportOpen{Path: "/new", Format: format}, archive)
		w.must(err)
		if got.String() != want.String() {
			t.Errorf("%v: imported %v, want %v", format, got, want)
		}
		had, has := w.treeOf("src", format == asZip), w.treeOf("new", format == asZip)
		if format == asZip { // which has no entry for the directory itself
			delete(had, ".")
			delete(has, ".")
		}
		if d := cmp.Diff(had, has); d != "" {
			t.Errorf("%v:\n%s", format, d)
		}
		w.must(os.Chmod(filepath.Join(w.dir, "new/closed"), 0o755))
		w.must(os.RemoveAll(filepath.Join(w.dir, "new")))
		w.nothingHidden()
	}
}

// nothingHidden fails if something is left under a reserved name.
func (w *world) nothingHidden() {
	w.Helper()
	for name := range w.treeOf("", false) {
		if strings.Contains(name, ".ctxfs-tmp-") {
			w.Errorf("%s is left", name)
		}
	}
}

func TestTarKeepsHardLinksAndZipMakesFilesOfThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("src/b/one", "shared")
	w.must(os.Mkdir(filepath.Join(w.dir, "src/a"), 0o755))
	w.must(os.Link(filepath.Join(w.dir, "src/b/one"), filepath.Join(w.dir, "src/a/two")))
	for format, want := range map[ctxfsv1.ArchiveFormat]bool{asTar: true, asZip: false} {
		archive, _ := w.export(&ctxfsv1.ExportRequest{Path: "/src", Format: format})
		_, err := w.imports(&ctxfsv1.ImportOpen{Path: fmt.Sprint("/", format), Format: format}, archive)
		w.must(err)
		one, err1 := os.Stat(filepath.Join(w.dir, format.String(), "b/one"))
		two, err2 := os.Stat(filepath.Join(w.dir, format.String(), "a/two"))
		w.must(errors.Join(err1, err2))
		if os.SameFile(one, two) != want {
			t.Errorf("%v: one file: %v, want %v", format, !want, want)
		}
		w.wantContent(format.String()+"/a/two", "shared")
	}
}

func TestExportLeavesOutWhatItIsToldToAndNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("keep", "k")
	w.put("node_modules/x", "x")
	w.put("a/b.log", "log")
	w.must(unix.Mkfifo(filepath.Join(w.dir, "pipe"), 0o600))
	w.put(".git/config", "c")
	w.put("sub/.GIT/config", "c")
	archive, sum := w.export(&ctxfsv1.ExportRequest{Exclude: []string{"node_modules", "*.log"}})
	names := ""
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		w.must(err)
		names += h.Name + " "
	}
	if names != "./ a/ keep sub/ " {
		t.Errorf("the archive has %s", names)
	}
	if got := sum.GetLeftOutNames(); sum.GetLeftOut() != 3 || !slices.Equal(got, []string{".git", "pipe", "sub/.GIT"}) {
		t.Errorf("left out %v, want the pipe and what git would obey", sum)
	}
	if _, sum := w.export(&ctxfsv1.ExportRequest{Git: true}); sum.GetLeftOut() != 1 || sum.GetFiles() != 5 {
		t.Errorf("with git there are %v", sum)
	}
	stream, err := w.client.Export(w.as("a"), &ctxfsv1.ExportRequest{Path: "/sub/.GIT/config"})
	w.must(err)
	_, err = stream.Recv()
	if e, _ := fserrpb.FromStatus(err); e == nil || e.Code != fserr.EACCES || e.Hint != "set git" {
		t.Errorf("what git would obey is exported: %v", err)
	}
	file, _ := w.export(&ctxfsv1.ExportRequest{Path: "/a/b.log"})
	if h, err := tar.NewReader(bytes.NewReader(file)).Next(); err != nil || h.Name != "b.log" {
		t.Errorf("the archive of a file has %v, %v", h, err)
	}
}

// tarOf returns a tar archive. A File's content is its name.
func tarOf(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarFile(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }

func tarLink(name, target string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

// zipOf returns a zip archive of a file whose header edit may change.
func zipOf(t *testing.T, edit func(*zip.FileHeader), content string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	h := &zip.FileHeader{Name: "f", Method: zip.Deflate}
	edit(h)
	f, err := w.CreateHeader(h)
	if err == nil {
		_, err = io.WriteString(f, content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipBomb returns a zip archive whose one file expands to n zeros.
func zipBomb(t *testing.T, n int64) []byte {
	t.Helper()
	var packed, out bytes.Buffer
	f, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.NewIEEE()
	zeros := make([]byte, 1<<20)
	for left := n; left > 0; left -= int64(len(zeros)) {
		_, _ = io.MultiWriter(f, sum).Write(zeros) // neither fails
	}
	w := zip.NewWriter(&out)
	h := &zip.FileHeader{Name: "zeros", Method: zip.Deflate, CRC32: sum.Sum32(), UncompressedSize64: uint64(n)}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	h.CompressedSize64 = uint64(packed.Len())
	raw, err := w.CreateRaw(h)
	if err == nil {
		_, err = raw.Write(packed.Bytes())
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sparseBomb returns a GNU tar archive of a file that is 1 TiB long and has no data.
func sparseBomb() []byte {
	b := make([]byte, 512+1024)
	copy(b, "sparse")
	copy(b[100:], "0000644\x00")
	copy(b[124:], "00000000000\x00") // size in the archive
	copy(b[136:], "00000000000\x00")
	b[156] = 'S'
	copy(b[257:], "ustar  \x00")
	// One sparse entry at the end, of no bytes (GNU tar, Basic Tar Format, oldgnu).
	copy(b[386:], "\x80\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00")
	copy(b[398:], "00000000000\x00")
	copy(b[483:], "\x80\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00")
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func TestImportRefusesHostileArchivesAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("file", "mine")
	w.put("dir/inner", "mine")
	w.must(os.Symlink("dir", filepath.Join(w.dir, "link")))
	good := tarOf(t, tarFile("good"))
	long := strings.Repeat("n", 256)
	goodZip := zipOf(t, func(*zip.FileHeader) {}, "content")
	for _, c := range []struct {
		name    string
		format  ctxfsv1.ArchiveFormat
		archive []byte
		want    string
	}{
		{"a name with dots", asTar, tarOf(t, tarFile("good"), tarFile("a/../../b")), "EACCES: the name 'a/../../b' in the archive leads outside: it is absolute or has '..'"},
		{"a name with dots that stays inside", asTar, tarOf(t, tarFile("a/../b")), "EACCES: the name 'a/../b' in the archive leads outside: it is absolute or has '..'"},
		{"an absolute name", asTar, tarOf(t, tarFile("/etc/x")), "EACCES: the name '/etc/x' in the archive leads outside: it is absolute or has '..'"},
		{"a file through a link of the archive", asTar, tarOf(t, tarLink("l", "dir"), tarFile("l/x")), "EACCES: 'l/x' in the archive is also a file or a link there, or is below one"},
		{"a file over a link of the archive", asTar, tarOf(t, tarLink("l", "file"), tarFile("l")), "EEXIST: the archive has the name 'l' twice"},
		{"a directory over a link of the archive", asTar, tarOf(t, tarLink("l", "dir"), &tar.Header{Typeflag: tar.TypeDir, Name: "l/"}), "EACCES: 'l' in the archive is also a file or a link there, or is below one"},
		{"a file through a link that exists", asTar, tarOf(t, tarFile("link/x")), "ENOTDIR: a directory cannot replace a file at 'link'"},
		{"a file twice", asTar, tarOf(t, tarFile("x"), tarFile("./x")), "EEXIST: the archive has the name 'x' twice"},
		{"a hard link that leads outside", asTar, tarOf(t, &tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "../../x"}), "EACCES: the name '../../x' in the archive leads outside: it is absolute or has '..'"},
		{"a hard link to what exists in the target alone", asTar, tarOf(t, &tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "file"}), "EINVAL: 'h' in the archive is a hard link to 'file', which is no file before it"},
		{"a hard link to a link", asTar, tarOf(t, tarLink("l", "/file"), &tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "l"}), "EINVAL: 'h' in the archive is a hard link to 'l', which is no file before it"},
		{"a device", asTar, tarOf(t, &tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}), "EOPNOTSUPP: 'null' in the archive is a device"},
		{"a FIFO", asTar, tarOf(t, &tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}), "EOPNOTSUPP: 'pipe' in the archive is a FIFO"},
		{"a long name", asTar, tarOf(t, tarFile(long)), "ENAMETOOLONG: the name '" + long[:200] + "…' in the archive is too long"},
		{"a reserved name", asTar, tarOf(t, tarFile("d/.ctxfs-tmp-x/y")), "EACCES: the name 'd/.ctxfs-tmp-x/y' in the archive is reserved for the server"},
		{"the directory itself as a link", asTar, tarOf(t, tarLink(".", "dir")), "EINVAL: the archive has an entry without a name"},
		{"a file that exists", asTar, tarOf(t, tarFile("new"), tarFile("file")), "EEXIST: file already exists at 'file'"},
		{"a file that is a directory", asTar, tarOf(t, tarFile("dir")), "EISDIR: a file cannot replace a directory at 'dir'"},
		{"a directory that is a file", asTar, tarOf(t, tarFile("file/x")), "ENOTDIR: a directory cannot replace a file at 'file'"},
		{"no archive", asTar, bytes.Repeat([]byte("no archive "), 200), "EINVAL: the archive is no valid tar, or is damaged"},
		{"nothing", asTar, nil, "EINVAL: the archive ends without its end mark: it was cut off, or is no tar"},
		{"an archive that is cut off in an entry", asTar, good[:515], "EINVAL: the archive ends without its end mark: it was cut off, or is no tar"},
		{"an archive that is cut off after an entry", asTar, good[:1024], "EINVAL: the archive ends without its end mark: it was cut off, or is no tar"},
		{"a sparse file of 1 TiB", asTar, sparseBomb(), "EFBIG: the archive expands to more than 200 times its size"},
		{"an unknown format", 7, good, "EINVAL: unknown format of archives"},
		{"no zip", asZip, good, "EINVAL: the archive is no valid zip, or is damaged"},
		{"a zip that is cut off", asZip, goodZip[:len(goodZip)-30], "EINVAL: the archive is no valid zip, or is damaged"},
		{"a zip with dots", asZip, zipOf(t, func(h *zip.FileHeader) { h.Name = "../x" }, "x"), "EACCES: the name '../x' in the archive leads outside: it is absolute or has '..'"},
		{"a zip with a device", asZip, zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeDevice | 0o644) }, "x"), "EOPNOTSUPP: 'f' in the archive is a device, a FIFO or a socket"},
		{"a zip that is encrypted", asZip, zipOf(t, func(h *zip.FileHeader) { h.Flags |= 1 }, "x"), "EOPNOTSUPP: 'f' in the archive is encrypted"},
		{"a zip with a link that has no target", asZip, zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, ""), "EINVAL: the symbolic link 'f' in the archive has no valid target"},
		{"a zip with a wrong checksum", asZip, bytes.Replace(zipOf(t, func(h *zip.FileHeader) { h.Method = zip.Store }, "content"), []byte("content"), []byte("CONTENT"), 1), "EINVAL: the archive is no valid zip, or is damaged"},
		{"a zip bomb", asZip, zipBomb(t, 96<<20), "EFBIG: the archive expands to more than 200 times its size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := w.treeOf("", false)
			delete(before, ".") // the draft changes its times
			_, err := w.imports(&ctxfsv1.ImportOpen{Format: c.format}, c.archive)
			if e, ok := fserrpb.FromStatus(err); !ok || !strings.HasPrefix(e.Error(), c.want) || !strings.HasSuffix(e.Error(), ", import '/'") {
				t.Errorf("got %v, want %s", err, c.want)
			}
			after := w.treeOf("", false)
			delete(after, ".")
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("something changed:\n%s", d)
			}
		})
	}
}

func TestImportIntoADirectoryThatExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("to/same/old", "old")
	w.put("to/same/other", "other")
	w.must(os.Symlink("other", filepath.Join(w.dir, "to/same/link")))
	w.must(os.Chmod(filepath.Join(w.dir, "to/same"), 0o711))
	at := time.Unix(1_600_000_000, 0)
	archive := tarOf(t, &tar.Header{Typeflag: tar.TypeDir, Name: "same/", Mode: 0o750, ModTime: at}, tarFile("same/added"), tarFile("new/below/file"))
	_, err := w.imports(&ctxfsv1.ImportOpen{Path: "to"}, archive)
	w.must(err)
	w.wantContent("to/same/added", "same/added")
	w.wantContent("to/same/old", "old")
	w.wantContent("to/new/below/file", "new/below/file")
	if st, err := os.Stat(filepath.Join(w.dir, "to/same")); err != nil || st.Mode().Perm() != 0o711 {
		t.Errorf("without overwrite the directory has %v, %v; want its mode kept", st.Mode(), err)
	}
	archive = tarOf(t, &tar.Header{Typeflag: tar.TypeDir, Name: "same/", Mode: 0o750, ModTime: at}, tarFile("same/old"), tarFile("same/link"), tarLink("same/added", "old"))
	_, err = w.imports(&ctxfsv1.ImportOpen{Path: "to", Overwrite: true}, archive)
	w.must(err)
	w.wantContent("to/same/link", "same/link")
	w.wantContent("to/same/other", "other")
	w.wantContent("to/same/added", "same/old")
	if st, err := os.Stat(filepath.Join(w.dir, "to/same")); err != nil || st.Mode().Perm() != 0o750 || !st.ModTime().Equal(at) {
		t.Errorf("with overwrite the directory has %v, %v", st, err)
	}
	w.nothingHidden()
}

// TestAnImportThatEndsEarlyLeavesNothing cancels at each message, and when the context is deleted.
func TestAnImportThatEndsEarlyLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("file", "mine")
	archive := tarOf(t, tarFile("a/b/c"), tarFile("a/d"), tarFile("file2"))
	for _, format := range []ctxfsv1.ArchiveFormat{asTar, asZip} {
		for n := 0; n < len(archive); n += 700 {
			ctx, cancel := context.WithCancel(w.as("a"))
			stream, err := w.client.Import(ctx)
			w.must(err)
			w.must(stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: &ctxfsv1.ImportOpen{Path: "/new", Format: format}}}))
			w.must(stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: archive[:n]}}))
			w.until("the import has begun", func() bool { return len(w.hidden()) > 0 })
			cancel()
			w.until("the draft is gone", func() bool { return len(w.hidden()) == 0 })
			if _, err := os.Lstat(filepath.Join(w.dir, "new")); err == nil {
				t.Errorf("after %d bytes the target is there", n)
			}
		}
	}
}

// hidden returns the reserved names at the top of the context.
func (w *world) hidden() []string {
	w.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, ".ctxfs-tmp-*"))
	w.must(err)
	return names
}

// until waits for what is expected to happen.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	clocktest.Await(w.T, what, is)
}

// TestExtractReadsAHandle writes an archive as a session's client does: into a file that never appears.
func TestExtractReadsAHandle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for format, archive := range map[ctxfsv1.ArchiveFormat][]byte{
		asTar: tarOf(t, tarFile("f")), asZip: zipOf(t, func(*zip.FileHeader) {}, "f"),
	} {
		open, err := w.client.Open(w.as("a"), &ctxfsv1.OpenRequest{Path: "/archive", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w+"}, Atomic: true})
		w.must(err)
		fd := open.GetFd()
		_, err = w.client.Write(w.as("a"), &ctxfsv1.WriteRequest{Fd: fd, Content: &ctxfsv1.WriteRequest_Data{Data: archive}})
		w.must(err)
		req := &ctxfsv1.ExtractRequest{Fd: fd, Path: "/" + format.String(), Format: format}
		_, err = w.client.Extract(w.as("a-readonly"), req)
		w.wantError(err, "EROFS: read-only file system; this panel was opened read-only, import")
		_, err = w.client.Extract(w.as("b"), req)
		w.wantError(err, fmt.Sprintf("EBADF: bad file descriptor %d, import", fd))
		resp, err := w.client.Extract(w.as("a"), req)
		w.must(err)
		if resp.GetSummary().GetFiles() != 1 {
			t.Errorf("%v: %v, want one file", format, resp)
		}
		w.wantContent(format.String()+"/f", "f")
		_, err = w.client.Close(w.as("a"), &ctxfsv1.CloseRequest{Fd: fd})
		w.must(err)
	}
	if _, err := os.Lstat(filepath.Join(w.dir, "archive")); err == nil {
		t.Error("the archive is there")
	}
	w.nothingHidden()
}

// TestExtractPlacesNothingInAReplacedContext replaces the context after each of the accesses of an Extract.
func TestExtractPlacesNothingInAReplacedContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("archive", string(tarOf(t, tarFile("f"))))
	accesses := 1
	for after := 1; after <= accesses; after++ {
		fd := w.open("a", "/archive", "r")
		accesses = 0
		w.gate.afterAcquire(func() bool {
			accesses++
			return accesses == after
		})
		_, err := w.client.Extract(w.as("a"), &ctxfsv1.ExtractRequest{Fd: fd, Path: "/out", Format: asTar})
		w.gate.afterAcquire(nil)
		if _, missing := os.Lstat(filepath.Join(w.dir, "out")); missing != nil {
			if e, _ := fserrpb.FromStatus(err); e == nil || e.Code != fserr.ESTALE {
				t.Errorf("replaced after access %d: %v, want ESTALE", after, err)
			}
			continue
		}
		// The last two accesses place the files, which are of the generation before, and remove the draft.
		if after < accesses-1 {
			t.Errorf("replaced after access %d of %d: the files are there (%v)", after, accesses, err)
		}
		w.must(os.RemoveAll(filepath.Join(w.dir, "out")))
	}
}

// TestImportReceivesWhatFollowsTheEnd sends more than tar writes. The program that sends it must not fail.
func TestImportReceivesWhatFollowsTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream, err := w.client.Import(w.as("a"))
	w.must(err)
	w.must(stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: &ctxfsv1.ImportOpen{}}}))
	w.must(stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: tarOf(t, tarFile("f"))}}))
	for range 64 {
		w.must(stream.Send(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: make([]byte, 64<<10)}}))
	}
	_, err = stream.CloseAndRecv()
	w.must(err)
	w.wantContent("f", "f")
}

package archive

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// zipWriter writes zip archives.
type zipWriter struct {
	w       *zip.Writer
	reserve func(bytes int64) error
}

// NewZipWriter writes a zip archive to w. It keeps the directory of the archive in memory until Close. reserve is called with the further
// bytes of memory that an entry takes; its error ends Add.
func NewZipWriter(w io.Writer, reserve func(bytes int64) error) Writer {
	return &zipWriter{zip.NewWriter(w), reserve}
}

func (*zipWriter) Links() bool { return false }

func (z *zipWriter) Add(e Entry, content io.Reader) error {
	if e.Name == Top {
		return nil // unzip does not accept "./"
	}
	const each = 256
	if err := z.reserve(int64(len(e.Name)) + each); err != nil {
		return err
	}
	mode := fs.FileMode(e.Mode & 0o777)
	if e.Mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	h := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: time.Unix(0, e.MtimeNs).UTC()}
	switch e.Type {
	case Directory:
		h.Name, h.Method, mode = h.Name+"/", zip.Store, mode|fs.ModeDir
	case Symlink:
		h.Method, mode, content = zip.Store, mode|fs.ModeSymlink, strings.NewReader(e.Target)
	}
	h.SetMode(mode)
	w, err := z.w.CreateHeader(h)
	if err != nil {
		return fmt.Errorf("archive %s: %w", quote(e.Name), err)
	}
	if content == nil {
		return nil
	}
	_, err = io.Copy(w, content)
	return err
}

func (z *zipWriter) Close() error { return z.w.Close() }

// maxZipDirectory bounds the directory of a zip archive, which is held in memory, in bytes. Its names take about zipMemory times that.
const (
	maxZipDirectory = 16 << 20
	zipMemory       = 8
	// zipHeader is the least length of an entry of the directory, in bytes.
	zipHeader = 46
)

var errZipDirectory = &fserr.Error{
	Code: fserr.EFBIG, Detail: fmt.Sprintf("the directory of the zip archive is larger than %d bytes", maxZipDirectory), Hint: "send a tar archive, which has none",
}

// zipReader reads zip archives.
type zipReader struct {
	reading
	files []*zip.File
	// open is the content of the last entry.
	open io.Closer
}

// NewZipReader reads a zip archive of size bytes from r. reserve is called with the further bytes of memory that the names take; its
// error ends the reading.
func NewZipReader(r io.ReaderAt, size int64, reserve func(bytes int64) error) (Reader, error) {
	d := &directoryReader{r: r, reserve: reserve}
	archive, err := zip.NewReader(d, size)
	if d.refused != nil {
		return nil, d.refused
	}
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // check decides about names
		return nil, zipFailed(err)
	}
	d.open = true
	var packed uint64
	for _, f := range archive.File {
		if packed += f.CompressedSize64; f.CompressedSize64 > uint64(size) || packed > uint64(size) {
			return nil, &fserr.Error{Code: fserr.EFBIG, Detail: "the entries of the archive overlap: it would expand without bound"}
		}
	}
	return &zipReader{reading: reading{received: func() int64 { return size }}, files: archive.File}, nil
}

// directoryReader bounds what is read before the directory of an archive is complete.
type directoryReader struct {
	r       io.ReaderAt
	reserve func(bytes int64) error
	read    int64
	refused error
	// open says that the directory is complete.
	open bool
}

func (d *directoryReader) ReadAt(b []byte, off int64) (int, error) {
	if d.open {
		return d.r.ReadAt(b, off)
	}
	if d.read += int64(len(b)); d.read > maxZipDirectory {
		d.refused = errZipDirectory
	} else {
		d.refused = d.reserve(zipMemory * int64(len(b)))
	}
	if d.refused != nil {
		return 0, d.refused
	}
	n, err := d.r.ReadAt(b, off)
	if declared(b[:n]) > maxZipDirectory/zipHeader {
		d.refused = errZipDirectory
		return 0, d.refused
	}
	return n, err
}

// declared returns how many entries a zip64 end record declares (APPNOTE.TXT 4.3.14), and 0 for other data. Package zip allocates memory
// for them, up to a thirtieth of the archive's size, which a sparse file can have without data. It reads the record in one piece.
func declared(record []byte) uint64 {
	const length, entries = 56, 32
	if len(record) != length || string(record[:4]) != "PK\x06\x06" {
		return 0
	}
	return binary.LittleEndian.Uint64(record[entries:])
}

func (z *zipReader) Next() (Entry, io.Reader, error) {
	if z.open != nil {
		_ = z.open.Close() // it was only read
		z.open = nil
	}
	if len(z.files) == 0 {
		return Entry{}, nil, io.EOF
	}
	f := z.files[0]
	z.files = z.files[1:]
	e := Entry{Name: f.Name, MtimeNs: saturated(f.Modified), Size: int64(min(f.UncompressedSize64, 1<<62))}
	mode := f.Mode()
	e.Mode = uint32(mode.Perm())
	if !hasModes(f) {
		e.Mode &^= 0o022
	}
	if mode&fs.ModeSticky != 0 {
		e.Mode |= 0o1000
	}
	err := zipType(f, mode, &e)
	if err == nil && e.Type == Symlink {
		e.Target, err = z.target(f)
	}
	if err == nil {
		err = z.check(&e)
	}
	if err != nil || e.Type != File {
		return e, nil, err
	}
	r, err := f.Open()
	if err != nil {
		return e, nil, zipFailed(err)
	}
	z.open = r
	return e, &content{&z.reading, r, zipFailed}, nil
}

// hasModes reports whether an archive was made on a system with modes (APPNOTE.TXT 4.4.2.2: 3 is Unix, 19 macOS).
func hasModes(f *zip.File) bool { return f.CreatorVersion>>8 == 3 || f.CreatorVersion>>8 == 19 }

// zipType sets what a file of an archive is.
func zipType(f *zip.File, mode fs.FileMode, e *Entry) error {
	const encrypted = 1
	switch {
	case f.Flags&encrypted != 0:
		return special(f.Name, "encrypted")
	case strings.HasSuffix(f.Name, "/"), mode.IsDir():
		e.Type = Directory
	case mode&fs.ModeSymlink != 0:
		e.Type = Symlink
	case mode.Type() != 0:
		return special(f.Name, "a device, a FIFO or a socket")
	}
	return nil
}

// target reads what a symbolic link stores.
func (z *zipReader) target(f *zip.File) (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", zipFailed(err)
	}
	defer func() { _ = r.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(&content{&z.reading, r, zipFailed}, rootfs.MaxPath))
	return string(b), err
}

// zipFailed converts an error of package zip. Those of the file that holds the archive stay.
func zipFailed(err error) error {
	if errors.Is(err, zip.ErrAlgorithm) {
		return &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: "the archive is compressed by another method than deflate", Hint: "make it with deflate, or send a tar archive", Err: err,
		}
	}
	if _, ok := errors.AsType[*fserr.Error](err); ok {
		return err
	}
	return damaged("zip", err)
}

package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// tarWriter writes pax archives.
type tarWriter struct{ w *tar.Writer }

// NewTarWriter writes a tar archive to w.
func NewTarWriter(w io.Writer) Writer { return &tarWriter{tar.NewWriter(w)} }

func (*tarWriter) Links() bool { return true }

var tarTypes = map[Type]byte{File: tar.TypeReg, Directory: tar.TypeDir, Symlink: tar.TypeSymlink, HardLink: tar.TypeLink}

func (t *tarWriter) Add(e Entry, content io.Reader) error {
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: tarTypes[e.Type], Name: e.Name, Linkname: e.Target, Mode: int64(e.Mode & 0o1777), ModTime: time.Unix(0, e.MtimeNs),
	}
	if e.Type == Directory {
		h.Name += "/"
	}
	if e.Type == File {
		h.Size = e.Size
	}
	if err := t.w.WriteHeader(h); err != nil {
		return fmt.Errorf("archive %s: %w", quote(e.Name), err)
	}
	if e.Type != File {
		return nil
	}
	_, err := io.Copy(t.w, content)
	return err
}

func (t *tarWriter) Close() error { return t.w.Close() }

// tarEnd is the length of the zeros that end a tar archive, in bytes.
const tarEnd = 1024

// tarReader reads tar archives.
type tarReader struct {
	reading
	source *counter
	r      *tar.Reader
}

// NewTarReader reads a tar archive of any format from r. It does not read beyond the end mark.
func NewTarReader(r io.Reader) Reader {
	t := &tarReader{source: &counter{r: r}}
	t.received = func() int64 { return t.source.n }
	t.r = tar.NewReader(t.source)
	return t
}

func (t *tarReader) Next() (Entry, io.Reader, error) {
	for {
		begin := t.source.n
		h, err := t.r.Next()
		if errors.Is(err, io.EOF) && t.source.err == nil && t.source.n-begin < tarEnd { // tar.Reader takes an archive without an end for whole
			err = io.ErrUnexpectedEOF
		}
		switch {
		case errors.Is(err, io.EOF):
			return Entry{}, nil, io.EOF
		case err != nil:
			return Entry{}, nil, t.failed(err)
		case h.Typeflag == tar.TypeXGlobalHeader:
			if t.entries++; t.entries > MaxEntries { // each is small, and is not an entry
				return Entry{}, nil, damaged("tar", errors.New("too many global headers"))
			}
			continue
		}
		e := Entry{Name: h.Name, Mode: uint32(h.Mode & 0o1777), MtimeNs: saturated(h.ModTime), Size: h.Size, Target: h.Linkname}
		if e.Type, err = tarType(h); err == nil {
			err = t.check(&e)
		}
		if err != nil {
			return Entry{}, nil, err
		}
		return e, &content{&t.reading, t.r, t.failed}, nil
	}
}

// failed returns the error of the source if it failed, else one that says that the archive is not good.
func (t *tarReader) failed(err error) error {
	switch {
	case t.source.err != nil:
		return t.source.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &fserr.Error{Code: fserr.EINVAL, Detail: "the archive ends without its end mark: it was cut off, or is no tar", Err: err}
	}
	return damaged("tar", err)
}

func tarType(h *tar.Header) (Type, error) {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return File, nil
	case tar.TypeDir:
		return Directory, nil
	case tar.TypeSymlink:
		return Symlink, nil
	case tar.TypeLink:
		return HardLink, nil
	case tar.TypeFifo:
		return 0, special(h.Name, "a FIFO")
	case tar.TypeChar, tar.TypeBlock:
		return 0, special(h.Name, "a device")
	}
	return 0, special(h.Name, fmt.Sprintf("of the unknown type %q", h.Typeflag))
}

// saturated returns a time in ns since the epoch; one that does not fit becomes the nearest that does.
func saturated(t time.Time) int64 {
	const most = (1<<63 - 1) / 1_000_000_000
	return time.Unix(max(-most, min(most, t.Unix())), int64(t.Nanosecond())).UnixNano()
}

// counter counts what was read, and keeps an error that is not io.EOF.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

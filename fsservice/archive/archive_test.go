package archive_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ctxfs/ctxfs/fsservice/archive"
)

// endOf is the end of a file of size bytes that has no other data.
type endOf struct {
	end  []byte
	size int64
}

func (f endOf) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if at := f.size - int64(len(f.end)) - off; at >= 0 && at < int64(len(b)) {
		copy(b[at:], f.end)
	} else if at < 0 {
		copy(b, f.end[-at:])
	}
	return len(b), nil
}

// zip64End is the end of a zip archive of size bytes that declares entries, and has an empty directory.
func zip64End(entries, size uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 56+20+22)
	record, locator, end := b[:56], b[56:76], b[76:]
	copy(record, "PK\x06\x06")
	le.PutUint64(record[24:], entries)
	le.PutUint64(record[32:], entries)
	le.PutUint64(record[48:], size-uint64(len(b)))
	copy(locator, "PK\x06\x07")
	le.PutUint64(locator[8:], size-uint64(len(b)))
	le.PutUint32(locator[16:], 1)
	copy(end, "PK\x05\x06")
	le.PutUint16(end[10:], 0xffff)
	return b
}

// TestZipThatDeclaresTooManyEntriesIsRefused ends the process if memory is allocated for the entries, which is 3 TB.
func TestZipThatDeclaresTooManyEntriesIsRefused(t *testing.T) {
	t.Parallel()
	const size = 15 << 40
	for entries, want := range map[uint64]string{
		4e11:    "EFBIG: the directory of the zip archive is larger than 16777216 bytes",
		1 << 20: "EFBIG: the directory of the zip archive is larger than 16777216 bytes",
		1000:    "EINVAL: the archive is no valid zip, or is damaged", // it has none
	} {
		_, err := archive.NewZipReader(endOf{zip64End(entries, size), size}, size, func(int64) error { return nil })
		if wantCode(t, err); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d entries: %v, want %s", entries, err, want)
		}
	}
}

// TestTarIsReadToItsEndMark has a failure behind the end mark, where a file can have a hole of any length.
func TestTarIsReadToItsEndMark(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := archive.NewTarWriter(&out)
	if err := errors.Join(w.Add(archive.Entry{Name: "d", Type: archive.Directory}, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := archive.NewTarReader(io.MultiReader(&out, iotest.ErrReader(errors.New("read beyond the end mark"))))
	if e, _, err := r.Next(); err != nil || e.Name != "d" {
		t.Errorf("got %v, %v, want the directory", e, err)
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
}

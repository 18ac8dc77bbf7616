package feed

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

const (
	// maxSegment is the size from which on a segment gets no further record, in bytes.
	maxSegment = 1 << 20
	// headSize is the size of a record's head: its length and its checksum, 4 bytes each, big endian.
	headSize = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is a file of records.
type segment struct {
	// first is the number of its first record.
	first uint64
	size  int64
}

// log is a row of segments. Its owner locks it.
type log struct {
	dir string
	max int64
	// segments has at least one, oldest first. file is the last one.
	segments []segment
	file     *os.File
	// next is the number of the next record, written that of the first one that this log has appended; 0 for none.
	next, written uint64
	buf           []byte
}

// errDamaged: a segment has a record that is whole and wrong, or segments are missing.
var errDamaged = errors.New("the feed is damaged")

// openLog opens the segments in dir, and makes the first one if there is none. It cuts part of a record at the end.
func openLog(dir string, limit int64) (*log, error) {
	l := &log{dir: dir, max: limit, next: 1}
	if err := l.list(); err != nil {
		return nil, err
	}
	if len(l.segments) == 0 {
		return l, l.turn()
	}
	return l, l.resume()
}

func (l *log) list() error {
	entries, err := os.ReadDir(l.dir)
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), logSuffix)
		if !is {
			continue
		}
		first, err := strconv.ParseUint(name, 10, 64)
		if err != nil || first == 0 {
			return errDamaged
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		l.segments = append(l.segments, segment{first, st.Size()})
	}
	slices.SortFunc(l.segments, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	return err
}

// resume opens the last segment and finds its end.
func (l *log) resume() (err error) {
	last := &l.segments[len(l.segments)-1]
	if l.file, err = statedir.OpenFile(l.path(last.first), os.O_RDWR|os.O_APPEND, 0); err != nil {
		return err
	}
	l.next = last.first
	in, at := bufio.NewReader(io.NewSectionReader(l.file, 0, last.size)), int64(0)
	for {
		record, err := readRecord(in, l.buf)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
		l.buf, at, l.next = record, at+headSize+int64(len(record)), l.next+1
	}
	if at < last.size {
		err = l.file.Truncate(at)
	}
	last.size = at
	return err
}

func (l *log) path(first uint64) string { return filepath.Join(l.dir, fmt.Sprintf(logPattern, first)) }

// turn begins a segment, and removes the oldest ones that are too much.
func (l *log) turn() error {
	file, err := os.OpenFile(l.path(l.next), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	old := l.file
	l.file, l.segments = file, append(l.segments, segment{first: l.next})
	if old != nil {
		err = old.Close()
	}
	total := int64(maxSegment) // of the new one
	for _, s := range l.segments {
		total += s.size
	}
	for total > l.max && len(l.segments) > 1 && err == nil {
		err = os.Remove(l.path(l.segments[0].first))
		total -= l.segments[0].size
		l.segments = l.segments[1:]
	}
	return err
}

// append writes a record with one system call.
func (l *log) append(record []byte) error {
	last := &l.segments[len(l.segments)-1]
	if last.size >= maxSegment {
		if err := l.turn(); err != nil {
			return err
		}
		last = &l.segments[len(l.segments)-1]
	}
	l.buf = binary.BigEndian.AppendUint32(l.buf[:0], uint32(len(record)))
	l.buf = binary.BigEndian.AppendUint32(l.buf, crc32.Checksum(record, castagnoli))
	l.buf = append(l.buf, record...)
	n, err := l.file.Write(l.buf)
	last.size += int64(n)
	if err == nil {
		l.written = cmp.Or(l.written, l.next)
		l.next++
	}
	return err
}

// flush writes what was appended to the disk.
func (l *log) flush() error {
	errs := []error{l.file.Sync()}
	for i, s := range l.segments[:len(l.segments)-1] {
		if l.segments[i+1].first <= l.written || l.written == 0 {
			continue
		}
		file, err := statedir.OpenFile(l.path(s.first), os.O_RDONLY, 0)
		if err == nil {
			err = errors.Join(file.Sync(), file.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, durable.Names(l.dir))...)
}

func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// oldest is the number of the oldest record that is kept.
func (l *log) oldest() uint64 { return l.segments[0].first }

// readRecord reads a record, into buf if that is large enough. It fails with io.EOF if there is none, and with io.ErrUnexpectedEOF if it is
// not whole.
func readRecord(in io.Reader, buf []byte) ([]byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > MaxRecord {
		return nil, errDamaged
	}
	record := slices.Grow(buf[:0], int(length))[:length]
	if _, err := io.ReadFull(in, record); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	if crc32.Checksum(record, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return nil, errDamaged
	}
	return record, nil
}

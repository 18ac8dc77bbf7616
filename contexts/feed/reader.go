package feed

import (
	"bufio"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// readAhead is how much of a segment a Reader reads at a time, in bytes.
const readAhead = 16 << 10

// Event is what a Reader returns: a record, or a reset.
type Event struct {
	// Cursor continues behind the event.
	Cursor string
	// Sequence is the number of the record; 0 for a reset.
	Sequence uint64
	// Record is valid until the next call of the Reader.
	Record []byte
	// Reset says why changes are missing; "" for a record.
	Reset string
}

// Reader reads a feed from a cursor on. It holds no lock and no memory for records that it has not read.
type Reader struct {
	f *Feed
	// name is that of the feed that is read. next is the number of the next record.
	name string
	next uint64
	// file is the segment that has next, and begins with the record first; nil while none is open.
	file  *os.File
	first uint64
	ahead *bufio.Reader
	buf   []byte
	// reset is the reason of a reset that was not returned yet.
	reset string
}

// errForeign refuses a cursor that is not of this context.
var errForeign = &fserr.Error{Code: fserr.EINVAL, Detail: "the cursor is not one of this context's feed", Hint: "begin without a cursor, and read the files again"}

// read is Feeds.Read of a feed that is open. f.mu is held.
func (f *Feed) read(cursor string) (*Reader, error) {
	r := &Reader{f: f, name: f.name, next: f.log.next}
	if cursor == "" {
		return r, nil
	}
	name, seq, err := parseCursor(cursor, f.context)
	switch {
	case err != nil:
		return nil, err
	case name != f.name:
		r.reset = "the feed began anew after this cursor"
	case seq >= f.log.next:
		r.reset = "the feed has lost changes"
	case seq+1 < f.log.oldest():
		r.reset = tooOld
	default:
		r.next = seq + 1
	}
	return r, nil
}

const tooOld = "the changes after this cursor are not kept any more"

// Cursor continues behind everything that the Reader has returned.
func (r *Reader) Cursor() string { return makeCursor(r.f.context, r.name, r.next-1) }

// Close releases the Reader.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
	}
	r.file = nil
}

// Grown returns a channel that is closed when there may be an event that Next has not returned.
func (r *Reader) Grown() <-chan struct{} { return r.f.after(r.name, r.next) }

// Next returns the next event; ok is false if there is none yet. It fails with ESTALE if the context was deleted, and with ECANCELED if the
// server stops.
func (r *Reader) Next() (e Event, ok bool, err error) {
	for {
		first, more, err := r.look()
		switch {
		case err != nil:
			return Event{}, false, err
		case r.reset != "":
			e = Event{Cursor: r.Cursor(), Reset: r.reset}
			r.reset = ""
			return e, true, nil
		case !more:
			return Event{}, false, nil
		}
		record, err := r.record(first)
		if err == nil {
			r.next++
			return Event{Cursor: r.Cursor(), Sequence: r.next - 1, Record: record}, true, nil
		}
		if err := r.lost(first, err); err != nil {
			return Event{}, false, err
		}
	}
}

// lost deals with a segment that cannot be read: it was too old and was removed meanwhile, or the feed is damaged and begins anew.
func (r *Reader) lost(first uint64, why error) error {
	r.Close()
	if !isAny(why, fs.ErrNotExist, io.EOF, io.ErrUnexpectedEOF, errDamaged) {
		return why // such as EMFILE: the feed is whole
	}
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.name != r.name || f.log == nil || first < f.log.oldest() {
		return nil
	}
	return f.again(true, why)
}

func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// look finds the segment that has the next record; more is false if there is no record yet. It notes a reset if the record is not kept.
func (r *Reader) look() (first uint64, more bool, err error) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.gone:
		return 0, false, errDeleted
	case f.closed:
		return 0, false, errStopping
	case f.resting && f.hasRead(r.name, r.next):
		r.Close()
		return 0, false, nil
	case f.log == nil:
		if err := f.open(true); err != nil {
			return 0, false, err
		}
	}
	switch {
	case f.name != r.name:
		r.restart("changes could not be recorded")
	case r.next < f.log.oldest():
		r.restart(tooOld)
	}
	if r.next == f.log.next {
		return 0, false, nil
	}
	f.usedAt = time.Now()
	for _, s := range f.log.segments {
		if s.first <= r.next {
			first = s.first
		}
	}
	return first, true, nil
}

// restart continues at the end of the feed, behind a reset. f.mu is held.
func (r *Reader) restart(why string) {
	r.Close()
	r.name, r.next, r.reset = r.f.name, r.f.log.next, why
}

// record reads the next record, which is whole, from the segment with the number first.
func (r *Reader) record(first uint64) ([]byte, error) {
	if r.file == nil || r.first != first {
		if err := r.seek(first); err != nil {
			return nil, err
		}
	}
	return r.read()
}

// seek opens a segment, and passes over the records before the next one.
func (r *Reader) seek(first uint64) (err error) {
	r.Close()
	path := (&log{dir: r.f.dir}).path(first)
	if r.file, err = statedir.OpenFile(path, os.O_RDONLY, 0); err != nil {
		return err
	}
	r.first, r.ahead = first, bufio.NewReaderSize(r.file, readAhead)
	for n := first; n < r.next; n++ {
		if _, err := r.read(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) read() ([]byte, error) {
	record, err := readRecord(r.ahead, r.buf)
	if err != nil {
		r.Close()
		return nil, err
	}
	r.buf = record
	return record, nil
}

func makeCursor(context, name string, seq uint64) string {
	return strings.Join([]string{cursorPrefix, contextTag(context), name, strconv.FormatUint(seq, 36)}, "-")
}

// cursorPrefix names the form of a cursor.
const cursorPrefix = "f1"

// contextTag says whose feed a cursor is of.
func contextTag(context string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, context) // it cannot fail
	return hex.EncodeToString(h.Sum(nil))
}

func parseCursor(cursor, context string) (name string, seq uint64, err error) {
	parts := strings.Split(cursor, "-")
	if len(parts) != 4 || parts[0] != cursorPrefix || parts[1] != contextTag(context) {
		return "", 0, errForeign
	}
	if seq, err = strconv.ParseUint(parts[3], 36, 64); err != nil {
		return "", 0, errForeign
	}
	return parts[2], seq, nil
}

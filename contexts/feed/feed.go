// Package feed keeps, for each context that has a consumer, a log of the calls that changed it. A consumer reads the log from a cursor on,
// and gets every change once and in order, over restarts of the consumer and of the server.
//
// # On disk
//
//	<feeds>/<context>/{name, open, 00000000000000000001.log, …}
//
// A log is a row of segments, whose names are the numbers of their first changes. Name has the feed's random name, which cursors repeat. A
// feed that may miss a change is removed, and the next one has another name: a cursor of the old one gets a reset. So changes are never
// lost in silence.
//
// A change is appended with one write before its call is answered. It is not flushed: a kill of the process loses nothing, a crash of the
// machine may. Therefore the file open has the boot ID of the machine while a server may append. If a feed was left open in another boot,
// it is removed. If it was left open in this boot, part of a record at the end is cut, and the feed gets a change for what the killed server
// may have done without an answer. A feed that is not used for some minutes is flushed and closed, and keeps that file.
//
// The package knows neither contexts nor the wire: a record is bytes.
package feed

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

const (
	// MinBytes is the least that a feed may keep, in bytes: two segments.
	MinBytes = 2 * maxSegment
	// MaxRecord bounds a record, in bytes.
	MaxRecord = 256 << 10
)

// Names in the directory of a feed.
const (
	nameFile   = "name"
	openFile   = "open"
	logSuffix  = ".log"
	logPattern = "%020d" + logSuffix
)

// Config of Open.
type Config struct {
	// Dir has a directory for each feed. It is made with the first feed.
	Dir string
	// MaxBytes bounds a feed, in bytes; the oldest changes are removed. 0 means 16 MiB; less than MinBytes means MinBytes.
	MaxBytes int64
	// Interrupted returns the record of what a killed server may have done. Required.
	Interrupted func() []byte
	// Log may be nil.
	Log *zap.Logger
	// boot is the machine's boot ID; "" means the real one.
	boot string
}

// Feeds are the feeds of a workspace.
type Feeds struct {
	cfg Config
	// some says that there is a feed, so that calls of a workspace without one cost nothing.
	some atomic.Bool

	mu    sync.Mutex
	feeds map[string]*Feed
}

// Open finds the feeds in a directory. It opens none.
func Open(cfg Config) (*Feeds, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 16 << 20
	}
	cfg.MaxBytes = max(cfg.MaxBytes, MinBytes)
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.boot == "" {
		cfg.boot = bootID()
	}
	all := &Feeds{cfg: cfg, feeds: map[string]*Feed{}}
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the feeds: %w", err)
	}
	for _, e := range entries {
		all.feed(e.Name())
	}
	return all, nil
}

// bootID returns a name of this run of the machine; "" where there is none. Then every feed that a killed server left is removed.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// feed returns the feed of a context, which may not exist on disk.
func (a *Feeds) feed(context string) *Feed {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.feeds[context]
	if f == nil {
		f = &Feed{cfg: &a.cfg, context: context, dir: filepath.Join(a.cfg.Dir, context), grown: make(chan struct{})}
		a.feeds[context] = f
		a.some.Store(true)
	}
	return f
}

// Some reports whether there may be a feed. It costs next to nothing.
func (a *Feeds) Some() bool { return a != nil && a.some.Load() }

// Of returns the feed of a context; nil if no caller has asked for it.
func (a *Feeds) Of(context string) *Feed {
	if !a.Some() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.feeds[context]
}

// Read returns a Reader of a context's feed, which it begins if there is none. The Reader begins behind a cursor, or at the feed's end if
// cursor is "". Read fails with EINVAL for a cursor of another context. A cursor of changes that are not kept any more gets a reset. The caller
// ensures that the context is not deleted meanwhile.
func (a *Feeds) Read(context, cursor string) (*Reader, error) {
	f := a.feed(context)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		if err := f.open(true); err != nil {
			return nil, err
		}
	}
	return f.read(cursor)
}

// Drop forgets the feed of a context that was deleted, and ends its readers. The caller has removed its directory, or Drop does.
func (a *Feeds) Drop(context string) error {
	a.mu.Lock()
	f := a.feeds[context]
	delete(a.feeds, context)
	a.mu.Unlock()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	err := f.remove()
	f.wake()
	return err
}

// Close flushes and closes all feeds. Later appends fail.
func (a *Feeds) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, f := range a.feeds {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// Feed is the log of one context's changes.
type Feed struct {
	cfg          *Config
	context, dir string

	mu sync.Mutex
	// name is the feed's; "" while it was not opened, and after it was removed.
	name string
	// log is nil while the feed is not open.
	log *log
	// absent says that the feed does not exist on disk: no reader has begun it since it was removed.
	absent bool
	// broken says that the feed on disk misses a change, and could not be removed yet.
	broken bool
	// gone says that the context was deleted, closed that the server stops.
	gone, closed bool
	// grown is closed, and replaced, when a reader should look again.
	grown chan struct{}
	// usedAt is the time of the last append or read. idle calls rest; nil while the log is not open.
	usedAt time.Time
	idle   *time.Timer
	// resting says that rest has closed the log, whose next record has the number next.
	resting bool
	next    uint64
}

// idleTime is how long a log without appends and reads stays open.
const idleTime = 5 * time.Minute

// used keeps an open log from being closed. f.mu is held.
func (f *Feed) used() {
	f.usedAt = time.Now()
	if f.idle == nil {
		f.idle = time.AfterFunc(idleTime, f.rest)
	}
}

// rest flushes and closes a log that was not used for idleTime, so that feeds which nobody uses keep no descriptor. It leaves the file open: the
// server may append in this boot. Readers close their segments, and wait as before.
func (f *Feed) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = nil
	if f.log == nil || f.closed {
		return
	}
	left := idleTime - time.Since(f.usedAt)
	if left <= 0 {
		if err := f.log.flush(); err != nil && !errors.Is(err, fs.ErrNotExist) { // another program may have removed the feed
			f.cfg.Log.Warn("a feed that is not used could not be flushed and stays open", zap.String("context", f.context), zap.Error(err))
			left = idleTime
		}
	}
	if left > 0 {
		f.idle = time.AfterFunc(left, f.rest)
		return
	}
	f.resting, f.next = true, f.log.next
	_ = f.log.close() // it is flushed
	f.log = nil
	f.wake()
}

// open opens the feed, and begins it if it does not exist and begin is set. f.mu is held.
func (f *Feed) open(begin bool) error {
	if f.gone || f.closed {
		return fs.ErrClosed
	}
	if f.broken {
		return f.again(begin, errors.New("a change could not be recorded"))
	}
	name, err := statedir.ReadFile(filepath.Join(f.dir, nameFile), statedir.MaxRecord)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.begin(begin)
	case err != nil:
		return fmt.Errorf("open a feed: %w", err)
	}
	if string(name) != f.named(strings.SplitN(string(name), " ", 2)[0]) {
		return f.again(begin, errors.New("it is a copy, such as of a backup"))
	}
	left, err := statedir.ReadFile(filepath.Join(f.dir, openFile), statedir.MaxRecord)
	marked := err == nil
	killed := marked && !f.resting
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open a feed: %w", err)
	}
	if killed && (f.cfg.boot == "" || string(left) != f.cfg.boot) {
		return f.again(begin, errors.New("the machine stopped without flushing it"))
	}
	f.name = strings.SplitN(string(name), " ", 2)[0]
	if f.log, err = openLog(f.dir, f.cfg.MaxBytes); err != nil {
		return f.again(begin, err)
	}
	switch {
	case killed:
		err = f.log.append(f.cfg.Interrupted())
	case !marked:
		err = f.mark()
	}
	if err != nil {
		return f.again(begin, err)
	}
	f.resting = false
	f.used()
	return nil
}

// named returns what the file of a name holds: the name, and the number of the directory. A copy of the directory has another one: that feed may
// lack changes that cursors of the original are behind.
func (f *Feed) named(name string) string {
	return name + " " + strconv.FormatUint(inodeOf(f.dir), 10)
}

// again removes a feed that may miss changes, and begins another one if begin is set. f.mu is held.
func (f *Feed) again(begin bool, why error) error {
	f.cfg.Log.Warn("a feed of changes may miss some and was removed: its readers get a reset", zap.String("context", f.context), zap.Error(why))
	f.broken = true
	defer f.wake()
	if err := f.remove(); err != nil {
		return fmt.Errorf("remove a feed that misses changes: %w", err)
	}
	return f.begin(begin)
}

// begin makes an empty feed. Its name is written last, so half a feed has none.
func (f *Feed) begin(wanted bool) (err error) {
	if f.absent = !wanted; f.absent {
		return nil
	}
	if err := f.remove(); err != nil { // what a kill left of an earlier beginning
		return err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	name := strings.ToLower(rand.Text()[:16])
	if f.log, err = openLog(f.dir, f.cfg.MaxBytes); err == nil {
		err = f.mark()
	}
	if err == nil {
		err = statedir.WriteFile(filepath.Join(f.dir, nameFile+".new"), []byte(f.named(name)), 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(f.dir, nameFile+".new"), filepath.Join(f.dir, nameFile))
	}
	if err != nil {
		return errors.Join(err, f.remove())
	}
	f.name, f.absent = name, false
	f.used()
	return nil
}

// mark says on disk that a server may append in this boot, before the first append.
func (f *Feed) mark() error {
	file, err := statedir.OpenFile(filepath.Join(f.dir, openFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.cfg.boot)
	return errors.Join(err, file.Sync(), file.Close(), durable.Names(f.dir))
}

// remove removes what the feed has on disk, its name first: what is left then is no feed. f.mu is held.
func (f *Feed) remove() error {
	if f.log != nil {
		_ = f.log.close() // its readers open segments by themselves
	}
	f.log, f.name, f.absent, f.resting = nil, "", true, false
	if err := os.Remove(filepath.Join(f.dir, nameFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.absent = false // the next append tries again
		return err
	}
	f.broken = false
	return os.RemoveAll(f.dir)
}

// Append adds a record at the end, if the feed has been begun. It reports an error when the record is lost: then all readers get a reset.
func (f *Feed) Append(record []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent || f.gone || f.closed {
		return nil
	}
	if f.log == nil {
		if err := f.open(false); err != nil {
			return errors.Join(err, f.again(false, err))
		}
		if f.log == nil {
			return nil
		}
	}
	if err := f.log.append(record); err != nil {
		return errors.Join(err, f.again(false, err))
	}
	f.usedAt = time.Now()
	f.wake()
	return nil
}

// wake makes the readers look again. f.mu is held.
func (f *Feed) wake() {
	close(f.grown)
	f.grown = make(chan struct{})
}

// close flushes and closes the feed.
func (f *Feed) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
	if f.idle != nil {
		f.idle.Stop()
	}
	var err error
	switch {
	case f.log != nil:
		err = f.log.flush()
	case !f.resting:
		return nil
	}
	if err == nil {
		err = os.Remove(filepath.Join(f.dir, openFile))
	}
	if errors.Is(err, fs.ErrNotExist) { // another program removed the feed: the next reader gets a reset
		err = nil
	}
	if f.log == nil {
		return err
	}
	return errors.Join(err, f.log.close())
}

// after returns a channel that is closed when a reader that has read everything before next should look again.
func (f *Feed) after(name string, next uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hasRead(name, next) && !f.gone && !f.closed {
		return f.grown
	}
	now := make(chan struct{})
	close(now)
	return now
}

// hasRead reports whether a reader of the feed has read everything before next, and nothing is after that. f.mu is held.
func (f *Feed) hasRead(name string, next uint64) bool {
	return f.name == name && (f.log != nil && f.log.next == next || f.resting && f.next == next)
}

// errDeleted ends the readers of a feed whose context was deleted.
var errDeleted = &fserr.Error{Code: fserr.ESTALE, Kind: fserr.KindContext, Detail: "the context was deleted", Hint: "its next context begins another feed"}

// errStopping ends the readers when the server stops.
var errStopping = &fserr.Error{Code: fserr.ECANCELED, Detail: "the server is stopping", Hint: "continue with the last cursor"}

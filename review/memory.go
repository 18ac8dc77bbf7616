package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/budget"
	"github.com/ctxfs/ctxfs/internal/linediff"
)

const (
	// maxKept bounds the contents and lines that one List keeps in memory, in bytes. The others are read again when they are needed.
	maxKept = 16 << 20
	// maxIDs bounds the hunks of one List.
	maxIDs = 2 << 20
	// idMemory is what the ID of a hunk takes, in bytes.
	idMemory = 48
	// lineMemory is what a line of either text takes while two texts are compared, with the hunks that there can be, in bytes.
	lineMemory = linediff.LineMemory + 64
	// smallText is what a comparison may take without being counted, in bytes: about as many are made at once as there are processors.
	smallText = 1 << 20
	// mergeCopies is how often a merge has its three texts in memory: here, in git, and as the result in git and, with what its buffer spares, here.
	mergeCopies = 5
	// mergeLineMemory is what git merge-file takes at most for each line of its texts besides them, in bytes. With git 2.39, 4 MiB of newlines take 84,
	// and 4 MiB of lines that are all different take 179.
	mergeLineMemory = 180
	// textWait is how long a text that is shown waits for the memory of its panel.
	textWait = 10 * time.Second
)

// room is the memory that a List takes. A panel's counts for its account of the memory budget; a host's is bounded for each List. It is safe for
// concurrent use. A nil room keeps nothing and counts nothing.
type room struct {
	// turn has one element while a text is compared that is not small.
	turn chan struct{}
	done func()

	mu sync.Mutex
	// holds counts kept, ids and used.
	holds *budget.Hold
	// kept are the bytes of texts and contents, which can be read again. isFull says that no more are kept.
	kept     int64
	texts    []*TextDiff
	contents []*heldContent
	isFull   bool
	// ids is how many hunks the List has, used what the text takes that is being compared or shown, in bytes.
	ids, used int64
}

// heldContent is what a room keeps of a version. data is nil once it was taken or forgotten.
type heldContent struct {
	data []byte
	// at is where the room's contents have it.
	at int
}

// newRoom returns the room of a List of the caller of ctx. Close it.
func newRoom(ctx context.Context) *room {
	holds, done := budget.Of(ctx).Aside()
	return &room{turn: make(chan struct{}, 1), done: done, holds: holds}
}

// close gives the memory back. Nothing may use the List's texts afterwards.
func (m *room) close() {
	if m != nil {
		m.done()
	}
}

// reset forgets what was counted, for a comparison that begins again.
func (m *room) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	m.isFull, m.ids, m.used = false, 0, 0
	m.holds.Release()
}

// total is what the room takes. The lock is held.
func (m *room) total() int64 { return m.kept + idMemory*m.ids + m.used }

// keep reports whether n more bytes are kept. The lock is held.
func (m *room) keep(n int64) bool {
	if m.isFull || m.kept+n > maxKept || !m.holds.TrySpare(m.total()+n) {
		return false
	}
	m.kept += n
	return true
}

// forget drops all that is kept, and keeps nothing any more. The lock is held.
func (m *room) forget() {
	for _, d := range m.texts {
		d.drop()
	}
	for _, c := range m.contents {
		c.data = nil
	}
	m.isFull, m.kept, m.texts, m.contents = true, 0, nil, nil
}

// keepContent returns a copy of a content that takeContent returns, nil if there is no room.
func (m *room) keepContent(data []byte) *heldContent {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.keep(int64(len(data))) {
		return nil
	}
	c := &heldContent{bytes.Clone(data), len(m.contents)}
	m.contents = append(m.contents, c)
	return c
}

// takeContent returns a content that was kept, and keeps it no longer; ok is false if it must be read again.
func (m *room) takeContent(c *heldContent) (data []byte, ok bool) {
	if c == nil {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.data == nil {
		return nil, false
	}
	last := m.contents[len(m.contents)-1]
	m.contents[c.at], last.at = last, c.at
	m.contents = m.contents[:len(m.contents)-1]
	data, c.data = c.data, nil
	m.kept -= int64(len(data))
	return data, true
}

// keepText keeps a Text that no other goroutine uses: all of it, or the IDs of its hunks.
func (m *room) keepText(d *TextDiff) error {
	if m == nil || d == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keep(d.memory()) {
		m.texts = append(m.texts, d)
	} else {
		d.drop()
	}
	if m.ids += int64(len(d.ids)); m.ids > maxIDs {
		return &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("the changes have more than %d hunks in all", maxIDs), Hint: "name some of the paths"}
	}
	if !m.holds.Try(m.total()) {
		return m.holds.Refuse("the list of changes")
	}
	return nil
}

// compare calls do, which compares two texts, if there is memory for it. Texts that are not small are compared one after the other, and not at all if
// that took more than is left to others. It does not wait for memory, since the calls that change the context wait for it.
func (m *room) compare(ctx context.Context, old, now []byte, do func()) error {
	n := textMemory(old, now)
	if m == nil || n <= smallText {
		do()
		return nil
	}
	if n > m.holds.Most() {
		return nil
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.take(n, "the comparison of a file"); err != nil {
		return err
	}
	do()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fits(0)
	return nil
}

// fits replaces what the text takes that is being compared or shown, and reports whether there is memory for it, without all that is kept if there
// is too little. The lock is held.
func (m *room) fits(n int64) bool {
	m.used = n
	m.holds.Keep(m.total())
	if m.holds.Try(m.total()) {
		return true
	}
	m.forget()
	if m.holds.Try(m.total()) {
		return true
	}
	m.used = 0
	return false
}

// take is fits with the error of a call that does not wait. what names the thing that the memory is for.
func (m *room) take(n int64, what string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fits(n) {
		return m.holds.Refuse(what)
	}
	return nil
}

// showNow is show without a wait.
func (m *room) showNow(_ context.Context, n int64) error {
	if m == nil {
		return nil
	}
	return m.take(n, "the text of a file")
}

// show is fits for a change that is shown. It waits for memory. No goroutine compares meanwhile.
func (m *room) show(ctx context.Context, n int64) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fits(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, textWait)
	defer cancel()
	m.used = n
	if err := m.holds.Wait(ctx, m.total()); err != nil {
		m.used = 0
		return budget.Refusal(err, "the text of a file")
	}
	return nil
}

// textMemory returns about how much memory it takes to compare two texts and to write the difference, in bytes.
func textMemory(old, now []byte) int64 {
	const copies = 3 // as lines, as hunks or a patch, and as a message
	n := int64(0)
	for _, text := range [][]byte{old, now} {
		n += copies*int64(len(text)) + lineMemory*int64(bytes.Count(text, []byte("\n")))
	}
	return n
}

// errTooLarge says that a merge takes more memory than is left to others. Its file is a conflict as a whole.
var errTooLarge = errors.New("the merge takes too much memory")

// forMerge reserves the memory of the caller's panel for a merge of three texts, or fails with errTooLarge. It does not wait: other panels wait for the
// workspace meanwhile. Call done after the merge.
func forMerge(ctx context.Context, texts [3][]byte) (done func(), err error) {
	n := int64(0)
	for _, text := range texts {
		n += mergeCopies*int64(len(text)) + mergeLineMemory*int64(bytes.Count(text, []byte("\n")))
	}
	if n <= smallText {
		return func() {}, nil
	}
	hold, done := budget.Of(ctx).Aside()
	switch {
	case n > hold.Most():
		err = errTooLarge
	case !hold.Try(n):
		err = hold.Refuse("the merge of a file")
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// holding returns a reader that hashes a content, and keeps it in held if it is small and there is room.
func (m *room) holding(s *Store, held **heldContent) reader {
	hashing := s.hashing()
	hashing.read = func(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
		buf := buffers.Get().(*[64 << 10]byte)
		defer buffers.Put(buf)
		n, err := io.ReadFull(r, buf[:])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			sum := sha256.Sum256(buf[:n])
			*held = m.keepContent(buf[:n])
			return hex.EncodeToString(sum[:]), int64(n), nil
		case err != nil:
			return "", 0, err
		}
		return hashFrom(ctx, buf[:n], r)
	}
	return hashing
}

// Text returns the lines and hunks of a change that has a Text, until the next call or the List's Close. It reads the versions again if the List has
// too many to hold them all, and fails with EBUSY if the file changed since. It fails with EAGAIN if the caller's panel has too much in memory.
func (r *Reviews) Text(ctx context.Context, l *List, c *Change) (d *TextDiff, err error) {
	if !c.Text.isShed {
		return c.Text, nil
	}
	if l.stored {
		return l.text(ctx, c, r.store.opener(c.After), l.room.show)
	}
	err = r.cfg.Contexts.Reading(ctx, l.context, func(ctx context.Context, root rootfs.Root) error {
		d, err = l.text(ctx, c, openerIn(root, c.Difference), l.room.show)
		return err
	})
	return d, err
}

// changedSince returns the error of a call that reads a version after the change was listed. Other calls may have changed the file, or moved the base
// and removed its content.
func (c *Change) changedSince(err error) error {
	if errors.Is(err, errUnstable) || isAbsent(err) {
		return &fserr.Error{Code: fserr.EBUSY, Path: "/" + string(c.Path), Detail: "the file or its base changed since it was listed", Hint: "try again"}
	}
	return err
}

// text returns the Text of a change with its lines. show is one of the room's.
func (l *List) text(ctx context.Context, c *Change, after opener, show func(ctx context.Context, n int64) error) (*TextDiff, error) {
	if !c.Text.isShed {
		return c.Text, nil
	}
	var now []byte
	old, err := side(c.Before, func() (io.ReadCloser, error) { return l.base.open(l.base.lookup(c.Path)) })
	if err == nil {
		now, err = side(c.After, after)
	}
	if err != nil {
		return nil, c.changedSince(err)
	}
	if err := show(ctx, textMemory(old, now)); err != nil {
		return nil, err
	}
	d := DiffText(string(c.Path), old, now)
	for i, id := range c.Text.ids {
		d.Hunks[i].ID, d.ids[i] = id, id
	}
	return d, nil
}

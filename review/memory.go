package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxHeld bounds the contents that one comparison keeps in memory, and those that one List keeps, in bytes. The others are read again
// when they are needed.
const maxHeld = 16 << 20

// memory counts bytes up to maxHeld. It is safe for concurrent use.
type memory struct{ used atomic.Int64 }

// take reports whether there is room for n more bytes, which are used then.
func (m *memory) take(n int64) bool {
	if m.used.Add(n) <= maxHeld {
		return true
	}
	m.used.Add(-n)
	return false
}

// holding returns a function that hashes a content as hashOf does, and leaves it in held if it is small and there is room.
func (m *memory) holding(held **[]byte) func(r io.Reader) (hash string, size int64, err error) {
	return func(r io.Reader) (hash string, size int64, err error) {
		buf := buffers.Get().(*[64 << 10]byte)
		defer buffers.Put(buf)
		n, err := io.ReadFull(r, buf[:])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			sum := sha256.Sum256(buf[:n])
			if m.take(int64(n)) {
				data := bytes.Clone(buf[:n])
				*held = &data
			}
			return hex.EncodeToString(sum[:]), int64(n), nil
		case err != nil:
			return "", 0, err
		}
		return hashOf(io.MultiReader(bytes.NewReader(buf[:n]), r))
	}
}

// drop gives up contents that are held.
func (m *memory) drop(held [2]*[]byte) {
	for _, h := range held {
		if h != nil {
			m.used.Add(-int64(len(*h)))
		}
	}
}

// Text returns the lines and hunks of a change that has a Text. It reads the versions again if the List has too many to hold them all, and
// fails with EBUSY if the file changed since.
func (r *Reviews) Text(ctx context.Context, l *List, c *Change) (d *TextDiff, err error) {
	if !c.Text.isShed {
		return c.Text, nil
	}
	err = r.cfg.Contexts.Reading(ctx, l.context, func(root rootfs.Root) error {
		d, err = c.text(l.base, root)
		return err
	})
	return d, err
}

// text returns Text with its lines.
func (c *Change) text(b *base, root rootfs.Root) (*TextDiff, error) {
	if !c.Text.isShed {
		return c.Text, nil
	}
	old, err := side(c.Before, func() (io.ReadCloser, error) { return b.open(b.lookup(c.Path)) })
	if err != nil {
		return nil, err
	}
	now, err := side(c.After, openerIn(root, c.Difference))
	if errors.Is(err, errUnstable) || isAbsent(err) {
		err = &fserr.Error{Code: fserr.EBUSY, Path: "/" + string(c.Path), Detail: "the file changed since it was listed", Hint: "try again"}
	}
	if err != nil {
		return nil, err
	}
	d := DiffText(string(c.Path), old, now)
	for i := range d.Hunks {
		d.Hunks[i].ID = c.Text.Hunks[i].ID
	}
	return d, nil
}

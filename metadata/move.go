package metadata

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// ErrNotEmpty means that a store has records, and so takes none from another.
var ErrNotEmpty = errors.New("it has records already")

// Mover is a Store whose records can be moved to another.
type Mover interface {
	Store
	// Each calls f with all records as of one moment: each Context, Panel, Token, Layer and Site, in this order, each kind by its
	// key. It holds a few at once.
	Each(ctx context.Context, f func(record any) error) error
	// Fill adds the records that read passes to add, in the order of Each, in one transaction. It fails with ErrNotEmpty if there
	// are records.
	Fill(ctx context.Context, read func(add func(record any) error) error) error
}

// Counts says how many records there are.
type Counts struct {
	Contexts, Panels, Tokens, Layers, Sites int64
}

// Total is the number of all records.
func (c Counts) Total() int64 { return c.Contexts + c.Panels + c.Tokens + c.Layers + c.Sites }

func (c *Counts) add(record any) error {
	switch record.(type) {
	case Context:
		c.Contexts++
	case Panel:
		c.Panels++
	case Token:
		c.Tokens++
	case Layer:
		c.Layers++
	case Site:
		c.Sites++
	default:
		return fmt.Errorf("a record of type %T is unknown", record)
	}
	return nil
}

// Copy copies all records to an empty store, then reads both again and compares them.
func Copy(ctx context.Context, from, to Mover) (Counts, error) {
	if err := to.Fill(ctx, func(add func(any) error) error { return from.Each(ctx, add) }); err != nil {
		return Counts{}, err
	}
	read, sum, err := summary(ctx, from)
	if err != nil {
		return Counts{}, fmt.Errorf("read the source again: %w", err)
	}
	written, copied, err := summary(ctx, to)
	if err != nil {
		return Counts{}, fmt.Errorf("read the copy: %w", err)
	}
	if read != written || sum != copied {
		return Counts{}, fmt.Errorf("the copy differs from its source: %+v and %+v, digests %s and %s; use the source, and empty the copy", read, written, sum, copied)
	}
	return read, nil
}

// summary counts the records and digests them.
func summary(ctx context.Context, m Mover) (counts Counts, sum string, err error) {
	h := sha256.New()
	err = m.Each(ctx, func(record any) error {
		if c, ok := record.(Context); ok {
			c.LastError = Readable(c.LastError)
			record = c
		}
		return errors.Join(counts.add(record), digest(h, record))
	})
	return counts, fmt.Sprintf("%x", h.Sum(nil)), err
}

func digest(h hash.Hash, record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(h, "%T %s\n", record, line)
	return err
}

// Readable replaces what some databases do not take as text: NUL, and bytes that are not UTF-8.
func Readable(text string) string {
	return strings.ReplaceAll(string([]rune(text)), "\x00", "\uFFFD")
}

// Package memory keeps metadata in maps: for tests, and for servers that leave no
// trace. Everything is lost when the process ends.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// Store is a metadata.Store in memory.
type Store struct {
	mu       sync.RWMutex
	closed   bool
	contexts table[metadata.Context]
	panels   table[metadata.Panel]
	tokens   map[[32]byte]metadata.Token
	layers   map[string]metadata.Layer
	sites    map[string]metadata.Site
}

var _ metadata.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		contexts: newTable[metadata.Context](),
		panels:   newTable[metadata.Panel](),
		tokens:   map[[32]byte]metadata.Token{},
		layers:   map[string]metadata.Layer{},
		sites:    map[string]metadata.Site{},
	}
}

// Contexts returns the context records.
func (s *Store) Contexts() metadata.Contexts { return contexts{s} }

// Panels returns the panel records.
func (s *Store) Panels() metadata.Panels { return panels{s} }

// Tokens returns the token records.
func (s *Store) Tokens() metadata.Tokens { return tokens{s} }

// Layers returns the layer records.
func (s *Store) Layers() metadata.Layers { return layers{s} }

// Close makes later calls fail with fs.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// writing runs fn alone. Errors say what failed for which record.
func (s *Store) writing(ctx context.Context, doing, key string, fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guarded(ctx, doing, key, fn)
}

// reading runs fn beside other readers.
func reading[T any](ctx context.Context, s *Store, doing, key string, fn func() (T, error)) (record T, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err = s.guarded(ctx, doing, key, func() error {
		record, err = fn()
		return err
	})
	return record, err
}

func (s *Store) guarded(ctx context.Context, doing, key string, fn func() error) error {
	err := ctx.Err()
	if s.closed {
		err = fs.ErrClosed
	}
	if err == nil {
		err = fn()
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", doing, key, err)
	}
	return nil
}

// table is records by ID, and the IDs by their folded form.
type table[T any] struct {
	records map[string]T
	folded  map[string]string
}

func newTable[T any]() table[T] { return table[T]{map[string]T{}, map[string]string{}} }

func (t table[T]) add(id string, record T) error {
	if _, ok := t.folded[metadata.Fold(id)]; ok {
		return metadata.ErrConflict
	}
	t.records[id], t.folded[metadata.Fold(id)] = record, id
	return nil
}

func (t table[T]) byFold(id string) (T, error) { return find(t.records, t.folded[metadata.Fold(id)]) }

func (t table[T]) replace(id string, record T) error {
	if _, ok := t.records[id]; !ok {
		return metadata.ErrNotFound
	}
	t.records[id] = record
	return nil
}

func (t table[T]) remove(id string) error {
	if _, ok := t.records[id]; !ok {
		return metadata.ErrNotFound
	}
	delete(t.records, id)
	delete(t.folded, metadata.Fold(id))
	return nil
}

// sorted returns the records by ID.
func (t table[T]) sorted() []T {
	var list []T
	for _, id := range slices.Sorted(maps.Keys(t.records)) {
		list = append(list, t.records[id])
	}
	return list
}

// find looks key up in a map of records.
func find[K comparable, T any](records map[K]T, key K) (T, error) {
	record, ok := records[key]
	if !ok {
		return record, metadata.ErrNotFound
	}
	return record, nil
}

// stored is t as it comes back from a store: to the millisecond, UTC.
func stored(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// storedLabels is a copy of a set of labels; nil for an empty one.
func storedLabels(set map[string]string) map[string]string {
	if len(set) == 0 {
		return nil
	}
	return maps.Clone(set)
}

// collect returns the records that keep accepts, in order.
func collect[K comparable, T any](records map[K]T, keep func(T) bool, order func(a, b T) int) []T {
	var list []T
	for _, record := range records {
		if keep(record) {
			list = append(list, record)
		}
	}
	slices.SortFunc(list, order)
	return list
}

func byIssue(a, b metadata.Token) int {
	return cmp.Or(a.IssuedAt.Compare(b.IssuedAt), slices.Compare(a.Hash[:], b.Hash[:]))
}

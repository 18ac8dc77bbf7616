// Package recent has a map that forgets what was not used lately, so that a cache stays bounded whatever its callers ask for.
package recent

import (
	"iter"
	"maps"
)

// Map keeps at least the last Max entries that were put or found, and at most twice as many. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	Max int
	// young has the entries that were put or found last. When it is full it becomes old, and what was old is forgotten.
	young, old map[K]V
}

// Get returns an entry. aged means that Put must repeat the entry to keep it for longer.
func (m *Map[K, V]) Get(key K) (value V, aged, ok bool) {
	if value, ok = m.young[key]; ok {
		return value, false, true
	}
	value, ok = m.old[key]
	return value, ok, ok
}

// Put adds or replaces an entry.
func (m *Map[K, V]) Put(key K, value V) {
	if _, ok := m.young[key]; m.young == nil || !ok && len(m.young) >= m.Max {
		m.young, m.old = map[K]V{}, m.young
	}
	m.young[key] = value
}

// Delete removes the entries that gone selects.
func (m *Map[K, V]) Delete(gone func(K, V) bool) {
	maps.DeleteFunc(m.young, gone)
	maps.DeleteFunc(m.old, gone)
}

// All returns the entries, each once.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range m.young {
			if !yield(k, v) {
				return
			}
		}
		for k, v := range m.old {
			if _, ok := m.young[k]; !ok && !yield(k, v) {
				return
			}
		}
	}
}

package review

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// TestContentThatAPowerFailureTook puts a content into a store that has its name, but not all of its bytes: it is written again.
func TestContentThatAPowerFailureTook(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{"empty": "", "zeros": "\x00\x00\x00\x00\x00\x00\x00", "a beginning": "con"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before, err := OpenStore(dir)
			must(t, err)
			hash, _, err := before.Put(t.Context(), strings.NewReader("content"))
			must(t, err)
			must(t, os.Chmod(before.path(hash), 0o600))
			must(t, os.WriteFile(before.path(hash), []byte(left), 0o600))
			s, err := OpenStore(dir) // that of the next server
			must(t, err)
			if s.has(t.Context(), hash) {
				t.Error("the store takes it for whole")
			}
			_, _, err = s.Put(t.Context(), strings.NewReader("content"))
			must(t, err)
			data, err := os.ReadFile(s.path(hash))
			must(t, err)
			if string(data) != "content" || !s.has(t.Context(), hash) {
				t.Errorf("the store has %q", data)
			}
		})
	}
}

// TestMixesOfVersions shows which contents an interrupted overwrite leaves.
func TestMixesOfVersions(t *testing.T) {
	t.Parallel()
	page := func(b byte) string { return strings.Repeat(string(b), pageSize) }
	for _, c := range []struct {
		name, now, head, tail string
		want                  bool
	}{
		{"a kill", "newer old", "newer text", "elder old", true},
		{"a kill in the second page", page('a') + "bbcc", page('a') + page('b'), page('w') + "xxcc", true},
		{"a kill beyond the tail", page('a') + "bb", page('a') + page('b'), "w", true},
		{"a kill after the tail's start", page('a') + "cc", page('a') + "b", page('w') + "xc", false},
		{"more than the head", "head and", "head", "tail", false},
		{"pages of either", page('a') + page('x') + page('c'), page('a') + page('b') + page('c'), page('w') + page('x') + page('y'), true},
		{"an empty page", page('a') + page(0), page('a') + page('b'), page('w') + page('x'), true},
		{"the length without the content", strings.Repeat("\x00", 7), "content", "old", true},
		{"a page of neither", page('a') + page('z'), page('a') + page('b'), page('w') + page('x'), false},
		{"another length", page('a') + "z", page('a') + page('b'), page('w') + page('x'), false},
		{"shorter than both", page('a'), page('a') + page('b'), page('w') + page('x'), false},
		{"longer than both", page('a') + page('b') + page(0), page('a') + page('b'), page('w') + page('x'), false},
		{"the length of the tail without the content", page('a') + page(0), page('a'), page('w') + page('x'), true},
		{"the head's page where it has none", page('a') + page('a'), page('a'), page('w') + page('x'), false},
		{
			"the head again after a kill", page('a') + page('b')[:10] + page('x')[10:] + page('c'), page('a') + page('b') + page('c'), page('w') + page('x') + page('y'),
			false,
		},
		{"a save", "by the user", "head", "tail", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := OpenStore(t.TempDir())
			must(t, err)
			var versions [3]Version
			for i, text := range []string{c.now, c.head, c.tail} {
				v := &versions[i]
				v.Hash, v.Size, err = s.Put(t.Context(), bytes.NewReader([]byte(text)))
				must(t, err)
			}
			got, err := s.isMix(versions[0], versions[1], versions[2])
			must(t, err)
			if got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestFlushedContentIsFlushedOnce flushes a content again after nothing, and after another process has removed it and written it again.
func TestFlushedContentIsFlushedOnce(t *testing.T) {
	t.Parallel()
	s, err := OpenStore(t.TempDir())
	must(t, err)
	put := func(s *Store) string {
		hash, _, err := s.Put(t.Context(), strings.NewReader("content"))
		must(t, err)
		return hash
	}
	hash := put(s)
	if s.isFlushed(hash) {
		t.Error("it counts as flushed when it was written")
	}
	must(t, s.flush(map[string]bool{hash: true}))
	if put(s); !s.isFlushed(hash) {
		t.Error("it does not count as flushed")
	}
	must(t, os.Remove(s.path(hash)))
	other, err := OpenStore(s.dir)
	must(t, err)
	past := time.Unix(1, 0)
	if put(other); os.Chtimes(s.path(hash), past, past) != nil || s.isFlushed(hash) {
		t.Error("the file of another process counts as flushed")
	}
}

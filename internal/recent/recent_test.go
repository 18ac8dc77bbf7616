package recent

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMapKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	m := Map[int, string]{Max: 4}
	for i := range 100 {
		m.Put(i, "entry")
		if v, aged, ok := m.Get(0); !ok || v != "entry" {
			t.Fatalf("an entry that is used was forgotten after %d others", i)
		} else if aged {
			m.Put(0, v)
		}
		for j := max(0, i-3); j <= i; j++ {
			if _, _, ok := m.Get(j); !ok {
				t.Fatalf("entry %d was forgotten after entry %d", j, i)
			}
		}
	}
	if n := len(maps.Collect(m.All())); n > 2*m.Max {
		t.Errorf("%d entries are kept", n)
	}
}

func TestMapHasEachEntryOnce(t *testing.T) {
	t.Parallel()
	m := Map[int, string]{Max: 2}
	for _, e := range []struct {
		key   int
		value string
	}{{1, "old"}, {2, "b"}, {3, "c"}, {1, "new"}} {
		m.Put(e.key, e.value)
	}
	want := map[int]string{1: "new", 2: "b", 3: "c"}
	seen := 0
	for k, v := range m.All() {
		if seen++; want[k] != v {
			t.Errorf("%d is %q, want %q", k, v, want[k])
		}
	}
	if seen != len(want) {
		t.Errorf("%d entries, want %d", seen, len(want))
	}
	m.Delete(func(k int, _ string) bool { return k == 1 })
	if diff := cmp.Diff(map[int]string{2: "b", 3: "c"}, maps.Collect(m.All())); diff != "" {
		t.Error(diff)
	}
}

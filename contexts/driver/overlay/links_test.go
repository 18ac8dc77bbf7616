package overlay

import (
	"errors"
	"fmt"
	"testing"
)

func TestLayersAreLookedAtOnce(t *testing.T) {
	var l linkedLayers
	looked := 0
	look := func() (map[string]bool, error) { looked++; return map[string]bool{fmt.Sprint(looked): true}, nil }
	if _, err := l.of(layerID{path: "a"}, func() (map[string]bool, error) { return nil, errors.New("unreadable") }); err == nil {
		t.Error("an error is lost")
	}
	for range 2 {
		for i, id := range []layerID{{path: "a"}, {path: "b"}, {path: "a", ino: 1}} {
			if got, err := l.of(id, look); err != nil || !got[fmt.Sprint(i+1)] {
				t.Errorf("%v: %v, %v", id, got, err)
			}
		}
	}
	for i := range 3 * maxLinkedLayers {
		if _, err := l.of(layerID{path: fmt.Sprint(i)}, look); err != nil || len(l.names) > maxLinkedLayers {
			t.Fatalf("%d layers are remembered, %v", len(l.names), err)
		}
	}
}

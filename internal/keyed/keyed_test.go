package keyed

import (
	"context"
	"errors"
	"testing"
)

// TestUnlockedNamesTakeNoMemory: a name is forgotten when its last user has left, also one that gave up.
func TestUnlockedNamesTakeNoMemory(t *testing.T) {
	t.Parallel()
	var k Locks
	unlock, err := k.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up got %v", err)
	}
	if len(k.names) != 1 {
		t.Errorf("the names are %v while one is locked", k.names)
	}
	unlock()
	if len(k.names) != 0 {
		t.Errorf("the names are %v", k.names)
	}
}

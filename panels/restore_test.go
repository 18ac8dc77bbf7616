package panels

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
	"github.com/ctxfs/ctxfs/metadata/metadatatest"
)

// TestOpenWaitsForNoOtherPanel holds one panel's binding in the database, and opens another panel meanwhile.
func TestOpenWaitsForNoOtherPanel(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.stop()
	var first atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	h.store = metadata.Wrap(h.store, func(ctx context.Context, call string, f func(context.Context) error) error {
		if call == "Panels.Bind" && first.CompareAndSwap(false, true) {
			close(held)
			<-release
		}
		return f(ctx)
	})
	h.start()
	opened := make(chan error, 1)
	go func() {
		_, err := h.Open(context.Background(), OpenRequest{PanelID: "held"}, nil)
		opened <- err
	}()
	<-held
	h.open("other")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Close(ctx, "held"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left waited for the panel, and got %v", err)
	}
	close(release)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// TestTokensOutliveTheDatabase: the tokens that were issued or used are known without it, however many others there are.
func TestTokensOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.stop()
	db := metadatatest.NewFaulty(memory.New())
	h.store = db
	h.start()
	issued := h.open("p")
	db.Set(metadatatest.Fault{Err: metadata.ErrUnavailable})
	h.admitted(issued)
	if _, err := h.Authenticate(t.Context(), "unknown"); !errors.Is(err, metadata.ErrUnavailable) {
		t.Errorf("a token that is not known got %v", err)
	}
	if _, err := h.Close(t.Context(), "p"); !errors.Is(err, metadata.ErrUnavailable) {
		t.Errorf("the panel was closed without the database: %v", err)
	}
	if _, err := h.Authenticate(t.Context(), issued.Token.Secret); !errors.Is(err, metadata.ErrUnavailable) {
		t.Errorf("a token that may have been revoked got %v", err)
	}
	db.Set(metadatatest.Fault{})
	h.admitted(issued)
}

// TestRestoreRevokesAgain: a token that was revoked, and came back with the database, does not; the panel's later one stays.
func TestRestoreRevokesAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.open("untouched")
	old := h.open("p")
	before, err := h.store.Tokens().List(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Second)
	if _, err := h.Close(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Second)
	later := h.open("p")
	if err := h.store.Tokens().Add(ctx, before[0], h.now); err != nil {
		t.Fatal(err)
	}
	r, err := h.Restore(ctx, true)
	if err != nil || r != (Restored{Revoked: 1}) {
		t.Errorf("restored %+v, %v", r, err)
	}
	h.refused(old)
	h.admitted(later)
	left, err := h.store.Tokens().List(ctx, "p")
	if err != nil || len(left) != 1 {
		t.Errorf("the panel has the tokens %v, %v", left, err)
	}
	if r, err = h.Restore(ctx, true); err != nil || r != (Restored{}) {
		t.Errorf("restored %+v again, %v", r, err)
	}
}

// TestRestoreRevokesWhatItCan: a panel whose tokens cannot be revoked does not keep those of others.
func TestRestoreRevokesWhatItCan(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.stop()
	broken, fail := errors.New("broken"), false
	h.store = metadata.Wrap(h.store, func(ctx context.Context, call string, f func(context.Context) error) error {
		if fail && call == "Tokens.DeletePanel" {
			fail = false
			return broken
		}
		return f(ctx)
	})
	h.start()
	ctx := t.Context()
	var back []metadata.Token
	for _, id := range []string{"p", "q"} {
		h.open(id)
		had, err := h.store.Tokens().List(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, had...)
		h.now = h.now.Add(time.Second)
		if _, err := h.Close(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range back {
		if err := h.store.Tokens().Add(ctx, token, h.now); err != nil {
			t.Fatal(err)
		}
	}
	fail = true
	if r, err := h.Restore(ctx, true); !errors.Is(err, ErrNotRevoked) || !errors.Is(err, broken) || r.Revoked != 1 {
		t.Errorf("restored %+v, %v, want one panel's token revoked and an error for the other's", r, err)
	}
	if r, err := h.Restore(ctx, true); err != nil || r != (Restored{Revoked: 1}) {
		t.Errorf("restored %+v again, %v", r, err)
	}
}

// TestRestoreBringsNoRevokedTokenBack: a token that is still in memory when its panel's tokens are revoked.
func TestRestoreBringsNoRevokedTokenBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.open("p")
	rec, err := h.store.Panels().Get(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Second)
	if _, err := h.revoke(ctx, rec); err != nil { // as Close does before it empties the cache
		t.Fatal(err)
	}
	if r, err := h.Restore(ctx, true); err != nil || r != (Restored{}) {
		t.Errorf("restored %+v, %v", r, err)
	}
	if left, err := h.store.Tokens().List(ctx, "p"); err != nil || len(left) > 0 {
		t.Errorf("the panel has the tokens %v, %v", left, err)
	}
}

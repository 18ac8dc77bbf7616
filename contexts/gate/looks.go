package gate

import (
	"context"
	"fmt"
	"sync"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/fserr"
)

// Looks are the calls that hold the lock of a context, or its gate, only to look at its content. They end when another
// caller asks for the context alone. The zero Looks has none.
type Looks struct {
	mu    sync.Mutex
	at    map[catalog.ID]map[*look]bool
	asked map[catalog.ID]int
}

// look is a call that looks.
type look struct{ cancel context.CancelCauseFunc }

// Begin returns a context that ends when a caller asks for the context alone; its cause is then an EBUSY that says so. The
// caller must call end, which returns that error instead of what follows from it.
func (l *Looks) Begin(ctx context.Context, id catalog.ID) (_ context.Context, end func(err error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	k := &look{cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked[id] > 0 {
		cancel(Wanted(id))
	}
	if l.at == nil {
		l.at = map[catalog.ID]map[*look]bool{}
	}
	if l.at[id] == nil {
		l.at[id] = map[*look]bool{}
	}
	l.at[id][k] = true
	return ctx, func(err error) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.at[id], k)
		if len(l.at[id]) == 0 {
			delete(l.at, id)
		}
		if err != nil && fserr.CodeOf(context.Cause(ctx)) == fserr.EBUSY {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return err
	}
}

// Ask ends those who look at a context. Until done is called no other may begin.
func (l *Looks) Ask(id catalog.ID) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked = map[catalog.ID]int{}
	}
	l.asked[id]++
	for k := range l.at[id] {
		k.cancel(Wanted(id))
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asked[id]--; l.asked[id] == 0 {
			delete(l.asked, id)
		}
	}
}

// Wanted (EBUSY) ends a look at a context.
func Wanted(id catalog.ID) error {
	return &fserr.Error{
		Code: fserr.EBUSY, Kind: fserr.KindContext, Detail: fmt.Sprintf("context '%s' is about to be replaced or deleted", id), Hint: "retry later",
	}
}

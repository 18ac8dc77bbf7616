// Package keyed has locks by name, within this process. Callers hold them over disk and network, so no name ever waits for another.
package keyed

import (
	"context"
	"sync"
)

// Locks is a set of locks by name; the zero value is ready for use. A name that is not locked takes no memory.
type Locks struct {
	mu    sync.Mutex
	names map[string]*lock
}

// lock has a turn for one of its users: callers that hold it or wait for it.
type lock struct {
	users int
	turn  chan struct{}
}

// Lock takes the lock of a name. It fails with the error of ctx if that ends first.
func (k *Locks) Lock(ctx context.Context, name string) (unlock func(), err error) {
	k.mu.Lock()
	l := k.names[name]
	if l == nil {
		if k.names == nil {
			k.names = map[string]*lock{}
		}
		l = &lock{turn: make(chan struct{}, 1)}
		k.names[name] = l
	}
	l.users++
	k.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return func() {
			<-l.turn
			k.left(name, l)
		}, nil
	case <-ctx.Done():
		k.left(name, l)
		return nil, ctx.Err()
	}
}

func (k *Locks) left(name string, l *lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.users--
	if l.users == 0 {
		delete(k.names, name)
	}
}

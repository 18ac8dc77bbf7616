package panels

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// DefaultGrace is how long a client instance may be away before its handles close.
const DefaultGrace = 30 * time.Second

// MaxInstance bounds the name of a client instance, in bytes.
const MaxInstance = 64

// CheckInstance refuses a client instance's name that is not 1 to 64 of [A-Za-z0-9._-]: EINVAL.
func CheckInstance(name string) error {
	var problem string
	switch {
	case name == "":
		problem = "it is empty"
	case len(name) > MaxInstance:
		problem = fmt.Sprintf("it has %d bytes, the limit is %d", len(name), MaxInstance)
	case strings.IndexFunc(name, notInInstance) >= 0:
		problem = "it has other characters than A-Z a-z 0-9 . _ -"
	default:
		return nil
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: "bad client_instance: " + problem, Hint: "take a random name, such as a UUID"}
}

func notInInstance(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
}

// Leases knows which client instances are there. An instance is there while it has a
// stream (a session or a hold), and for a grace after its last one has ended: a client
// that lost its connection comes back by its name. It is safe for concurrent use.
type Leases struct {
	grace time.Duration
	ended func(owner, instance string)

	mu     sync.Mutex
	leases map[leaseKey]*lease
	closed bool
	// ending are the calls of ended.
	ending sync.WaitGroup
}

type leaseKey struct{ owner, instance string }

type lease struct {
	streams int
	// absence numbers the times that the instance was away.
	absence int
	// away fires when the instance did not come back; nil while it is there.
	away *time.Timer
}

// NewLeases returns an empty table. ended is called, in a goroutine of its own, after an
// instance of an owner was away for the grace; it must not be nil.
func NewLeases(grace time.Duration, ended func(owner, instance string)) *Leases {
	return &Leases{grace: grace, ended: ended, leases: map[leaseKey]*lease{}}
}

// Grace is how long an instance may be away.
func (l *Leases) Grace() time.Duration { return l.grace }

// Hold counts a stream of an instance. resumed reports whether the lease existed already.
// The caller must call release, once, when the stream has ended and nothing that it began runs on.
func (l *Leases) Hold(owner, instance string) (release func(), resumed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := leaseKey{owner, instance}
	le, resumed := l.leases[key]
	if !resumed {
		le = &lease{}
		l.leases[key] = le
	}
	if le.away != nil {
		le.away.Stop()
		le.away = nil
	}
	le.streams++
	return func() { l.release(key, le) }, resumed
}

// release counts a stream's end; the last one starts the grace.
func (l *Leases) release(key leaseKey, le *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le.streams--
	if le.streams > 0 || l.leases[key] != le || l.closed {
		return
	}
	le.absence++
	absence := le.absence
	le.away = time.AfterFunc(l.grace, func() { l.expire(key, le, absence) })
}

// expire ends a lease, unless the instance came back while the timer fired.
func (l *Leases) expire(key leaseKey, le *lease, absence int) {
	l.mu.Lock()
	if l.closed || l.leases[key] != le || le.away == nil || le.absence != absence {
		l.mu.Unlock()
		return
	}
	delete(l.leases, key)
	l.ending.Add(1)
	l.mu.Unlock()
	defer l.ending.Done()
	l.ended(key.owner, key.instance)
}

// Held reports whether an instance is there, or may still come back.
func (l *Leases) Held(owner, instance string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[leaseKey{owner, instance}] != nil
}

// Owners returns the owners of instances that are there, or may still come back.
func (l *Leases) Owners() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	owners := map[string]bool{}
	for key := range l.leases {
		owners[key.owner] = true
	}
	return owners
}

// Drop forgets an owner's instances without a call of ended: all its handles close anyway.
func (l *Leases) Drop(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, le := range l.leases {
		if key.owner == owner {
			le.stop()
			delete(l.leases, key)
		}
	}
}

func (le *lease) stop() {
	if le.away != nil {
		le.away.Stop()
		le.away = nil
	}
}

// Count returns the number of instances that are there or may still come back.
func (l *Leases) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}

// Close ends all waiting, and returns when no call of ended runs.
func (l *Leases) Close() {
	l.mu.Lock()
	l.closed = true
	for _, le := range l.leases {
		le.stop()
	}
	l.mu.Unlock()
	l.ending.Wait()
}

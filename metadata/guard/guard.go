// Package guard keeps a database of another process from holding up its users. It wraps a metadata.Store: each call ends after a bounded
// time, and while the database is away calls fail at once. The guard asks the database until it answers again, repairs what it lost, and
// then lets calls through.
//
// The guard must never change what a call does, or repeat one: whether a call that got no answer had an effect is not known.
package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
)

// Defaults of Config.
const (
	// Limit is 5 s: no caller waits longer for an answer.
	Limit = 5 * time.Second
	// RepairLimit is a minute: a repair lists all records, and no caller waits for it.
	RepairLimit = time.Minute
	// CheckLimit bounds a check, and CheckEvery is the time between two checks while the database is away: with both, the guard
	// finds within 3 s that the database is back.
	CheckLimit = 2 * time.Second
	CheckEvery = time.Second
	// Calls is the number of calls that run at a time. The check needs a connection beside them.
	Calls = 7
)

// RetryAfter is how long callers should wait before they try again.
const RetryAfter = time.Second

// Config of New. Store, Check and Name are required.
type Config struct {
	Store metadata.Store
	// Check asks the database whether it serves. It must not wait for the connections that calls of Store use.
	Check func(ctx context.Context) error
	// Name is what the database is called in errors, such as "PostgreSQL". Panels see it, so it has no address and no password.
	Name string
	// Back, if not nil, is called when the database answers again, before any other call is let through. Calls of the Store with
	// its ctx are let through. If it fails the database counts as away, and Back is called again.
	Back func(ctx context.Context) error
	// Changed, if not nil, is called when the database went away, with the reason, and with nil when it is back.
	Changed func(reason error)
	// Limit, RepairLimit, CheckLimit, CheckEvery and Calls have defaults of the same names.
	Limit, RepairLimit, CheckLimit, CheckEvery time.Duration
	Calls                                      int
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.Limit, Limit}, {&c.RepairLimit, RepairLimit}, {&c.CheckLimit, CheckLimit}, {&c.CheckEvery, CheckEvery}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if c.Calls <= 0 {
		c.Calls = Calls
	}
	if c.Back == nil {
		c.Back = func(context.Context) error { return nil }
	}
	if c.Changed == nil {
		c.Changed = func(error) {}
	}
	return c
}

// Store is a metadata.Store whose calls end in bounded time. Close closes the Store that it wraps.
type Store struct {
	metadata.Store
	cfg Config
	// running has an entry for each call that runs.
	running chan struct{}
	// doubt is sent to when a call got no answer, repair when the database must be repaired.
	doubt  chan struct{}
	repair chan error
	stop   context.CancelFunc
	ended  chan struct{}

	mu sync.RWMutex
	// away is why the database is away; nil while it is not.
	away error
	// outages counts how often it went away.
	outages int
}

var _ metadata.Store = (*Store)(nil)

// New returns a guard of a database that answers.
func New(cfg Config) *Store {
	cfg = cfg.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		cfg: cfg, running: make(chan struct{}, cfg.Calls), doubt: make(chan struct{}, 1), repair: make(chan error, 1), stop: stop, ended: make(chan struct{}),
	}
	s.Store = metadata.Wrap(cfg.Store, s.bound)
	go s.watch(ctx)
	return s
}

// Close ends the checks, and closes the wrapped Store.
func (s *Store) Close() error {
	s.stop()
	<-s.ended
	return s.Store.Close()
}

// Away returns why the database is away; nil while it is not.
func (s *Store) Away() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.away
}

// Outages returns how often the database went away.
func (s *Store) Outages() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.outages
}

// Doubt has the database asked whether it answers. It does not wait.
func (s *Store) Doubt() {
	select {
	case s.doubt <- struct{}{}:
	default: // it is asked already
	}
}

// Recover has Config.Back called, and lets no other call through before it has succeeded. It does not wait.
func (s *Store) Recover(reason error) {
	select {
	case s.repair <- reason:
	default: // it is going to be called
	}
}

// passKey marks the contexts of Config.Back.
type passKey struct{}

// bound runs f, a call of the wrapped Store, in bounded time.
func (s *Store) bound(ctx context.Context, _ string, f func(context.Context) error) error {
	pass := ctx.Value(passKey{}) != nil
	if away := s.Away(); away != nil && !pass {
		return s.unavailable(away)
	}
	limit := s.cfg.Limit
	if pass {
		limit = s.cfg.RepairLimit
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !pass {
		select {
		case s.running <- struct{}{}:
			defer func() { <-s.running }()
		case <-bounded.Done():
			return s.judge(ctx, fmt.Errorf("%d other calls wait for it: %w", s.cfg.Calls, bounded.Err()))
		}
	}
	err := f(bounded)
	switch {
	case err == nil, errors.Is(err, metadata.ErrNotFound), errors.Is(err, metadata.ErrConflict):
		return err
	case bounded.Err() != nil, errors.Is(err, metadata.ErrUnavailable):
		return s.judge(ctx, err)
	}
	return err
}

// judge returns the error of a call that got no answer, and has the database asked. If its caller left, that may be the reason.
func (s *Store) judge(ctx context.Context, err error) error {
	s.Doubt()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.unavailable(err)
}

func (s *Store) unavailable(reason error) error {
	if !errors.Is(reason, metadata.ErrUnavailable) {
		reason = fmt.Errorf("%w: %w", metadata.ErrUnavailable, reason)
	}
	return &fserr.Error{
		Code: fserr.EAGAIN, Detail: s.cfg.Name + ", which keeps the records, does not answer",
		Hint:       "retry: open panels are served without it, and the server recovers once it answers",
		RetryAfter: RetryAfter, Err: reason,
	}
}

// watch asks the database after each call that got no answer, and, while it is away, again and again until ctx ends.
func (s *Store) watch(ctx context.Context) {
	defer close(s.ended)
	for {
		var away error
		select {
		case <-s.doubt:
			away = s.check(ctx)
		case away = <-s.repair:
		case <-ctx.Done():
			return
		}
		if away != nil && ctx.Err() == nil {
			s.set(away)
			s.await(ctx)
		}
	}
}

// await returns when the database is back, or ctx ends.
func (s *Store) await(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.CheckEvery)
	defer ticker.Stop()
	for !s.back(ctx) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// back lets calls through again if the database answers and Config.Back has succeeded.
func (s *Store) back(ctx context.Context) bool {
	if s.check(ctx) != nil {
		return false
	}
	select {
	case <-s.repair: // this is it
	default:
	}
	if err := s.cfg.Back(context.WithValue(ctx, passKey{}, true)); err != nil || ctx.Err() != nil {
		return false
	}
	select {
	case <-s.doubt: // of a call from before
	default:
	}
	s.set(nil)
	return true
}

func (s *Store) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CheckLimit)
	defer cancel()
	return s.cfg.Check(ctx)
}

// set records why the database is away, or that it is back.
func (s *Store) set(away error) {
	s.mu.Lock()
	s.away = away
	if away != nil {
		s.outages++
	}
	s.mu.Unlock()
	s.cfg.Changed(away)
}

package metadatatest

import (
	"context"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// Faulty is a Store whose database can be made slow, silent or absent.
type Faulty struct {
	metadata.Store

	mu    sync.Mutex
	fault Fault
	// mended is closed when the present fault ends.
	mended chan struct{}
	calls  int
	// next and when are a fault that begins at a call.
	next Fault
	when func(call string) bool
}

// Fault is what is wrong with the database of a Faulty; the zero Fault is nothing.
type Fault struct {
	// Delay is how much longer each call takes.
	Delay time.Duration
	// Silent holds each call until its context or the fault ends.
	Silent bool
	// Err is what calls fail with; with Late, after they had their effect.
	Err  error
	Late bool
}

// NewFaulty returns store without a fault.
func NewFaulty(store metadata.Store) *Faulty {
	f := &Faulty{mended: make(chan struct{})}
	f.Store = metadata.Wrap(store, f.around)
	return f
}

// Set gives the database another fault.
func (f *Faulty) Set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
	close(f.mended)
	f.mended = make(chan struct{})
}

// After gives the database another fault from the first call on that when selects by name, such as "Contexts.Update".
func (f *Faulty) After(when func(call string) bool, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.when, f.next = when, fault
}

// Calls returns how many calls there were.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Check fails as a call does.
func (f *Faulty) Check(ctx context.Context) error {
	return f.around(ctx, "", func(context.Context) error { return nil })
}

func (f *Faulty) around(ctx context.Context, name string, call func(context.Context) error) error {
	f.mu.Lock()
	if f.when != nil && f.when(name) {
		f.fault, f.when = f.next, nil
	}
	fault, mended := f.fault, f.mended
	f.calls++
	f.mu.Unlock()
	if err := fault.wait(ctx, mended); err != nil {
		return err
	}
	if fault.Err == nil {
		return call(ctx)
	}
	if fault.Late {
		if err := call(ctx); err != nil {
			return err
		}
	}
	return fault.Err
}

func (f Fault) wait(ctx context.Context, mended <-chan struct{}) error {
	var passed <-chan time.Time
	switch {
	case f.Delay > 0:
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		passed, mended = timer.C, nil
	case !f.Silent:
		return nil
	}
	select {
	case <-passed:
	case <-mended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

package server

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/metadata"
)

// seedingObserver is a store that tells of seedings: each one, however many wait
// for it, ends in one record that says ready or failed.
type seedingObserver struct {
	metadata.Store
	seeded func(driver string, took time.Duration, ok bool)
}

// Contexts implements metadata.Store.
func (o *seedingObserver) Contexts() metadata.Contexts {
	return &observedContexts{Contexts: o.Store.Contexts(), seeded: o.seeded}
}

type observedContexts struct {
	metadata.Contexts
	seeded func(driver string, took time.Duration, ok bool)
}

// Update implements metadata.Contexts.
func (o *observedContexts) Update(ctx context.Context, c metadata.Context) error {
	before, getErr := o.Get(ctx, c.ID)
	if err := o.Contexts.Update(ctx, c); err != nil {
		return err
	}
	if getErr != nil || before.State != metadata.ContextSeeding {
		return nil
	}
	switch c.State {
	case metadata.ContextReady:
		o.seeded(c.Driver, c.SeededIn, true)
	case metadata.ContextFailed:
		o.seeded(c.Driver, c.SeededIn, false)
	case metadata.ContextSeeding:
	}
	return nil
}

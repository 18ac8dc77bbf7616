package contexts

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Quota bounds what one context takes by itself, about: in between two measurements what is written counts as
// if it took new space, so that a context is refused a little early rather than late. What other
// programs write is seen when the context is measured. 0 means no bound.
type Quota struct {
	// Bytes is what it takes on disk, Entries how many files, directories and links it has. With a driver
	// that mounts, what the context reads of its layer does not count.
	Bytes, Entries int64
}

// unmeasured is the part of a quota that a context may take before it is measured for the first time since it was
// opened: measuring reads all of its directories, which most contexts are spared.
const unmeasured = 16

// measureShare bounds how much of the time a context at its limit is measured: one part in so many.
const measureShare = 20

// account is what is known of what a context takes.
type account struct {
	quota   Quota
	measure func(ctx context.Context) (diskUsage, error)
	now     func() time.Time
	// bytes and entries are at least what was taken since the account was opened; once measured, at least all.
	bytes, entries atomic.Int64
	// softBytes and softEntries are the sums up to which the context is not measured.
	softBytes, softEntries atomic.Int64

	// turn has room for the caller that measures. It guards notBefore, which is when the context may be measured again.
	turn      chan struct{}
	notBefore time.Time
}

func newAccount(q Quota, now func() time.Time, measure func(ctx context.Context) (diskUsage, error)) *account {
	if q.Bytes <= 0 && q.Entries <= 0 {
		return nil
	}
	a := &account{quota: q, measure: measure, now: now, turn: make(chan struct{}, 1)}
	a.softBytes.Store(q.Bytes / unmeasured)
	a.softEntries.Store(q.Entries / unmeasured)
	return a
}

// charge adds what is about to be written; EDQUOT when it is too much. It may measure the context, or wait for another caller
// that does: no longer than ctx, after which it is EAGAIN.
func (a *account) charge(ctx context.Context, id ID, bytes, entries int64) error {
	// A charge that can never fit is not added at all: with it the sums could overflow (a file may say that it has 8 EiB).
	if !a.within(bytes, entries, a.quota.Bytes, a.quota.Entries) {
		return a.refusal(id, bytes, a.bytes.Load(), a.entries.Load())
	}
	b, e := a.bytes.Add(bytes), a.entries.Add(entries)
	if a.within(b, e, a.softBytes.Load(), a.softEntries.Load()) {
		return nil
	}
	room, err := a.look(ctx, bytes, entries)
	if room {
		return nil
	}
	if err != nil {
		a.bytes.Add(-bytes)
		a.entries.Add(-entries)
		return busy(id, "is being measured")
	}
	return a.refusal(id, bytes, a.bytes.Add(-bytes), a.entries.Add(-entries))
}

// refusal tells what there is too much of, when b and e are there.
func (a *account) refusal(id ID, bytes, b, e int64) error {
	what := fmt.Sprintf("%s of %s", seed.Size(b), seed.Size(a.quota.Bytes))
	if a.within(b, 0, a.quota.Bytes-bytes, 0) {
		what = fmt.Sprintf("%s of %s files and directories", seed.Count(e), seed.Count(a.quota.Entries))
	}
	return &fserr.Error{
		Code: fserr.EDQUOT, Detail: fmt.Sprintf("context '%s' has about %s", id, what),
		Hint: "remove files that are not needed; the operator sets --context-max-bytes and --context-max-entries",
	}
}

func (a *account) within(bytes, entries, maxBytes, maxEntries int64) bool {
	return (a.quota.Bytes <= 0 || bytes <= maxBytes) && (a.quota.Entries <= 0 || entries <= maxEntries)
}

// look measures, if that is due, and reports whether there is room for what was charged but is not written yet. It fails if ctx
// ends first.
func (a *account) look(ctx context.Context, bytes, entries int64) (bool, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	begun := a.now()
	if !begun.Before(a.notBefore) {
		before, beforeEntries := a.bytes.Load(), a.entries.Load()
		use, err := a.measure(ctx)
		if err == nil { // else what is known stands
			// What was added meanwhile counts in any case.
			a.bytes.Add(use.bytes - before + bytes)
			a.entries.Add(use.entries - beforeEntries + entries)
			a.softBytes.Store(a.quota.Bytes)
			a.softEntries.Store(a.quota.Entries)
		}
		a.notBefore = a.now().Add(max(time.Second, measureShare*a.now().Sub(begun)))
	}
	return a.within(a.bytes.Load(), a.entries.Load(), a.quota.Bytes, a.quota.Entries), nil
}

// accountOf opens the account of what a driver keeps of a context in dir. A panel may close a directory to who is not root: what
// that holds cannot be measured, and what was charged then stands.
func (m *Manager) accountOf(d driver.Driver, dir string) *account {
	kernels := ""
	if _, mounts := d.(driver.Mounter); mounts {
		kernels = kernelWork
	}
	return newAccount(m.cfg.Quota, m.cfg.now, func(ctx context.Context) (diskUsage, error) {
		return usage(ctx, dir, func(rel string) error {
			if rel == kernels {
				return nil
			}
			return fserr.EACCES
		})
	})
}

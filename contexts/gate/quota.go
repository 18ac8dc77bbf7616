package gate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
)

// Quota bounds the space that one context takes, about. Between two measurements, written content counts as if it took new space,
// so a context is refused a little early rather than late. A measurement also finds what other programs wrote. 0 means no
// bound.
type Quota struct {
	// Bytes is the space on disk, Entries the number of files, directories and links. With a driver that mounts, the layer
	// does not count. What was frozen of a context (driver.Sharer) counts for each context that shows it.
	Bytes, Entries int64
}

// Usage is what a context takes, as it was last measured, with what was written through the server since.
type Usage struct {
	Bytes, Entries int64
	// Over says that it exceeds the quota.
	Over bool
	// Floor is what the file system had free when the context was measured, less what the context could still take. The file system has
	// less once the context has grown beyond its quota, or others have taken as much. nil if the context was not measured.
	Floor *disk.Space
	// Max is the quota.
	Max Quota
}

// Plus returns what the context takes with more that a measurement does not see.
func (u Usage) Plus(bytes, entries int64) Usage {
	u.Bytes, u.Entries = u.Bytes+bytes, u.Entries+entries
	u.Over = u.Over || u.Max.Bytes > 0 && u.Bytes > u.Max.Bytes || u.Max.Entries > 0 && u.Entries > u.Max.Entries
	if u.Floor != nil {
		u.Floor = &disk.Space{Bytes: u.Floor.Bytes + bytes, Entries: u.Floor.Entries + entries}
	}
	return u
}

// Fits reports whether a file system with so much free space shows that the context cannot have grown beyond its quota since it was measured.
func (u Usage) Fits(free disk.Space) bool {
	return u.Floor != nil && free.Bytes >= u.Floor.Bytes && free.Entries >= u.Floor.Entries
}

// A context has at least slack to take, or a 16th of its quota if that is less, before it counts as Lost: others write, too.
const (
	slack     = 64 << 20
	slackPart = 16
)

// Room returns how much a file system with so much free space may still lose before the context may well have grown beyond its quota: as much as
// the context could still take when it was measured, and a little if that was less. It is math.MaxInt64 for what is not known or has no bound.
func (u Usage) Room(free disk.Space) disk.Space {
	room := disk.Space{Bytes: math.MaxInt64, Entries: math.MaxInt64}
	if u.Floor == nil {
		return room
	}
	if quota := u.Max.Bytes; quota > 0 {
		room.Bytes = free.Bytes - u.Floor.Bytes + max(0, u.Bytes-quota+min(slack, quota/slackPart))
	}
	if quota := u.Max.Entries; quota > 0 && free.Entries > 0 {
		room.Entries = free.Entries - u.Floor.Entries + max(0, u.Entries-quota+quota/slackPart)
	}
	return room
}

// Lost reports whether a file system with so much free space has lost more than Room.
func (u Usage) Lost(free disk.Space) bool {
	room := u.Room(free)
	return room.Bytes < 0 || room.Entries < 0
}

// Usage returns what the context takes. It measures the context if that is due: for a 20th of the time; but also a second after the last
// measurement once the file system has lost as much space as the context could still take; and after a shorter rest if it Lost that. It is
// zero if the context has no quota. It waits at most until ctx ends.
func (a *Access) Usage(ctx context.Context) Usage {
	if a.remote != nil {
		return a.remote.Usage(ctx)
	}
	if a.account == nil {
		return Usage{}
	}
	room, err := a.account.look(ctx, 0, 0, a.account.suspect)
	return a.account.usage(room || err != nil)
}

func (a *account) usage(room bool) Usage {
	return Usage{a.bytes.Load(), a.entries.Load(), !room, a.floor.Load(), a.quota}
}

// Baseline returns what the context takes before its user writes without charges, to compare later results of Usage with. It measures the
// context only if that may show that it exceeds its quota: an earlier user may have written, too, also since the last measurement. It waits at most
// until ctx ends.
func (a *Access) Baseline(ctx context.Context) Usage {
	if a.remote != nil {
		return a.remote.Baseline(ctx)
	}
	if a.account == nil {
		return Usage{}
	}
	if written := a.account.written.Swap(true); !written && a.account.roomy() {
		return a.account.usage(true)
	}
	room, err := a.account.look(ctx, 0, 0, a.account.unsure)
	return a.account.usage(room || err != nil)
}

// HasQuota reports whether the context has a quota.
func (a *Access) HasQuota() bool { return a.account != nil || a.remote != nil && a.remote.HasQuota() }

// unmeasured is the part of a quota, one in so many, that a context may use before it is measured for the first time since it
// was opened. Measuring reads all of its directories; most contexts never need it.
const unmeasured = 16

// measureShare bounds the part of the time, one in so many, in which a context at its limit is measured.
const measureShare = 20

// account counts the space that a context takes.
type account struct {
	quota   Quota
	measure func(ctx context.Context) (disk.Usage, error)
	now     func() time.Time
	// zone is the path of the zone that has the account; "" if the context has.
	zone string
	// bytes and entries are at least the space taken since the account was opened; after a measurement, at least all of it.
	bytes, entries atomic.Int64
	// softBytes and softEntries are the sums up to which the context is not measured.
	softBytes, softEntries atomic.Int64
	// written says that a user may have written without charges.
	written atomic.Bool

	// space returns what the file system of the context has free; nil if that is not known. floor is that of Usage.
	space func() (disk.Space, error)
	floor atomic.Pointer[disk.Space]

	// turn has room for the caller that measures. It guards measured, which is when the last measurement ended, took, which is how long it
	// took, and notBefore, which is when the context may be measured again without a reason.
	turn                chan struct{}
	measured, notBefore time.Time
	took                time.Duration
}

func newAccount(q Quota, now func() time.Time, measure func(ctx context.Context) (disk.Usage, error)) *account {
	if q.Bytes <= 0 && q.Entries <= 0 {
		return nil
	}
	a := &account{quota: q, measure: measure, now: now, turn: make(chan struct{}, 1)}
	a.softBytes.Store(q.Bytes / unmeasured)
	a.softEntries.Store(q.Entries / unmeasured)
	return a
}

// charge adds what is about to be written. It fails with EDQUOT if that is too much. It may measure the context, or wait for
// another caller that does, no longer than ctx; then it fails with EAGAIN.
func (a *account) charge(ctx context.Context, id catalog.ID, bytes, entries int64) error {
	// A charge that can never fit is not added at all: with it the sums could overflow (a file may say that it has 8 EiB).
	// A negative one is a sum that has overflowed.
	if bytes < 0 || entries < 0 || !a.within(bytes, entries, a.quota.Bytes, a.quota.Entries) {
		return a.refusal(id, bytes, a.bytes.Load(), a.entries.Load())
	}
	b, e := a.bytes.Add(bytes), a.entries.Add(entries)
	if a.within(b, e, a.softBytes.Load(), a.softEntries.Load()) {
		return nil
	}
	room, err := a.look(ctx, bytes, entries, never)
	if room {
		return nil
	}
	if err != nil {
		a.bytes.Add(-bytes)
		a.entries.Add(-entries)
		return catalog.Busy(id, "is being measured")
	}
	return a.refusal(id, bytes, a.bytes.Add(-bytes), a.entries.Add(-entries))
}

// refusal is the error of a context that has b bytes and e entries.
func (a *account) refusal(id catalog.ID, bytes, b, e int64) error {
	what := fmt.Sprintf("%s of %s", seed.Size(b), seed.Size(a.quota.Bytes))
	if a.within(b, 0, a.quota.Bytes-bytes, 0) {
		what = fmt.Sprintf("%s of %s files and directories", seed.Count(e), seed.Count(a.quota.Entries))
	}
	if a.zone != "" {
		return &fserr.Error{
			Code: fserr.EDQUOT, Detail: fmt.Sprintf("zone %s has about %s", a.zone, what),
			Hint: "remove files that are not needed ('ctxfs zones clear' empties a zone with commit: never), or let the zone hold more",
		}
	}
	return &fserr.Error{
		Code: fserr.EDQUOT, Detail: fmt.Sprintf("context '%s' has about %s", id, what),
		Hint: "remove files that are not needed; the operator sets --context-max-bytes and --context-max-entries",
	}
}

func (a *account) within(bytes, entries, maxBytes, maxEntries int64) bool {
	return (a.quota.Bytes <= 0 || bytes <= maxBytes) && (a.quota.Entries <= 0 || entries <= maxEntries)
}

// roomy reports whether the context was measured, and fits its quota with what was charged since.
func (a *account) roomy() bool {
	return a.softBytes.Load() == a.quota.Bytes && a.softEntries.Load() == a.quota.Entries && a.fits()
}

// fits reports whether the context fits its quota, as it was last measured, with what was charged since.
func (a *account) fits() bool {
	return a.within(a.bytes.Load(), a.entries.Load(), a.quota.Bytes, a.quota.Entries)
}

// never is for look: the caller can wait until a measurement is due.
func never(time.Time) bool { return false }

// suspect reports whether the context is measured again before that is due: it may have grown beyond its quota since it was measured, as the
// free space of the file system shows.
func (a *account) suspect(at time.Time) bool {
	if a.space == nil || at.Before(a.measured.Add(Rest(a.took))) {
		return false
	}
	free, err := a.space()
	use := a.usage(true)
	return err == nil && (use.Lost(free) || !at.Before(a.measured.Add(maxRest)) && !use.Fits(free))
}

// unsure reports whether the context exceeded its quota when it was last measured, or may have grown beyond it since, however short a time ago.
func (a *account) unsure(time.Time) bool {
	if !a.fits() || a.space == nil {
		return !a.fits()
	}
	free, err := a.space()
	return err == nil && !a.usage(true).Fits(free)
}

// Bounds of Rest.
const (
	minRest = 100 * time.Millisecond
	maxRest = time.Second
)

// Rest is for how long a context is not measured after a measurement that took so long, although the file system Lost much: measuring it takes
// half of the time, or less.
func Rest(took time.Duration) time.Duration { return min(max(took, minRest), maxRest) }

// look measures, if that is due or suspect returns true for the time, and reports whether there is room for bytes and entries that were charged
// and are not written yet. It fails if ctx ends first.
func (a *account) look(ctx context.Context, bytes, entries int64, suspect func(time.Time) bool) (bool, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	begun := a.now()
	if !begun.Before(a.notBefore) || suspect(begun) {
		before, beforeEntries := a.bytes.Load(), a.entries.Load()
		floor := a.headroom() // before it is measured: what is written meanwhile may be missed
		use, err := a.measure(ctx)
		if err == nil { // otherwise the sums stay
			// Charges that came meanwhile count in full.
			a.bytes.Add(use.Bytes - before + bytes)
			a.entries.Add(use.Entries - beforeEntries + entries)
			a.softBytes.Store(a.quota.Bytes)
			a.softEntries.Store(a.quota.Entries)
			a.floor.Store(floor(use))
		}
		a.measured = a.now()
		a.took = a.measured.Sub(begun)
		a.notBefore = a.measured.Add(max(time.Second, measureShare*a.took))
	}
	return a.fits(), nil
}

// headroom looks at what the file system has free, and returns what computes the floor from a measurement. The floor is nil if the free
// space is not known. A file system that counts no entries (btrfs) is always below the floor of a quota that does.
func (a *account) headroom() func(disk.Usage) *disk.Space {
	unknown := func(disk.Usage) *disk.Space { return nil }
	if a.space == nil {
		return unknown
	}
	free, err := a.space()
	if err != nil {
		return unknown
	}
	return func(use disk.Usage) *disk.Space {
		floor := new(disk.Space)
		if a.quota.Bytes > 0 {
			floor.Bytes = free.Bytes - a.quota.Bytes + use.Bytes
		}
		if a.quota.Entries > 0 {
			floor.Entries = free.Entries - a.quota.Entries + use.Entries
			if free.Entries == 0 {
				floor.Entries = math.MaxInt64
			}
		}
		return floor
	}
}

// kernelWork is a directory that overlayfs keeps for itself in a state. Only root may read it.
const kernelWork = "work/work"

// accountOf opens the account of a directory in which a driver keeps a context, and of what it shares with its copies. What this server has
// open of the context's folder counts too when it has no name. If a panel closes a directory to this server, the context cannot be measured,
// and the charges stand.
func accountOf(q Quota, now func() time.Time, drivers catalog.Drivers, d driver.Driver, dir, folder string) *account {
	kernels := ""
	if _, mounts := d.(driver.Mounter); mounts {
		kernels = kernelWork
	}
	closed := func(rel string) error {
		if rel == kernels {
			return nil
		}
		return fserr.EACCES
	}
	a := newAccount(q, now, func(ctx context.Context) (sum disk.Usage, err error) {
		parts, err := drivers.Parts(d, dir)
		for _, dir := range append(parts, dir) {
			use, e := disk.Measure(ctx, dir, closed)
			sum, err = sum.Plus(use), errors.Join(err, e)
		}
		return sum.Plus(disk.Open(folder).Usage()), err
	})
	if a != nil {
		a.space = func() (disk.Space, error) { return disk.Left(dir) }
	}
	return a
}

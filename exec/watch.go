package exec

import (
	"context"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
)

// How often a command is measured, and how often if its output or its CPU time is limited.
const (
	watchEvery = time.Second
	watchOften = 200 * time.Millisecond
)

const (
	// measureTime is the default of Processes.measureTime.
	measureTime = 100 * time.Millisecond
	// unknownTimes is how many of them a command runs on, while the free space of the file system does not show how much it may have written.
	unknownTimes = 20
	// holdTime is how long a command has to stop without its programs noticing, while its context is measured.
	holdTime = 2 * time.Second
)

// watch measures a command until ctx ends. over receives the first limit that the command exceeds. It has room for each that may be.
func (p *Process) watch(ctx context.Context, over chan<- Reason) {
	l, every := p.cmd.Limits, watchEvery
	switch {
	case l.OutputBytes > 0 || l.CPU > 0 && !p.shared():
		every = watchOften
	case p.shared() || !p.box.limitsMemory():
		return // the kernel enforces all limits, and an idle command costs nothing
	}
	each(ctx, every, func() bool {
		why := p.exceeded()
		if why != 0 {
			over <- why
		}
		return why == 0
	})
}

// The gauge looks at the free space of the file system every so many ticks: it measures the context after lookTicks, if that is due, and before
// as soon as the file system has lost what the context could take. While the context can take much it looks less often: a command writes no
// more than bytesOfTick, or entriesOfTick, in one tick.
const (
	quotaTick     = 100 * time.Millisecond
	lookTicks     = int64(watchEvery / quotaTick)
	bytesOfTick   = 256 << 20
	entriesOfTick = 20_000
)

// gauge measures the context of a process.
type gauge struct {
	*Process
	access *contexts.Access
	// known is what the context took when it was last measured, with what its commands kept.
	known contexts.Usage
	// since counts the ticks since the context was last measured for the time that passed. rest is for how many ticks it is not measured then for
	// what the file system has lost.
	since, rest int64
	// kept is what they kept when that was last looked at, looks how often it was not looked at since.
	kept  kept
	looks int
	// hidden is in how many looks that followed each other something was hidden.
	hidden int
	// shown is what the context took when nothing was hidden last, and free what the file system had free then.
	shown, free int64
	// guessed says that known exceeds the quota only with what is hidden.
	guessed bool
}

// watchQuota measures the context until ctx ends, as watch does. It pauses the command only until waiting ends.
func (p *Process) watchQuota(ctx, waiting context.Context, access *contexts.Access, over chan<- Reason) {
	if !access.HasQuota() {
		return
	}
	g := gauge{Process: p, access: access, known: p.before, looks: lookEvery, shown: p.before.Bytes, free: p.free}
	for {
		ticks := g.wait()
		select {
		case <-time.After(time.Duration(ticks) * quotaTick):
		case <-ctx.Done():
			return
		}
		due, lost := g.after(ticks)
		if !due && !lost {
			continue
		}
		begun := time.Now()
		resume := g.measure(ctx, waiting, due)
		if grown(p.before, g.known) {
			p.guessed = g.guessed
			over <- QuotaExceeded
			resume()
			return
		}
		resume()
		g.rest = int64(contexts.MeasureRest(time.Since(begun)) / quotaTick)
	}
}

// wait returns after how many ticks to look at the free space again.
func (g *gauge) wait() int64 {
	ticks := lookTicks - g.since
	if free, ok := freeIn(g.access); ok {
		room := g.known.Room(free)
		ticks = min(ticks, max(g.rest, min(room.Bytes/bytesOfTick, room.Entries/entriesOfTick)))
	}
	return max(1, ticks)
}

// after counts ticks. due reports whether the context is measured for the time that passed, lost whether for what the file system has lost.
func (g *gauge) after(ticks int64) (due, lost bool) {
	g.since, g.rest = g.since+ticks, 0
	if due = g.since >= lookTicks; due {
		g.since = 0
	}
	free, ok := freeIn(g.access)
	return due, ok && g.known.Lost(free)
}

// each calls f at intervals until it returns false or ctx ends.
func each(ctx context.Context, every time.Duration, f func() bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if !f() {
			return
		}
	}
}

// measure measures the context. If that takes longer than measureTime, it pauses the command as soon as the file system has lost what the
// context could take; after unknownTimes as long, also if its free space does not show that the context fits its quota. A command writes no more
// than it can in that time, however busy the machine is. The command continues when resume is called, or when waiting ends.
func (g *gauge) measure(ctx, waiting context.Context, due bool) (resume func()) {
	waiting, resumed := context.WithCancel(waiting)
	measured := make(chan struct{})
	known, times := g.known, 0
	var holder sync.WaitGroup
	holder.Go(func() {
		each(waiting, g.table.measureTime, func() bool {
			select {
			case <-measured:
				return false
			default:
			}
			times++
			free, ok := freeIn(g.access)
			lost, fits := ok && known.Lost(free), ok && known.Fits(free)
			if fits || !lost && times < unknownTimes {
				return true
			}
			g.hold(waiting)
			return false
		})
	})
	g.look(ctx, due)
	close(measured)
	return func() {
		resumed()
		holder.Wait()
	}
}

// freeIn returns what the file system of a context has free.
func freeIn(access *contexts.Access) (free contexts.Space, ok bool) {
	st, err := access.Root.Statfs("/")
	return contexts.SpaceOf(st), err == nil
}

// lookEvery is how often, one in so many times, the gauge looks at what commands keep although the file system has lost little.
const lookEvery = 8

// hiddenLooks is in how many looks something must be hidden before it counts. Programs that pass descriptors to each other have some that wait
// in a socket for moments, and what others write meanwhile must not count as theirs. What a cgroup counts as written (io.stat, memory.stat) does
// not bound what is hidden: space that a command allocates without writing (fallocate) is in neither.
const hiddenLooks = 3

// look measures the context, and adds what the commands keep. It looks at that when the file system has lost as much as the context could take.
// What is hidden takes as much as the file system has lost, and the context does not show, since nothing was hidden last. Looks that are not due
// do not count as looks in which something was hidden.
func (g *gauge) look(ctx context.Context, due bool) {
	now := g.access.Usage(ctx)
	free, ok := freeIn(g.access)
	looks, since := !due || g.looks >= lookEvery || !ok || !g.known.Fits(free), quotaTick
	if due {
		g.looks++
		since = watchEvery
	}
	if looks = looks && !grown(g.before, now); looks {
		begun := time.Now()
		g.looks, g.kept = 0, g.table.keptIn(ctx, g.cmd.Context, since)
		switch {
		case !g.kept.hidden:
			g.hidden = 0
		case due:
			g.hidden++
		}
		if time.Since(begun) >= g.table.measureTime { // now is of before that, and the commands have written since
			now = g.access.Usage(ctx)
			free, ok = freeIn(g.access)
			g.looks = lookEvery // look the next time, too: neither shows a file that lost its name meanwhile
		}
	}
	if g.kept.hidden {
		g.looks = lookEvery // the next time, too
	}
	now = now.Plus(g.kept.Bytes, g.kept.Entries)
	fits := !grown(g.before, now)
	switch {
	case !ok:
	case g.kept.hidden && g.hidden < hiddenLooks:
	case g.kept.hidden:
		now = now.Plus(max(0, g.free-free.Bytes-(now.Bytes-g.shown)), 0)
	case looks:
		g.shown, g.free = now.Bytes, free.Bytes
	}
	g.known, g.guessed = now, fits && grown(g.before, now)
}

// hold keeps the command paused until ctx ends. If it does not stop within holdTime, its programs may notice the pause.
func (p *Process) hold(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	resume, err := p.Pause(within)
	if err != nil && ctx.Err() == nil {
		resume, err = p.pausedBy(ctx, p.box.halt)
	}
	if ctx.Err() == nil {
		p.table.logged("a command could not be paused while its context is measured", err)
	}
	if err != nil {
		return
	}
	defer resume()
	<-ctx.Done()
}

// exceeded returns the limit of its own that the process exceeds, 0 for none.
func (p *Process) exceeded() Reason {
	l := p.cmd.Limits
	switch {
	case l.OutputBytes > 0 && p.Written(Stdout)+p.Written(Stderr) > l.OutputBytes:
		return OutputExceeded
	case p.shared():
	case l.CPU > 0 && p.box.cpuTime() >= l.CPU:
		return CPUExceeded
	case p.box.outOfMemory():
		return OutOfMemory
	}
	return 0
}

// grown reports whether a context exceeds its quota, and takes more than when the command began: a command may be the one that removes
// files of a context which exceeds it.
func grown(first, now contexts.Usage) bool {
	return now.Over && (!first.Over || now.Bytes > first.Bytes || now.Entries > first.Entries)
}

// kept is what the running commands of a context keep of files that have no name any more.
type kept struct {
	// at is when that was looked at, and took for how long.
	at   time.Time
	took time.Duration
	contexts.DiskUsage
	// hidden says that there may be more, which cannot be measured.
	hidden bool
}

// keeper looks at what the commands of one context keep. Commands of other contexts do not wait for it.
type keeper struct {
	// turn has room for the caller that looks. It guards last.
	turn chan struct{}
	last kept
}

func newKeeper() *keeper { return &keeper{turn: make(chan struct{}, 1)} }

// mostLooks bounds how many descriptors and threads of a context are looked at each time. Beyond that something may be hidden: the commands of
// another context get their part of the CPUs.
const mostLooks = 1 << 15

// survey looks at the sandboxes of one context. It ends with ctx.
type survey struct {
	ctx   context.Context //nolint:containedctx // a survey is one call
	found contexts.Nameless
	// left is how many looks are left.
	left int
	// unseen has the inode numbers of mapped files that the kernel does not show.
	unseen map[uint64]bool
	// hidden is that of kept.
	hidden bool
}

func newSurvey(ctx context.Context) *survey {
	return &survey{ctx: ctx, found: contexts.Nameless{}, left: mostLooks, unseen: map[uint64]bool{}}
}

// kept returns what was found. A mapped file that a process has open, too, was found.
func (s *survey) kept(begun time.Time) kept {
	return kept{time.Now(), time.Since(begun), s.found.Usage(), s.hidden || !s.found.HasAll(s.unseen)}
}

// more counts a look, and reports whether the survey goes on.
func (s *survey) more() bool {
	if s.left == 0 {
		s.hidden = true
		return false
	}
	s.left--
	return s.ctx.Err() == nil
}

// keptIn looks at what the commands of a context keep, if that was last looked at before so much time. It waits for another caller that looks,
// but not longer than ctx. It looks for half of the time, or less.
func (t *Processes) keptIn(ctx context.Context, id contexts.ID, since time.Duration) kept {
	k := t.keeper(id)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return kept{}
	}
	begun := time.Now()
	if begun.Before(k.last.at.Add(max(since, contexts.MeasureRest(k.last.took)))) {
		return k.last
	}
	s := newSurvey(ctx)
	for b := range t.boxesOf(id) {
		t.keep(b, s)
	}
	now := s.kept(begun)
	if ctx.Err() == nil { // otherwise it has not seen all
		k.last = now
	}
	return now
}

// keeper returns that of a context that has commands.
func (t *Processes) keeper(id contexts.ID) *keeper {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keepers[id]
	if k == nil {
		k = newKeeper()
		t.keepers[id] = k
	}
	return k
}

// boxesOf returns the sandboxes in which commands of a context run.
func (t *Processes) boxesOf(id contexts.ID) map[*box]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	boxes := map[*box]bool{}
	for _, p := range t.byID {
		if p.cmd.Context == id && p.box != nil && p.Ended() == nil {
			boxes[p.box] = true
		}
	}
	return boxes
}

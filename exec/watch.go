package exec

import (
	"context"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/disk"
)

// How often a command is measured, and how often if its output or its CPU time is limited.
const (
	watchEvery = time.Second
	watchOften = 200 * time.Millisecond
)

const (
	// measureTime is the default of Processes.measureTime.
	measureTime = 2 * time.Second
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

// watchQuota measures the context until ctx ends, as watch does. It pauses the command only until waiting ends.
func (p *Process) watchQuota(ctx, waiting context.Context, access *contexts.Access, over chan<- Reason) {
	if !access.HasQuota() {
		return
	}
	known := p.before
	each(ctx, watchEvery, func() bool {
		now, resume := p.measure(ctx, waiting, access, known)
		defer resume()
		if grown(p.before, now) {
			over <- QuotaExceeded
			return false
		}
		known = now
		return true
	})
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

// measure returns what the context takes. If that takes longer than measureTime, it pauses the command as soon as the free space of the file
// system does not show that the context fits its quota: a command writes no more than it can in that time, however busy the machine is. known
// is what the context took before. The command continues when resume is called, or when waiting ends.
func (p *Process) measure(ctx, waiting context.Context, access *contexts.Access, known contexts.Usage) (now contexts.Usage, resume func()) {
	waiting, resumed := context.WithCancel(waiting)
	measured := make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		each(waiting, p.table.measureTime, func() bool {
			select {
			case <-measured:
				return false
			default:
			}
			st, err := access.Root.Statfs("/")
			if err == nil && known.Fits(disk.SpaceOf(st)) {
				return true
			}
			p.hold(waiting)
			return false
		})
	})
	now = access.Usage(ctx)
	close(measured)
	return now, func() {
		resumed()
		holder.Wait()
	}
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

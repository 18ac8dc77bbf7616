package exec

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
)

// How often a command is measured, and how often if its output or its CPU time is limited.
const (
	watchEvery = time.Second
	watchOften = 200 * time.Millisecond
)

// watch measures a command until ctx ends. over receives the first limit that the command exceeds.
func (p *Process) watch(ctx context.Context, access *contexts.Access, over chan<- Reason) {
	l, every := p.cmd.Limits, watchEvery
	switch {
	case l.OutputBytes > 0 || l.CPU > 0 && !p.shared():
		every = watchOften
	case !access.HasQuota() && (p.shared() || !p.box.limitsMemory()):
		return // the kernel enforces all limits, and an idle command costs nothing
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		why := p.exceeded()
		if why == 0 && grown(p.before, access.Usage(ctx)) {
			why = QuotaExceeded
		}
		if why != 0 {
			over <- why
			return
		}
	}
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

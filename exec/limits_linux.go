package exec

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
)

// step returns what sets the limits before the command runs, in the sandbox: a server has no right to set them from outside, even as
// root, without CAP_SYS_RESOURCE. The niceness leaves the server the first turn.
func (l Limits) step() entry.Step {
	limits := []entry.Limit{
		limit(unix.RLIMIT_CORE, 0),
		limit(unix.RLIMIT_NPROC, int64(cmp.Or(l.Processes, defaultProcesses))),
		limit(unix.RLIMIT_NOFILE, int64(cmp.Or(l.Files, defaultFiles))),
		limit(unix.RLIMIT_FSIZE, cmp.Or(l.FileBytes, defaultFileBytes)),
	}
	if l.CPU > 0 {
		limits = append(limits, limit(unix.RLIMIT_CPU, int64(l.CPU/time.Second)+1))
	}
	return entry.Step{Limits: limits, Nice: 5}
}

// limit is at most what this process may have itself.
func limit(resource int, value int64) entry.Limit {
	var own unix.Rlimit
	if err := unix.Getrlimit(resource, &own); err == nil && own.Max < uint64(value) {
		return entry.Limit{Resource: resource, Value: own.Max}
	}
	return entry.Limit{Resource: resource, Value: uint64(value)}
}

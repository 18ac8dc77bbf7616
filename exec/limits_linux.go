package exec

import (
	"cmp"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/exec/entry"
	limits "github.com/ctxfs/ctxfs/internal/cgroups"
)

// step returns what sets the limits before the command runs, in the sandbox: a server has no right to set them from outside, even as
// root, without CAP_SYS_RESOURCE. The niceness leaves the server the first turn. beside is the number of other sandboxes of the context.
func (l Limits) step(beside int) entry.Step {
	limits := []entry.Limit{
		limit(unix.RLIMIT_CORE, 0),
		limit(unix.RLIMIT_NPROC, int64(cmp.Or(l.Processes, defaultProcesses))),
		limit(unix.RLIMIT_NOFILE, int64(cmp.Or(l.Files, defaultFiles))),
		limit(unix.RLIMIT_FSIZE, cmp.Or(l.FileBytes, defaultFileBytes)),
		part(unix.RLIMIT_SIGPENDING, beside), part(unix.RLIMIT_MSGQUEUE, 0), // an eighth of the latter is one queue of the default size
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

// sandboxPart is the part of what the kernel gives to a user that one sandbox gets, where the kernel counts that for each user namespace and
// for the user: all sandboxes and, unless it is root, the server have the same user. A sandbox that begins beside one other of its context gets a half
// of that, beside two a third. The 32 sandboxes of a context have most if each began beside all earlier ones: half of what the user has, since
// 1 + 1/2 + ... + 1/32 is 4.
const sandboxPart = 8

// part is that part of what this process may have.
func part(resource, beside int) entry.Limit {
	var own unix.Rlimit
	if err := unix.Getrlimit(resource, &own); err != nil || own.Max == unix.RLIM_INFINITY {
		return limit(resource, math.MaxInt32)
	}
	return entry.Limit{Resource: resource, Value: own.Max / sandboxPart / uint64(beside+1)}
}

// processesPart is the part of the machine's processes and threads that a sandbox gets which begins alone. Beside others it gets less, as sandboxPart
// says: the 32 sandboxes of a context have a quarter of the machine's. Each has leastProcesses, without which programs such as Node do not run.
const (
	processesPart  = 16
	leastProcesses = 64
)

// processesFor bounds the processes of a sandbox that begins beside some others of its context.
func (t *Processes) processesFor(beside int) int {
	total := t.cgroups.processesAbove()
	for _, file := range []string{"pid_max", "threads-max"} {
		total = min(total, limits.Lowest("/proc/sys/kernel", "", file))
	}
	return max(int(total/processesPart)/(beside+1), leastProcesses)
}

// quotas returns those of a sandbox: its part of what the user has, up to a number, and at least one. Of the other such files, seccomp refuses what
// they bound.
func quotas(beside int) []entry.Quota {
	var list []entry.Quota
	for _, q := range []struct {
		name, total string
		most        int64
	}{
		{"max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances", 128},
		{"max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches", 1 << 16},
	} {
		data, err := os.ReadFile(q.total)
		if err != nil {
			continue // the kernel has no such limit
		}
		if total, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
			list = append(list, entry.Quota{Name: q.name, Value: max(min(total/sandboxPart, q.most)/int64(beside+1), 1)})
		}
	}
	return list
}

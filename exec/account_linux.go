package exec

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killFirst has the kernel end a process before any of the server, where memory is short: it counts as all memory that the cgroup or the machine has.
// With less, a server counts for more than a process whose memory is in files and sockets. A process inherits it. Landlock refuses a
// command to write it; without Landlock, so does the kernel where the server has CAP_SYS_RESOURCE.
func killFirst(pid int) error { return write(fmt.Sprintf("/proc/%d/oom_score_adj", pid), "1000") }

// confine puts a sandbox that waits for its block into cgroups, before it starts the command.
func (b *box) confine(groups *cgroups, name string, l Limits) (err error) {
	if b.cgroup, err = groups.make(groupPrefix+strings.TrimPrefix(name, "p-"), l); err != nil {
		return err
	}
	pids := []int{b.cmd.Process.Pid, b.initPID}
	if err := b.cgroup.add(pids...); err != nil {
		return err
	}
	for _, pid := range pids {
		if err := killFirst(pid); err != nil {
			return err
		}
	}
	return nil
}

// unblock lets bwrap start the first step of the command, and waits until bwrap has closed its end. All is mounted then, and process 1 is in the user
// namespace of the command.
func (b *box) unblock(ctx context.Context) error {
	if _, err := b.block.Write([]byte{0}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = b.block.SetReadDeadline(time.Now()) }) // a socket takes deadlines
	_, _ = b.block.Read(make([]byte, 1))                                               // it ends; bwrap never writes
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// letBegin lets the first step become the command.
func (b *box) letBegin() error {
	_, err := b.begun.Write([]byte{0})
	if errors.Is(err, syscall.EPIPE) {
		err = nil // the step has failed, and its exit is reported
	}
	return errors.Join(err, b.begun.Close())
}

// outOfMemory reports whether the kernel has killed a process of the sandbox for its memory limit.
func (b *box) outOfMemory() bool { return b.cgroup.memoryKills() > 0 }

// account notes what a sandbox that has ended used, and removes its cgroups.
func (b *box) account(exit *Exit) error {
	if b.cgroup.v2 != "" {
		exit.CPU = b.cpuTime()
	}
	exit.PeakMemory = b.cgroup.peak()
	return b.cgroup.remove()
}

// limitsMemory reports whether a cgroup limits the memory of the sandbox.
func (b *box) limitsMemory() bool { return b.cgroup.of["memory"] || b.cgroup.v1["memory"] != "" }

// cpuTime is the CPU time of all processes of the sandbox, those included that have ended.
func (b *box) cpuTime() time.Duration {
	if b.cgroup.v2 != "" {
		return time.Duration(b.cgroup.counter(b.cgroup.v2, "cpu.stat", "usage_usec")) * time.Microsecond
	}
	var sum time.Duration
	for queue := []int{b.initPID}; len(queue) > 0; queue = queue[1:] {
		sum += cpuOf(queue[0])
		queue = append(queue, children(queue[0])...)
	}
	return sum
}

// tick is the unit of times in stat files: Linux counts 100 a second on all machines.
const tick = 10 * time.Millisecond

// cpuOf is the CPU time of a process and of its children that have ended, 0 if it has ended.
func cpuOf(pid int) time.Duration {
	fields, _ := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	const userTime, lastTime = 11, 14 // utime, stime, cutime, cstime, as fields behind the name
	if len(fields) <= lastTime {
		return 0
	}
	var sum time.Duration
	for _, f := range fields[userTime : lastTime+1] {
		n, _ := strconv.ParseInt(f, 10, 64) // the kernel's
		sum += time.Duration(n) * tick
	}
	return sum
}

package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pause stops everything in the sandbox, process 1 included: by its cgroup v2, else by signals.
func (b *box) pause(ctx context.Context) (resume func(), err error) {
	if thaw, ok, err := b.cgroup.freeze(ctx); ok {
		return thaw, err
	}
	s := &stopping{processes: map[int]*stopped{}}
	init, err := s.begin(b)
	if init == 0 || err != nil {
		return func() {}, err
	}
	if err := s.stop(ctx, init); err != nil {
		s.resume()
		return nil, err
	}
	return s.resume, nil
}

// begin returns the PID of the sandbox's process 1; 0 if nothing runs.
func (s *stopping) begin(b *box) (init int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.init < 0 {
		return 0, nil
	}
	s.namespace, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", b.initPID))
	if gone := unix.PidfdSendSignal(b.init, 0, nil, 0); gone != nil || threads(b.initPID) == ended {
		return 0, nil //nolint:nilerr // it has ended, and the number may be another's
	}
	return b.initPID, err
}

// stopping stops the processes of a sandbox by SIGSTOP: parents first, so that a shell does not see that its children stop.
type stopping struct {
	// namespace identifies the PID namespace of the sandbox.
	namespace string
	processes map[int]*stopped
	// order has the PIDs, each after its parent's.
	order []int
}

// stopped is a process that was asked to stop.
type stopped struct {
	pid, fd int
	parent  *stopped
	// before says that the process was stopped already, and must stay so.
	before bool
	// nudged is set while a child of a process that waits for it was continued.
	nudged bool
	// ended is set once the process was seen to have ended.
	ended bool
}

// The times of stopping.
const (
	// stopPoll is how often processes that were asked to stop are looked at.
	stopPoll = time.Millisecond
	// nudgeEvery is after how many looks a process that waits for a child is helped.
	nudgeEvery = 10
)

func (s *stopping) stop(ctx context.Context, init int) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for look := 1; ; look++ {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%s did not stop in time", s.running())
		}
		settled, err := s.look(init, look%nudgeEvery == 0)
		if settled || err != nil {
			return err
		}
		timer.Reset(stopPoll)
	}
}

// look stops the processes below init that are not stopped. settled says that all were stopped before their children were listed: there are no
// others then, since a stopped process makes none.
func (s *stopping) look(init int, nudge bool) (settled bool, err error) {
	settled = true
	queue := []*stopped{{pid: init, fd: -1}}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		known := s.processes[at.pid]
		if known == nil {
			settled = false
			if known, err = s.add(at.pid, at.parent); err != nil {
				return false, err
			}
			if known == nil {
				continue
			}
		}
		if known.nudged { // it has had the time since the last look
			known.nudged = false
			settled = false
			if err := known.signal(unix.SIGSTOP); err != nil {
				return false, err
			}
		}
		state := threads(known.pid)
		switch {
		case state == ended && !known.ended: // its children have another parent, which may have been listed before
			known.ended, settled = true, false
		case state == someRun || state == someWait:
			settled = false
		}
		below := children(known.pid)
		for _, child := range below {
			queue = append(queue, &stopped{pid: child, parent: known})
		}
		if nudge && state == someWait {
			if err := s.nudge(below); err != nil {
				return false, err
			}
		}
	}
	return settled, nil
}

// add asks a process to stop. It returns nil if the process has ended, or its number is another's by now.
func (s *stopping) add(pid int, parent *stopped) (*stopped, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The descriptor is of one process. If that is in the namespace, it is one of the sandbox.
	if namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || namespace != s.namespace {
		return nil, unix.Close(fd)
	}
	p := &stopped{pid: pid, fd: fd, parent: parent, before: threads(pid) == allStopped}
	s.processes[pid] = p
	s.order = append(s.order, pid)
	return p, p.signal(unix.SIGSTOP)
}

func (p *stopped) signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return err
}

// nudge continues the children of a process that waits in the kernel. vfork(2) is such a wait: the process stops only after its child has
// executed a program.
func (s *stopping) nudge(children []int) error {
	for _, pid := range children {
		c := s.processes[pid]
		if c == nil || c.before {
			continue
		}
		c.nudged = true
		if err := c.signal(unix.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// resume continues the processes, children first, except those that were stopped before.
func (s *stopping) resume() {
	for _, pid := range slices.Backward(s.order) {
		p := s.processes[pid]
		if !p.before {
			_ = p.signal(unix.SIGCONT) // it is this user's process
		}
		_ = unix.Close(p.fd)
	}
}

// running names a process that has not stopped.
func (s *stopping) running() string {
	for _, pid := range s.order {
		if threads(pid) > allStopped {
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err == nil {
				return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
			}
		}
	}
	return "a process that starts others"
}

// activity says what the threads of a process do.
type activity int

const (
	// ended is of a process that is gone or a zombie.
	ended activity = iota
	allStopped
	someRun
	// someWait says that a thread waits in the kernel, where no signal reaches it.
	someWait
)

// threads looks at the threads of a process.
func threads(pid int) activity {
	found := ended
	for _, dir := range tasks(pid) {
		is := someRun
		switch stateOf(dir + "/stat") {
		case 'T', 't':
			is = allStopped
		case 'Z', 'X', 0:
			is = ended
		case 'D':
			is = someWait
		}
		found = max(found, is)
	}
	return found
}

// tasks returns the directories of a process's threads.
func tasks(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has ended
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = dir + "/" + e.Name()
	}
	return out
}

// stateOf returns the state in a stat file of proc(5), 0 if there is no such thread.
func stateOf(name string) byte {
	if fields := statFields(name); len(fields) > 0 {
		return fields[0][0]
	}
	return 0
}

// statFields returns the fields behind the name in a stat file, which may have spaces and brackets itself; nil if there is no such thread.
func statFields(name string) []string {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// children returns the children of a process.
func children(pid int) []int {
	var out []int
	for _, dir := range tasks(pid) {
		data, err := os.ReadFile(dir + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

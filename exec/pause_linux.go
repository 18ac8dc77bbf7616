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

// pause stops everything in the sandbox, process 1 included, until all callers that paused it have resumed it.
func (b *box) pause(ctx context.Context) (resume func(), err error) {
	if err := b.lockPausing(ctx); err != nil {
		return nil, err
	}
	defer b.pausing.Unlock()
	if b.paused == 0 {
		if b.proceed, err = b.stop(ctx); err != nil {
			return nil, err
		}
	}
	b.paused++
	return b.resume, nil
}

// resume ends one pause.
func (b *box) resume() {
	b.pausing.Lock()
	defer b.pausing.Unlock()
	if b.paused--; b.paused == 0 {
		b.proceed()
	}
}

// lockPausing waits for another caller that stops the sandbox, or halts it.
func (b *box) lockPausing(ctx context.Context) error {
	for !b.pausing.TryLock() {
		select {
		case <-time.After(stopPoll):
		case <-ctx.Done():
			return errors.New("it is being measured")
		}
	}
	return nil
}

// halt is pause for a sandbox that does not stop. It does not wait for processes that wait in the kernel, such as a parent in vfork(2): each
// stops when it returns from there. A parent may see that its child stops. Nobody else can pause the sandbox until resume is called.
func (b *box) halt(ctx context.Context) (resume func(), err error) {
	if err := b.lockPausing(ctx); err != nil {
		return nil, err
	}
	if b.paused > 0 {
		b.paused++
		b.pausing.Unlock()
		return b.resume, nil
	}
	proceed, err := b.haltLocked()
	if err != nil {
		b.pausing.Unlock()
		return nil, err
	}
	return func() {
		proceed()
		b.pausing.Unlock()
	}, nil
}

func (b *box) haltLocked() (proceed func(), err error) {
	if thaw, ok, err := b.cgroup.beginFreeze(); ok {
		return thaw, err
	}
	s := &stopping{processes: map[int]*stopped{}, all: true}
	init, err := s.begin(b)
	if init == 0 || err != nil {
		return func() {}, err
	}
	for known := -1; known < len(s.order); { // a process that is asked to stop makes no others
		known = len(s.order)
		if _, err := s.look(init); err != nil {
			s.resume()
			return nil, err
		}
	}
	return s.resume, nil
}

// stop stops what runs in the sandbox: by its cgroup v2, else by signals.
func (b *box) stop(ctx context.Context) (resume func(), err error) {
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

// stopping stops the processes of a sandbox by SIGSTOP: parents first, so that a shell does not see that its children stop. It keeps no descriptor
// of them: those of the server are for the commands of all contexts.
type stopping struct {
	// namespace identifies the PID namespace of the sandbox.
	namespace string
	processes map[int]*stopped
	// order has the PIDs, each after its parent's.
	order []int
	// all stops processes before their parents have stopped, too.
	all bool
}

// stopped is a process that was asked to stop.
type stopped struct {
	pid int
	// start tells it apart from a later process of that number.
	start string
	// before says that the process was stopped already, and must stay so.
	before bool
	// ended is set once the process was seen to have ended.
	ended bool
}

// stopPoll is how often processes that were asked to stop are looked at.
const stopPoll = time.Millisecond

func (s *stopping) stop(ctx context.Context, init int) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%s did not stop in time", s.runs())
		}
		settled, err := s.look(init)
		if settled || err != nil {
			return err
		}
		timer.Reset(stopPoll)
	}
}

// look stops the processes below init that are not stopped. It stops the children of a process when the process itself has stopped: a parent
// must not see that a child stops, and one that waits in vfork(2) stops only after its child has executed a program. settled says that all were
// stopped before their children were listed: there are no others then, since a stopped process makes none.
func (s *stopping) look(init int) (settled bool, err error) {
	settled = true
	for queue := []int{init}; len(queue) > 0; queue = queue[1:] {
		p := s.processes[queue[0]]
		if p == nil {
			settled = false
			if p, err = s.add(queue[0]); err != nil {
				return false, err
			}
			if p == nil {
				continue
			}
		}
		switch threads(p.pid) {
		case running:
			if settled = false; !s.all {
				continue
			}
		case ended: // its children have another parent, which may have been listed before
			settled = settled && p.ended
			p.ended = true
			continue
		}
		below, err := childrenOf(p.pid)
		if err != nil {
			return false, err
		}
		queue = append(queue, below...)
	}
	return settled, nil
}

// add asks a process to stop. It returns nil if the process has ended, or its number is another's by now.
func (s *stopping) add(pid int) (*stopped, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing is written through it
	// The descriptor is of one process. If that is in the namespace, it is one of the sandbox.
	switch namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); {
	case isUnknown(err):
		return nil, err
	case err != nil || namespace != s.namespace:
		return nil, nil //nolint:nilerr // it has ended
	}
	p := &stopped{pid: pid, start: startOf(pid), before: threads(pid) == allStopped}
	s.processes[pid] = p
	s.order = append(s.order, pid)
	if err := unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
		return nil, err
	}
	return p, nil
}

// resume continues the processes, children first, except those that were stopped before.
func (s *stopping) resume() {
	for _, pid := range slices.Backward(s.order) {
		s.processes[pid].resume()
	}
}

// resume continues the process, also if no descriptor is free to look at it. The signal changes nothing for a process that runs, if the number
// is that of another one by now.
func (p *stopped) resume() {
	if now := startOf(p.pid); p.before || p.start != "" && now != "" && now != p.start {
		return
	}
	_ = unix.Kill(p.pid, unix.SIGCONT) // it is this user's process, or has ended
}

// startOf is when a process began, in the unit of the kernel; "" if that cannot be read.
func startOf(pid int) string {
	const start = 19 // as a field behind the name
	if fields, _ := statFields(fmt.Sprintf("/proc/%d/stat", pid)); len(fields) > start {
		return fields[start]
	}
	return ""
}

// runs names a process that has not stopped.
func (s *stopping) runs() string {
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
	// running is also of a process that waits in the kernel where no signal reaches it, and of one that /proc does not
	// show.
	running
)

// isUnknown reports whether an error of a file in /proc says nothing about the process: no descriptor or no memory was
// left. Other errors say that the process or thread has ended, or that it is not for this user to look at.
func isUnknown(err error) bool {
	known := errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrPermission)
	return err != nil && !known
}

// threads looks at the threads of a process.
func threads(pid int) activity {
	dirs, err := tasks(pid)
	if isUnknown(err) {
		return running
	}
	found := ended
	for _, dir := range dirs {
		found = max(found, activityOf(dir+"/stat"))
	}
	return found
}

// activityOf reads the stat file of a thread (proc(5)).
func activityOf(stat string) activity {
	fields, err := statFields(stat)
	switch {
	case isUnknown(err):
		return running
	case len(fields) == 0:
		return ended
	}
	switch fields[0][0] {
	case 'T', 't':
		return allStopped
	case 'Z', 'X':
		return ended
	}
	return running
}

// tasks returns the directories of a process's threads.
func tasks(pid int) ([]string, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = dir + "/" + e.Name()
	}
	return out, nil
}

// statFields returns the fields behind the name in a stat file, which may have spaces and brackets itself.
func statFields(name string) ([]string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])), nil
}

// children returns the children of a process, as far as /proc shows them.
func children(pid int) []int {
	out, _ := childrenOf(pid)
	return out
}

// childrenOf returns the children of a process. It fails if there may be others.
func childrenOf(pid int) (out []int, err error) {
	dirs, err := tasks(pid)
	if err != nil && !isUnknown(err) {
		err = nil // it has ended
	}
	for _, dir := range dirs {
		data, unread := os.ReadFile(dir + "/children")
		if isUnknown(unread) {
			err = unread
		}
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out, err
}

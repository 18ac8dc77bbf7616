package exec

import (
	"sync"
	"time"
)

// callers counts the callers that are connected to a process.
type callers struct {
	mu    sync.Mutex
	count int
	over  bool
	// first ends the process if no caller connects; nil if the process waits for none.
	first *time.Timer
}

// expect calls abandon unless a caller connects in time, or the process ends.
func (c *callers) expect(wait time.Duration, abandon func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 && !c.over {
		c.first = time.AfterFunc(wait, abandon)
	}
}

// stopExpecting is called with c.mu held.
func (c *callers) stopExpecting() {
	if c.first != nil {
		c.first.Stop()
		c.first = nil
	}
}

func (c *callers) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.stopExpecting()
}

// Connect notes that a caller is connected to the process. The caller calls leave once: with detached if the process is to continue without
// it. If the last caller leaves otherwise, a process with KillAlone is killed.
func (p *Process) Connect() (leave func(detached bool)) {
	c := &p.callers
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.stopExpecting()
	return func(detached bool) {
		c.mu.Lock()
		c.count--
		alone := c.count == 0 && !c.over
		c.mu.Unlock()
		if alone && !detached && p.cmd.KillAlone {
			p.abandon()
		}
	}
}

// abandon ends a process that its callers have left. It does not wait for the end.
func (p *Process) abandon() {
	select {
	case p.kills <- kill{abandonGrace, true}:
	default: // another kill is under way
	}
}

const (
	// breakTime is the default of Processes.breakTime.
	breakTime = time.Second
	// abandonGrace is the time between SIGTERM and SIGKILL when the callers have left.
	abandonGrace = 5 * time.Second
)

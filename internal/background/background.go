// Package background runs work that nobody else is to notice: on a few threads of low priority, from which the system
// takes a processor for any thread that becomes ready elsewhere.
//
// The priority alone would not do. A thread that runs Go code holds one of the runtime's processors (GOMAXPROCS), also
// while the system runs another thread instead; and while all of them are held, nobody looks for packets that have come,
// for up to 10 ms. So there are as many more processors while the threads are there.
package background

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// linger is how long threads outlive the last one who joined: whoever searches once often searches again.
const linger = time.Second

// Pool runs tasks, in the order in which they came, on threads that are there while somebody has joined. Where a
// thread can have no priority of its own (all but Linux) they have the usual one.
type Pool struct {
	size   int
	linger time.Duration
	tasks  chan func()

	mu sync.Mutex
	// joined counts those who have; stop is nil while there are no threads.
	joined  int
	stop    chan struct{}
	timer   *time.Timer
	threads sync.WaitGroup
}

// New returns a Pool of size threads, none of which is there yet.
func New(size int) *Pool {
	// As many may wait as run, so that a thread that has done its task finds the next.
	return &Pool{size: size, linger: linger, tasks: make(chan func(), size)}
}

// Join starts the threads if they are not there, and keeps them until leave. All tasks must have ended before.
func (p *Pool) Join() (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined++
	if p.stop == nil {
		p.start()
	}
	return p.leave
}

// Do hands a task to the threads of someone who has joined. It waits while they have enough to do; then the error is ctx's.
func (p *Pool) Do(ctx context.Context, task func()) error {
	select {
	case p.tasks <- task:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the threads and waits for them. Everybody must have left.
func (p *Pool) Close() {
	p.end()
	p.threads.Wait()
}

func (p *Pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.joined--; p.joined > 0 {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(p.linger, p.end)
}

// start is called with p.mu held.
func (p *Pool) start() {
	addProcessors(p.size)
	stop := make(chan struct{})
	p.stop = stop
	for range p.size {
		p.threads.Go(func() { p.run(stop) })
	}
}

// end ends the threads unless somebody has joined.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.joined > 0 || p.stop == nil {
		return
	}
	close(p.stop)
	p.stop = nil
	addProcessors(-p.size)
}

// run is one thread. It never unlocks it: a thread may not raise its priority again, and ends with its goroutine.
func (p *Pool) run(stop <-chan struct{}) {
	runtime.LockOSThread()
	lowerPriority()
	for {
		select {
		case task := <-p.tasks:
			task()
		case <-stop:
			return
		}
	}
}

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

const (
	// linger is how long threads outlive the last one who joined: whoever searches once often searches again.
	linger = time.Second
	// patience is how long a task waits for a thread.
	patience = 250 * time.Millisecond
)

// Pool runs tasks on threads that are there while somebody has joined. Where a thread can have no priority of its own (all
// but Linux) they have the usual one.
type Pool struct {
	size int
	// apart says that the threads have processors of the runtime, and a priority, of their own.
	apart            bool
	linger, patience time.Duration
	tasks            chan func()

	mu sync.Mutex
	// joined counts those who have; stop is nil while there are no threads.
	joined  int
	stop    chan struct{}
	timer   *time.Timer
	threads sync.WaitGroup
}

// New returns a Pool of as many threads as the runtime has processors, but at least least and at most most. None is there yet.
//
// A runtime that has fewer processors than the machine was told so, by a container's limit or by GOMAXPROCS. It gets no
// more: a container's time would be used up by the threads that have low priority, and all of them stopped. There, all
// processors but one are for the Pool, at the usual priority.
func New(least, most int) *Pool {
	own := ownProcessors()
	if own < runtime.NumCPU() {
		return newPool(max(1, min(own-1, most)), false)
	}
	return newPool(max(least, min(own, most)), true)
}

func newPool(size int, apart bool) *Pool {
	return &Pool{size: size, apart: apart, linger: linger, patience: patience, tasks: make(chan func())}
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

// Do has a thread of someone who has joined begin a task. When none was free for a while, because of tasks that take
// long or hang in the system, it does the task itself, so that nobody waits for those of others. Its error is ctx's.
func (p *Pool) Do(ctx context.Context, task func()) error {
	select {
	case p.tasks <- task:
		return nil
	default:
	}
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case p.tasks <- task:
		return nil
	case <-timer.C:
		task()
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
	if p.apart {
		addProcessors(p.size)
	}
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
	if p.apart {
		addProcessors(-p.size)
	}
}

// run is one thread. It never gives it back: a thread may not raise its priority again, and ends with its goroutine.
func (p *Pool) run(stop <-chan struct{}) {
	if p.apart {
		runtime.LockOSThread()
		lowerPriority()
	}
	for {
		select {
		case task := <-p.tasks:
			task()
		case <-stop:
			return
		}
	}
}

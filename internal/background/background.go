// Package background runs work that should not slow down other work. It uses a few threads of low priority: the system
// takes their processors for any other thread that becomes ready.
//
// Low priority alone is not enough. A thread that runs Go code holds one of the runtime's processors (GOMAXPROCS), even
// while the system runs another thread instead. While all processors are held, the runtime does not poll the network for
// up to 10 ms. So the package raises GOMAXPROCS by the number of threads while they exist.
package background

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// linger is how long the threads stay after the last caller left: a client that searches once often searches again.
	linger = time.Second
	// patience is how long a task waits for a thread.
	patience = 250 * time.Millisecond
)

// Pool runs tasks on threads that exist while at least one caller has joined. Except on Linux, where a thread can have a
// priority of its own, the threads have normal priority.
type Pool struct {
	size int
	// apart says that the threads have processors of the runtime, and a priority, of their own.
	apart            bool
	linger, patience time.Duration
	tasks            chan func()

	mu sync.Mutex
	// joined counts the callers that have joined. stop is nil while there are no threads.
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

// Do passes a task to a thread of the pool. If no thread becomes free for a while, because other tasks take long or hang
// in a system call, Do runs the task itself, so that a caller never waits long for the tasks of others. Callers join first.
// Do fails only with ctx's error.
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

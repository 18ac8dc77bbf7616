// Package codectest has a buffer pool for tests of whatever sends or receives content.
package codectest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
)

// Poison is what a buffer is full of once it came back.
const Poison = 0xDB

// patience is how long Settled waits.
const patience = 20 * time.Second

// Pool is a mem.BufferPool that spoils what it gets back, and knows what it has not: a
// use after a Free shows as Poison and, under -race, as a race; a missing Free in
// Settled. Buffers that gRPC never gives back, of 1 KiB and less, do not count.
type Pool struct {
	mu   sync.Mutex
	out  map[*byte]struct{}
	made int
	idle chan struct{} // closed while nothing is out
}

var _ mem.BufferPool = (*Pool)(nil)

// NewPool returns a Pool with nothing out.
func NewPool() *Pool {
	p := &Pool{out: map[*byte]struct{}{}, idle: make(chan struct{})}
	close(p.idle)
	return p
}

// Get returns a new buffer.
func (p *Pool) Get(length int) *[]byte {
	b := make([]byte, length)
	if mem.IsBelowBufferPoolingThreshold(length) {
		return &b
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out) == 0 {
		p.idle = make(chan struct{})
	}
	p.made++
	p.out[&b[0]] = struct{}{}
	return &b
}

// Put spoils a buffer. It panics when it did not come from Get, or came back before.
func (p *Pool) Put(b *[]byte) {
	if mem.IsBelowBufferPoolingThreshold(cap(*b)) {
		return
	}
	whole := (*b)[:cap(*b)]
	copy(whole, bytes.Repeat([]byte{Poison}, len(whole)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.out[&whole[0]]; !ok {
		panic("a buffer came back that was not out")
	}
	delete(p.out, &whole[0])
	if len(p.out) == 0 {
		close(p.idle)
	}
}

// Settled waits until everything is back, and fails the test when that does not happen.
func (p *Pool) Settled(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(patience):
		t.Fatalf("%d buffers are still out", p.Outstanding())
	}
}

// Outstanding is how many buffers are out.
func (p *Pool) Outstanding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.out)
}

// Made is how many buffers were ever given.
func (p *Pool) Made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

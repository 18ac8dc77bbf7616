package codec

import (
	"slices"
	"sync"

	"google.golang.org/grpc/mem"
)

// poolSizes are the sizes kept, in bytes: those of HTTP/2's frames, those of content, and those of the files that a search reads.
var poolSizes = []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 3 << 19, 2 << 20, 3 << 20, 4 << 20}

// Pool keeps buffers of 1 KiB, below which gRPC never gives one back, to 4 MiB for
// further use. Unlike gRPC's own it does not
// zero them, which for content costs as much as a copy of it: what Get returns may hold
// another file's bytes, and whoever fills it must cut it to what was filled.
type Pool struct{ tiers []sync.Pool }

var _ mem.BufferPool = (*Pool)(nil)

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{tiers: make([]sync.Pool, len(poolSizes))} }

// Get returns a buffer of that length. Its bytes are arbitrary.
func (p *Pool) Get(length int) *[]byte {
	i, _ := slices.BinarySearch(poolSizes, length)
	if i == len(poolSizes) || mem.IsBelowBufferPoolingThreshold(length) {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.tiers[i].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, poolSizes[i])
	return &b
}

// Put takes a buffer back that Get returned, whatever its length is now.
func (p *Pool) Put(b *[]byte) {
	if i, ok := slices.BinarySearch(poolSizes, cap(*b)); ok {
		p.tiers[i].Put(b)
	}
}

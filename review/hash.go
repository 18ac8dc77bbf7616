package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/ctxfs/ctxfs/internal/sparse"
)

// A content is named by its SHA-256, unless it has a block of zeros beyond plainUpTo. To hash all zeros of a sparse file
// of 1 TiB would take many minutes. The name of such a content is the SHA-512/256 of the offset and length of each run of
// zero blocks, and of the SHA-256 of the rest. Whether a block is a hole of a file does not matter, only whether all of
// its bytes are zero. No content has a SHA-256 that somebody could make equal to a SHA-512/256.
const (
	// plainUpTo is the offset up to which zeros are hashed too, in bytes. It is a multiple of zeroBlock.
	plainUpTo = 64 << 20
	// zeroBlock is the size of a block in bytes, that of most file systems. The work is in proportion to what a file occupies.
	zeroBlock = 4 << 10
)

var zeros [zeroBlock]byte

// hasher names a content.
type hasher struct {
	// plain is plainUpTo, except in tests.
	plain int64
	rest  hash.Hash
	// at is how many bytes it got. The last of them are in part, until that is a block.
	at   int64
	part []byte
	// runs is nil until the first run of zero blocks has ended. run is the last one, which may go on.
	runs hash.Hash
	run  struct{ start, length int64 }
}

func newHasher() *hasher { return &hasher{plain: plainUpTo, rest: sha256.New()} }

// Write implements sparse.Sink.
func (h *hasher) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		var took int
		switch left := h.plain - h.at; {
		case left > 0:
			took = int(min(left, int64(len(b))))
			h.feed(b[:took])
		case len(h.part) > 0 || len(b) < zeroBlock:
			took = min(zeroBlock-len(h.part), len(b))
			h.part = append(h.part, b[:took]...)
			h.at += int64(took)
			if len(h.part) == zeroBlock {
				part := h.part
				h.part, h.at = h.part[:0], h.at-zeroBlock
				h.blocks(part)
			}
		default:
			took = len(b) - len(b)%zeroBlock
			h.blocks(b[:took])
		}
		b = b[took:]
	}
	return n, nil
}

// blocks takes whole blocks.
func (h *hasher) blocks(b []byte) {
	for len(b) > 0 {
		if bytes.Equal(b[:zeroBlock], zeros[:]) {
			h.skip(zeroBlock)
			b = b[zeroBlock:]
			continue
		}
		n := zeroBlock
		for n < len(b) && !bytes.Equal(b[n:n+zeroBlock], zeros[:]) {
			n += zeroBlock
		}
		h.feed(b[:n])
		b = b[n:]
	}
}

// Hole implements sparse.Sink.
func (h *hasher) Hole(n int64) error {
	for n > 0 {
		if h.at >= h.plain && len(h.part) == 0 && n >= zeroBlock {
			skipped := n - n%zeroBlock
			h.skip(skipped)
			n -= skipped
			continue
		}
		few := min(n, int64(zeroBlock-len(h.part)))
		_, _ = h.Write(zeros[:few]) // it does not fail
		n -= few
	}
	return nil
}

func (h *hasher) feed(b []byte) {
	h.endRun()
	h.rest.Write(b)
	h.at += int64(len(b))
}

func (h *hasher) skip(n int64) {
	if h.run.length == 0 {
		h.run.start = h.at
	}
	h.run.length += n
	h.at += n
}

func (h *hasher) endRun() {
	if h.run.length == 0 {
		return
	}
	if h.runs == nil {
		h.runs = sha512.New512_256()
	}
	_, _ = fmt.Fprintf(h.runs, "%016x %016x\n", h.run.start, h.run.length) // a hash does not fail
	h.run.length = 0
}

// name returns the hash in hex.
func (h *hasher) name() string {
	h.endRun()
	h.rest.Write(h.part)
	sum := h.rest.Sum(nil)
	if h.runs != nil {
		h.runs.Write(sum)
		sum = h.runs.Sum(nil)
	}
	return hex.EncodeToString(sum)
}

// hashOf reads r to its end. It ends with the cause of ctx when ctx ends.
func hashOf(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
	return hashFrom(ctx, nil, r)
}

// hashFrom is hashOf for a content whose first bytes were read already.
func hashFrom(ctx context.Context, read []byte, r io.Reader) (hash string, size int64, err error) {
	h := newHasher()
	_, _ = h.Write(read) // it does not fail
	size, err = sparse.Copy(ctx, h, r)
	return h.name(), int64(len(read)) + size, err
}

func hashOfText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// patchwork is a content: letters are blocks of that letter, and a dot is a block of zeros. It begins with so many zeros.
func patchwork(plain int, blocks string, rest int) []byte {
	data := make([]byte, plain, plain+len(blocks)*zeroBlock+rest)
	for _, b := range []byte(blocks) {
		if b == '.' {
			b = 0
		}
		data = append(data, bytes.Repeat([]byte{b}, zeroBlock)...)
	}
	return append(data, make([]byte, rest)...)
}

func hashIn(t *testing.T, r io.Reader) string {
	t.Helper()
	hash, _, err := hashOf(t.Context(), r)
	must(t, err)
	return hash
}

func TestHashIsPlainWithoutZeroBlocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data  []byte
		plain bool
	}{
		"empty": {nil, true}, "text": {[]byte("text"), true}, "zeros up to the limit": {patchwork(plainUpTo, "", 0), true}, "a part of a block of zeros": {patchwork(plainUpTo, "", zeroBlock-1), true},
		"a block of zeros": {patchwork(plainUpTo, ".", 0), false}, "data": {patchwork(plainUpTo, "abc", 17), true}, "zeros between data": {patchwork(plainUpTo, "a.b", 0), false}, "zeros at the end": {patchwork(plainUpTo, "ab.", 5), false},
	} {
		sum := sha256.Sum256(c.data)
		if got := hashIn(t, bytes.NewReader(c.data)); (got == hex.EncodeToString(sum[:])) != c.plain {
			t.Errorf("%s: the hash is %s, plain is %x", name, got, sum)
		}
	}
}

func TestHashNamesTheContentAlone(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	for _, blocks := range []string{"", ".", "..", "a", "a.", ".a", "a..", ".a.", "..a", "a.a", "aa", "a.b", "ab", "ab.", "b.a", "a..b"} {
		for _, rest := range []int{0, 1, 9} {
			const plain = 2 * zeroBlock
			data := patchwork(plain, blocks, rest)
			name := blocks + strings.Repeat("0", rest)
			whole := &hasher{plain: plain, rest: sha256.New()}
			_, _ = whole.Write(data)
			hash := whole.name()
			if other, taken := of[hash]; taken {
				t.Errorf("%q and %q have one hash", name, other)
			}
			of[hash] = name
			// However it is read, and wherever it has holes.
			h := &hasher{plain: plain, rest: sha256.New()}
			for at := 0; at < len(data); {
				n := min(len(data)-at, 1+rand.IntN(3*zeroBlock))
				if zero := len(bytes.Trim(data[at:at+n], "\x00")) == 0; zero && rand.IntN(2) == 0 {
					must(t, h.Hole(int64(n)))
				} else {
					_, err := h.Write(data[at : at+n])
					must(t, err)
				}
				at += n
			}
			if got := h.name(); got != hash {
				t.Errorf("%q in pieces has the hash %s, not %s", name, got, hash)
			}
		}
	}
}

func TestHashingEndsWithItsCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	endless := iotest.DataErrReader(io.LimitReader(readerFunc(func(b []byte) (int, error) {
		if read += len(b); read > 1<<20 {
			cancel()
		}
		return len(b), nil
	}), 1<<40))
	if _, _, err := hashOf(ctx, endless); !errors.Is(err, context.Canceled) || read > 2<<20 {
		t.Errorf("after %d bytes: %v", read, err)
	}
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

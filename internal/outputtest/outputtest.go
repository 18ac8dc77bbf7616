// Package outputtest has output of commands for tests that compare what a reader gets.
package outputtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
)

// Ahead is how far a command that waits for its reader is ahead of it at least, in bytes. It is no more than 64 KiB further ahead, and as
// much as connections hold.
const Ahead = 4<<20 - 64<<10

// Numbers returns a script for sh that writes so many bytes to standard output: the numbers from 1 on, a line each. sum is their SHA-256.
func Numbers(size int64) (script, sum string) {
	h, left := sha256.New(), size
	var line []byte
	for i := int64(1); left > 0; i++ {
		line = append(strconv.AppendInt(line[:0], i, 10), '\n')
		line = line[:min(int64(len(line)), left)]
		left -= int64(len(line))
		h.Write(line)
	}
	return fmt.Sprintf("seq 1 99999999999 | head -c %d", size), Sum(h)
}

// Sum returns a hash as Numbers does.
func Sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

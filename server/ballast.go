package server

import "runtime"

// ballastSize is how much a server allocates between two garbage collections at least, in bytes.
const ballastSize = 64 << 20

// Ballast makes garbage collections rarer in a process that holds little, until release: with a live heap of 5 MiB there would be
// hundreds in a second of heavy load, and callers notice each. The memory that it takes is never touched, so that the system
// gives none for it.
func Ballast() (release func()) {
	ballast := make([]byte, ballastSize)
	return func() { runtime.KeepAlive(ballast) }
}

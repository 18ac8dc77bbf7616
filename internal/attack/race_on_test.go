//go:build race

package attack

// turns is how many worlds share the calls of a row while there is no time for all: each
// call is tried by one of them. The race detector makes a call five times as dear.
const turns = 4

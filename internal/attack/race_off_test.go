//go:build !race

package attack

// turns is how many worlds share the calls of a row while there is no time for all: those
// of both drivers, so that each implementation tries everything.
const turns = 2

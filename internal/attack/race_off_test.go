//go:build !race

package attack

import "time"

// turns is how many worlds share the calls of a row while there is no time for all: those
// of both drivers, so that each implementation tries everything.
const turns = 2

// slow is how long another context may need to answer while one is attacked.
const slow = time.Second

//go:build race

package attack

import "time"

// turns is how many worlds share the calls of a row while there is no time for all: each
// call is tried by one of them. The race detector makes a call five times as dear.
const turns = 4

// slow is how long another context may need to answer while one is attacked. Under the race
// detector, with other packages' tests on the same processors, a second is noise.
const slow = 5 * time.Second

package attack

import (
	"os"
	"time"
)

const (
	// quick is the time of a race when nothing is said.
	quick = time.Second / 3
	// turns is how many worlds share the calls of a row while there is no time for all: those of both drivers, so that each
	// implementation tries everything.
	turns = 2
)

// attackTime is how long each race takes, over all configurations together.
func attackTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("ATTACKTIME")); err == nil && d > 0 {
		return d
	}
	return quick
}

// slow is how long another context may need to answer while one is attacked. In the quick run the tests of other packages share the
// processors, so that a second is noise.
func slow() time.Duration {
	if attackTime() == quick {
		return 5 * time.Second
	}
	return time.Second
}

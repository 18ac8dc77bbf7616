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

// patience bounds a wait that only a fault makes long: of a call, and until a server has released what it held for one.
const patience = time.Minute

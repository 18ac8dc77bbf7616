package attack

import (
	"os"
	"time"
)

// quick is the time of a race when nothing is said.
const quick = time.Second / 3

// attackTime is how long each race takes, over all configurations together.
func attackTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("ATTACKTIME")); err == nil && d > 0 {
		return d
	}
	return quick
}

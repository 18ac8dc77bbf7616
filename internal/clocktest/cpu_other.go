//go:build !linux

package clocktest

import "time"

// ProcessorTime returns 0.
func ProcessorTime() time.Duration { return 0 }

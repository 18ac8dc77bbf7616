//go:build !linux

package fairness

import "errors"

// Hostile needs Linux.
func Hostile(string) error { return errors.New("commands run on Linux only") }

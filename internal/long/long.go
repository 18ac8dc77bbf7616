// Package long says how often a test repeats what it does.
package long

import "os"

// Env asks for the long form of the tests, whatever its value.
const Env = "CTXFS_LONG"

// Of returns long if Env is set, and short otherwise.
func Of(short, long int) int {
	if os.Getenv(Env) != "" {
		return long
	}
	return short
}

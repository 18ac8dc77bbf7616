//go:build !linux

package server

// placeOf returns "": a lease of a server that was killed ends after its time.
func placeOf(string) string { return "" }

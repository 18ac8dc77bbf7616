//go:build !linux

// Package overlaytest runs a package's tests again in contexts of the overlay drivers.
package overlaytest

import "testing"

// Driver is "": there are no overlay drivers here.
func Driver() string { return "" }

// Main does nothing here.
func Main() {}

// Dir returns a new directory that fill has filled, if it is not nil.
func Dir(t testing.TB, fill func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if fill != nil {
		fill(dir)
	}
	return dir
}

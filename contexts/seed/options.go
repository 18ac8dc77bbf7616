package seed

import (
	"runtime"
)

// The size guard's defaults.
const (
	DefaultMaxFiles = 100_000
	DefaultMaxBytes = 5 << 30
)

// Selection says which files of a repository are taken.
type Selection string

// The selections.
const (
	// SelectAll takes every file that is not excluded; "" means the same.
	SelectAll Selection = "all"
	// SelectUnignored leaves out what git ignores.
	SelectUnignored Selection = "unignored"
	// SelectTracked takes only what git tracks.
	SelectTracked Selection = "tracked"
)

// Options say what of a workspace is copied.
type Options struct {
	// Exclude are further gitignore patterns, applied at any depth.
	Exclude []string
	// Select is "all" (also ""), "unignored" or "tracked".
	Select Selection
	// Root is a folder, relative to the workspace, that is copied though it is no
	// repository; "." is the workspace itself, "" none.
	Root string
	// Scope says which part of the workspace is copied. Root does not count in a scope with From.
	Scope Scope
	// MaxFiles and MaxBytes are the size guard; 0 means DefaultMaxFiles and DefaultMaxBytes.
	MaxFiles, MaxBytes int64
	// Workers bounds the files copied at once; 0 means one per CPU, at most 8.
	Workers int
}

// WithDefaults returns o with every zero replaced by its default.
func (o Options) WithDefaults() Options {
	if o.Select == "" {
		o.Select = SelectAll
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = DefaultMaxFiles
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Workers <= 0 {
		o.Workers = min(runtime.NumCPU(), 8)
	}
	return o
}

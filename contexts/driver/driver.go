// Package driver says how a context's folder is made from a layer, an immutable
// directory tree. Implementations are packages below (copyfs; overlay later);
// all pass drivertest.
//
// # Life cycle
//
//	Prepare(layer, staging)  ->  the caller renames staging to its final place  ->  Remove
//
// Prepare fills an empty staging directory; nothing refers to it yet, so a crash
// leaves only something to sweep. The rename that publishes it is the caller's.
package driver

import "context"

// Driver makes contexts from layers. It is safe for concurrent use.
type Driver interface {
	// Name is what a context's record keeps: "copy".
	Name() string
	// Prepare fills dst, an empty directory, with the content of src, a layer's
	// tree: types, modes, ns mtimes, link targets and hard links equal. src is not
	// changed. It stops at ctx's end and leaves dst to the caller to remove.
	// progress may be nil; it is called from one goroutine at a time.
	Prepare(ctx context.Context, src, dst string, progress func(Progress)) error
	// Check says whether the driver can work with contexts under dir; an error
	// names what is missing.
	Check(ctx context.Context, dir string) error
}

// Progress counts what Prepare has made so far.
type Progress struct{ Files, Bytes int64 }

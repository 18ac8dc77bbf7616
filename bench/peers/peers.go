// Package peers starts ctxfs and what it is compared with, and speaks to each through its
// own best API. One file per peer. Every server is a process of its own.
//
// A Family is a kind of server; its Peers are ways to talk to it. A peer's Conn implements
// those of the small interfaces below that the peer can do: a cell runs with whoever
// implements what it needs.
package peers

import (
	"context"
	"io"
	"time"
)

// Role says how a peer counts in the comparison.
type Role int

// The roles.
const (
	// Rival is compared with.
	Rival Role = iota
	// Product is ctxfs.
	Product
	// Limit is what cannot be reached: the system itself, or a transport that does nothing.
	Limit
)

// Env is what all families share.
type Env struct {
	// Root is the folder that all serve: the same files, the same disk.
	Root string
	// Scratch is for sockets and settings, and short enough for a socket's path.
	Scratch string
	// Self is this program, Ctxfs the one that is measured, Source the folder of this module.
	Self, Ctxfs, Source string
}

// Family is a kind of server.
type Family interface {
	Name() string
	// Start starts the server. A *MissingError says that it is not installed.
	Start(ctx context.Context, env Env) ([]*Peer, error)
	// Close ends what Start began, also when that failed half-way.
	Close() error
}

// MissingError says that a peer cannot run here.
type MissingError struct{ What string }

// Error names what must be installed.
func (e *MissingError) Error() string { return "missing: " + e.What }

// Peer is one way to talk to a server.
type Peer struct {
	Name string
	// What says in a few words what it is.
	What string
	Role Role
	// PIDs are the server's processes.
	PIDs []int
	// Dial connects for so many operations at a time.
	Dial func(ctx context.Context, concurrency int) (Conn, error)
}

// Conn is a peer's connection or connections. Methods of the interfaces below are called by
// at most as many workers at a time as it was dialled for, numbered from 0. Names are
// relative to the root, with slashes.
type Conn io.Closer

// ManyStater is a peer that asks for many names by one call, as its users would for a status walk.
type ManyStater interface {
	StatAll(names []string) error
}

// Stater describes a file.
type Stater interface {
	Stat(worker int, name string) error
}

// FileReader reads a whole file. The content is valid until the worker's next call.
type FileReader interface {
	ReadFile(worker int, name string) ([]byte, error)
}

// FileWriter writes a whole file, making it when it is missing.
type FileWriter interface {
	WriteFile(worker int, name string, data []byte) error
}

// Remover removes a file.
type Remover interface {
	Remove(worker int, name string) error
}

// Lister lists a directory with attributes: how many entries, and which are directories.
type Lister interface {
	List(worker int, dir string) (n int, dirs []string, err error)
}

// TreeLister lists all that is below a directory by one call.
type TreeLister interface {
	ListTree(dir string) (int, error)
}

// Grepper counts the files that hold a plain string, by a search of its own.
type Grepper interface {
	Grep(dir, text string) (int, error)
}

// StreamReader reads a large file and throws it away.
type StreamReader interface {
	ReadStream(name string) (int64, error)
}

// StreamWriter makes a large file.
type StreamWriter interface {
	WriteStream(name string, size int64) error
}

// dialTime bounds a connection attempt.
const dialTime = 10 * time.Second

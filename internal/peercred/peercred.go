// Package peercred says who is at the other end of a unix socket, as the kernel knows it.
package peercred

// Cred identifies the process at the other end of a unix socket: the one that connected or, for the one that connected, the one
// that listens.
type Cred struct {
	// Known is false where the system reports nothing.
	Known bool
	// UID is as mapped into the user namespace of this process.
	UID uint32
	// PID is 0 where the system does not report it, and for a process of another PID namespace.
	PID int
}

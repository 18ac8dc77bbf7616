// Package namespaces runs this program again in a user namespace and a mount
// namespace of its own, where a user without privileges may mount overlayfs
// (user_namespaces(7), mount_namespaces(7)). Nobody else sees what is mounted there, and it is
// gone when the last process of the namespaces is.
//
// # Identities
//
// The namespace maps one user and one group, the process's own, each to itself: a file is
// whose it was, the peer of a socket has the uid that it has outside, and everybody else,
// root included, is the overflow uid, who is nobody.
//
// # Capabilities
//
// The second process holds the namespace's capabilities, but uses none: Enter lays them aside, so
// that a file is as closed to it as to its user, and programs that it starts get none. WithCapabilities takes
// them up for as long as it takes to mount something. overlayfs remembers who mounted it: what it
// does by itself, such as copying a file up in a directory that is not writable, it does with these.
package namespaces

import "os"

// Marker is set in the environment of the second process, to its parent's PID.
const Marker = "CTXFS_NAMESPACES"

// Inside reports whether this process is the second one. It holds until Enter, which takes the mark away so
// that no program started from here takes itself for one.
func Inside() bool { return os.Getenv(Marker) != "" }

// Package namespaces runs this program again in a user namespace and a mount
// namespace of its own, where a user without privileges may mount overlayfs
// (user_namespaces(7), mount_namespaces(7)). Processes outside do not see these mounts. The
// kernel removes the mounts when the last process of the namespaces ends.
//
// # Identities
//
// The namespace maps one user and one group, the process's own, each to itself. The owner of
// this user's files, and the uid of a socket's peer that runs as this user, are as outside.
// All other users, including root, appear as the overflow uid.
//
// # Capabilities
//
// The second process holds the namespace's capabilities, but does not use them. Enter lays them aside, so
// that file modes bind the process as they bind its user. Programs that it starts get no capabilities.
// WithCapabilities takes them up again while a mount is made. overlayfs stores the credentials of the process that
// mounts it, and uses them for its own work, such as copying up a file in a directory that is not writable.
package namespaces

import "os"

// Marker is set in the environment of the second process, to its parent's PID.
const Marker = "CTXFS_NAMESPACES"

// Inside reports whether this process is the second one. It holds until Enter, which takes the mark away so
// that no program started from here takes itself for one.
func Inside() bool { return os.Getenv(Marker) != "" }

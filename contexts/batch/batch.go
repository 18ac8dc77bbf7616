// Package batch carries out several changes of a context as one: all of them or none, also after a kill.
//
// # How
//
// New plans the steps on a picture of the tree (plan), which changes nothing and finds out most of what can fail. Stage writes every new content
// into a hidden directory of the context, and then the intent into a journal: the list of the actions, each of which is one rename,
// mkdir or chmod that can be undone. Flip makes the actions, one after the other, and then notes in the journal that they are done. What
// they replaced is in the hidden directory until Clean removes it. If an action fails, Flip undoes those before it.
//
// Programs may change files between New and Flip, and during Flip. Flip compares each file on which the plan relies before it acts, and what
// it has replaced or moved again afterwards. If a program changed one it undoes everything, and what the program wrote stays.
//
// A journal that a killed process left is undone, or cleaned if it says done, by Recover. The caller runs Recover before it lets a
// reader into the context.
//
// The package changes names only through tree.Places, which follows no link. The caller ensures that no other caller of the server
// changes the context from New to Clean, and that none reads it during Flip. Programs that change the context's folder by themselves see
// single renames.
package batch

import (
	"errors"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Kind says what a step does.
type Kind int

// The kinds of steps.
const (
	// Write makes Path a file with Data, and follows a final link. A file that exists keeps its mode.
	Write Kind = iota + 1
	// Edit replaces the content of the file at Path by what Edit returns.
	Edit
	// Mkdir makes the directory Path; with Recursive also those above it, and then one that exists is no error.
	Mkdir
	// Remove removes Path; a directory only with Recursive. With Force a missing path is no error.
	Remove
	// Rename moves Path to Dest, and replaces a file, or an empty directory by a directory.
	Rename
	// Copy copies the file at Path to Dest with its mode, and replaces a file. It follows links.
	Copy
	// Symlink makes a link to Target at Path.
	Symlink
	// Chmod sets the permission bits of Path, and follows a final link.
	Chmod
)

// ops are the operations that errors name.
var ops = map[Kind]string{
	Write: "open", Edit: "open", Mkdir: "mkdir", Remove: "rm", Rename: "rename", Copy: "copyfile", Symlink: "symlink", Chmod: "chmod",
}

// Step is one change.
type Step struct {
	Kind       Kind
	Path, Dest string
	// Target of a Symlink.
	Target string
	// Data of a Write.
	Data []byte
	// Mode of what Write and Mkdir make, or of a Chmod: permission bits.
	Mode             uint32
	Recursive, Force bool
	// Exclusive makes a Write or a Copy fail with EEXIST if there is something, a link included.
	Exclusive bool
	// Edit of an Edit returns the new content.
	Edit func(content []byte) ([]byte, error)
	// Conditions must all hold before the first step.
	Conditions []Condition
}

// Condition is checked before anything changes, on the context as it is before the batch.
type Condition struct {
	Path string
	// Follow follows a final link.
	Follow bool
	// Check receives nil if nothing is there.
	Check func(st *rootfs.Stat) error
}

// MaxEdit is the size of the largest file that a step edits, in bytes.
const MaxEdit = 16 << 20

// failed says which step failed.
func failed(index int, s *Step, err error) error {
	var e *fserr.Error
	out := &fserr.Error{Code: fserr.CodeOf(err), Err: err}
	if errors.As(err, &e) {
		*out = *e
	}
	if out.Op == "" {
		out.Op = ops[s.Kind]
	}
	out.Path, out.Dest = s.Path, s.Dest
	if s.Kind == Symlink {
		out.Path, out.Dest = s.Target, s.Path // as Node's symlink names them
	}
	out.Step = index + 1
	return out
}

package review

import (
	"fmt"
	"strings"
)

// Reason says why a review refused something.
type Reason string

// The reasons, as they travel.
const (
	Conflicting   Reason = "CONFLICT"
	StaleRevision Reason = "STALE_REVISION"
	NotApproved   Reason = "NOT_APPROVED"
	BarredPath    Reason = "BARRED_PATH"
	// IsUnresolved is of a path with a recorded conflict.
	IsUnresolved Reason = "UNRESOLVED"
	// RepositoryBusy is of a repository in which a git command is at work.
	RepositoryBusy Reason = "REPOSITORY_BUSY"
	// DirtyCommit says that a commit cannot hold the changes without changes of the user's that are not committed.
	DirtyCommit  Reason = "DIRTY_COMMIT"
	NoRepository Reason = "NO_REPOSITORY"
	// NeedsFilter is of a file that a filter program, such as Git LFS or git-crypt, has to convert before git stores it.
	NeedsFilter Reason = "GIT_FILTER"
	// HookFailed is of a hook that failed, or that changed the content of the commit.
	HookFailed Reason = "HOOK_FAILED"
	// NotApplied is of a context that would be lost with changes that were not applied.
	NotApplied Reason = "NOT_APPLIED"
	// CheckFailed says that a check of the result failed.
	CheckFailed Reason = "CHECK_FAILED"
)

// Error is a refusal: nothing was done.
type Error struct {
	Reason Reason
	// Detail says what, Hint the remedy.
	Detail, Hint string
	// Paths are those that the refusal is about, at most 100.
	Paths []Path
	// Conflicts are set for Conflicting and DirtyCommit.
	Conflicts []Conflict
}

// Error returns the refusal in words.
func (e *Error) Error() string {
	text := string(e.Reason) + ": " + e.Detail
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// maxNamed bounds the paths that an error names.
const maxNamed = 100

func refuse(reason Reason, paths []Path, detail, hint string) *Error {
	return &Error{Reason: reason, Detail: detail + named(paths), Hint: hint, Paths: paths[:min(len(paths), maxNamed)]}
}

// named lists the first few paths for a message.
func named(paths []Path) string {
	const few = 3
	if len(paths) == 0 {
		return ""
	}
	var out []string
	for _, p := range paths[:min(len(paths), few)] {
		out = append(out, string(p))
	}
	text := ": " + strings.Join(out, ", ")
	if len(paths) > few {
		text += fmt.Sprintf(" and %d more", len(paths)-few)
	}
	return text
}

// ConflictKind says why a file could not be merged.
type ConflictKind int

// The kinds of conflict, in the order of the proto's.
const (
	ConflictContent ConflictKind = iota + 1
	ConflictModifyDelete
	ConflictDeleteModify
	ConflictAddAdd
	ConflictBinary
	ConflictType
	ConflictDirectoryInTheWay
	ConflictChangedMeanwhile
)

// Conflict is a file that could not be merged.
type Conflict struct {
	Path Path
	Kind ConflictKind
}

func conflicting(what string, conflicts []Conflict) *Error {
	paths := make([]Path, 0, len(conflicts))
	for _, c := range conflicts {
		paths = append(paths, c.Path)
	}
	e := refuse(Conflicting, paths, what, "")
	e.Conflicts = conflicts
	return e
}

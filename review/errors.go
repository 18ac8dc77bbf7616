package review

import (
	"slices"

	"github.com/ctxfs/ctxfs/fserr"
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
	// LayerMissing is of a context whose layer is gone, so that nothing says what the context changed.
	LayerMissing Reason = "LAYER_MISSING"
	// CheckFailed says that a check of the result failed.
	CheckFailed Reason = "CHECK_FAILED"
)

// Error is a refusal: nothing was done, unless it names files that keep something (leave).
type Error struct {
	Reason Reason
	// Detail says what, Hint the remedy. Detail names none of the paths.
	Detail, Hint string
	// Paths are all that the refusal is about.
	Paths []Path
	// Conflicts are set for Conflicting and DirtyCommit: one for each of Paths.
	Conflicts []Conflict
}

// Error returns the refusal in words, with the first paths.
func (e *Error) Error() string {
	text := string(e.Reason) + ": " + e.Text()
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Text returns the detail and the first paths.
func (e *Error) Text() string {
	var names []string
	for _, p := range e.Paths[:min(len(e.Paths), fserr.FewNames)] {
		names = append(names, string(p))
	}
	return e.Detail + fserr.Names(names, len(e.Paths))
}

func refuse(reason Reason, paths []Path, detail, hint string) *Error {
	return &Error{Reason: reason, Detail: detail, Hint: hint, Paths: paths}
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

// writesHint is the remedy for ConflictChangedMeanwhile.
const writesHint = "a program writes to one of them: try again"

// conflicting refuses for conflicts. It has a hint if one of them passes.
func conflicting(what string, conflicts []Conflict) *Error {
	paths := make([]Path, 0, len(conflicts))
	for _, c := range conflicts {
		paths = append(paths, c.Path)
	}
	e := refuse(Conflicting, paths, what, "")
	e.Conflicts = conflicts
	if slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Kind == ConflictChangedMeanwhile }) {
		e.Hint = writesHint
	}
	return e
}

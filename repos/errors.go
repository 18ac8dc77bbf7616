package repos

import "slices"

// Reason says why something was refused.
type Reason string

// The reasons, as they travel.
const (
	// Conflict: the target, or the ref, changed the same lines.
	Conflict Reason = "GIT_CONFLICT"
	// NonFastForward: the target got other commits.
	NonFastForward Reason = "GIT_NON_FAST_FORWARD"
	// StaleBase: the commit is not the one that was reviewed.
	StaleBase Reason = "GIT_STALE_BASE"
	// WorktreeDirty: the user has changed, or staged, the same files of the branch that is checked out.
	WorktreeDirty Reason = "GIT_WORKTREE_DIRTY"
	// Locked: another git command has a lock. A retry may succeed.
	Locked Reason = "GIT_LOCKED"
	// Auth: the remote refuses the server's credentials, or asks for some.
	Auth Reason = "GIT_AUTH"
	// Rejected: the remote refuses the commit.
	Rejected Reason = "GIT_REJECTED"
	// Unreachable: the remote does not answer. A retry may succeed.
	Unreachable Reason = "GIT_UNREACHABLE"
	// NothingToCommit: no change is selected, or the branch has them all.
	NothingToCommit Reason = "GIT_NOTHING_TO_COMMIT"
	// NoRepository, NoRef and NoStaged: there is none of this name.
	NoRepository Reason = "GIT_NO_REPOSITORY"
	NoRef        Reason = "GIT_NO_REF"
	NoStaged     Reason = "GIT_NO_STAGED"
	// NeedsFilter: a file needs a filter program, such as Git LFS.
	NeedsFilter Reason = "GIT_FILTER"
	// IsSubmodule: the path is, or is in, a submodule.
	IsSubmodule Reason = "GIT_SUBMODULE"
	// TooLarge: more than a call may have.
	TooLarge Reason = "GIT_TOO_LARGE"
)

// Error is a refusal: nothing was done.
type Error struct {
	Reason Reason
	// Operation is the call: "stage", "push", "pull", "diff".
	Operation string
	// Repo is the repository, relative to the workspace; "" for the workspace's own. Ref is the full name of a ref; "" if none is concerned.
	Repo, Ref string
	// Expected and Actual are commits; "" if none are concerned.
	Expected, Actual string
	// Paths are all that the refusal is about, relative to the workspace. Detail names none of them.
	Paths []string
	// MayHaveHappened says that the connection was lost, and that it is not known whether the remote moved its branch.
	MayHaveHappened bool
	// Detail says what, Hint the remedy. Neither names an address with a password.
	Detail, Hint string
	// Err is the cause; nil for none. It may hold server paths, and is only for logs.
	Err error
}

// Error returns the refusal in words.
func (e *Error) Error() string {
	text := string(e.Reason) + ": " + e.Detail
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retry reports whether the same call may succeed later.
func (e *Error) Retry() bool { return slices.Contains([]Reason{Locked, Unreachable}, e.Reason) }

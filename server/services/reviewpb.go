package services

import (
	"errors"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

var decisions = map[review.Decision]ctxfsv1.Decision{
	"": ctxfsv1.Decision_DECISION_UNSPECIFIED, review.Approved: ctxfsv1.Decision_DECISION_APPROVED, review.Rejected: ctxfsv1.Decision_DECISION_REJECTED,
}

func decisionToPB(d review.Decision) ctxfsv1.Decision { return decisions[d] }

func decisionOf(d ctxfsv1.Decision) review.Decision {
	for own, pb := range decisions {
		if pb == d {
			return own
		}
	}
	return ""
}

func changeToPB(l *review.List, c *review.Change) *ctxfsv1.Change {
	whole, hunks := l.Verdict(c)
	out := &ctxfsv1.Change{
		ChangeId: c.ID, Kind: ctxfsv1.ChangeKind(c.Kind), Content: ctxfsv1.ContentKind(c.Content),
		Before: versionToPB(c.Before), After: versionToPB(c.After), Decision: decisionToPB(whole.Decision), Comment: whole.Comment,
		Ignored: c.Ignored, Sensitive: c.Sensitive, Barred: c.Barred, Drifted: c.Drifted, Unresolved: c.Unresolved, Unstable: c.Unstable,
	}
	out.Path, out.RawPath = virtual(c.Path)
	if c.RenamedFrom != "" {
		out.RenamedFrom = "/" + printable(c.RenamedFrom)
	}
	if c.InRepository {
		out.Repository = "/" + printable(c.Repository)
	}
	if c.Text != nil {
		added, removed := c.Text.Lines()
		out.AddedLines, out.RemovedLines, out.Hunks = int32(added), int32(removed), int32(len(c.HunkIDs()))
		out.LineEndingsOnly = c.Text.LineEndingsOnly()
	}
	for _, v := range hunks {
		switch v.Decision {
		case review.Approved:
			out.ApprovedHunks++
		case review.Rejected:
			out.RejectedHunks++
		}
	}
	if c.Tree != nil {
		out.TreeEntries, out.TreeBytes = c.Tree.Entries, c.Tree.Bytes
	}
	return out
}

func virtual(p review.Path) (text string, raw []byte) { return twin("/" + string(p)) }

// twin returns a name as a string of protobuf, or its bytes if it is not UTF-8.
func twin(name string) (text string, raw []byte) {
	if utf8.ValidString(name) {
		return name, nil
	}
	return "", []byte(name)
}

func printable(p review.Path) string { return fserrpb.Printable(string(p)) }

var fileTypes = map[rootfs.Type]ctxfsv1.FileType{
	rootfs.TypeFile: ctxfsv1.FileType_FILE_TYPE_FILE, rootfs.TypeDirectory: ctxfsv1.FileType_FILE_TYPE_DIRECTORY,
	rootfs.TypeSymlink: ctxfsv1.FileType_FILE_TYPE_SYMLINK, rootfs.TypeFIFO: ctxfsv1.FileType_FILE_TYPE_FIFO,
	rootfs.TypeSocket: ctxfsv1.FileType_FILE_TYPE_SOCKET, rootfs.TypeBlockDevice: ctxfsv1.FileType_FILE_TYPE_BLOCK_DEVICE,
}

func versionToPB(v review.Version) *ctxfsv1.FileVersion {
	if !v.Exists() {
		return nil
	}
	return &ctxfsv1.FileVersion{Type: fileTypes[v.Type], Mode: v.Mode, Size: v.Size, Sha256: v.Hash}
}

func summaryToPB(l *review.List) *ctxfsv1.ChangesSummary {
	n := l.Counts()
	out := &ctxfsv1.ChangesSummary{
		Revision: l.Revision, Changes: int32(n.Changes), AddedLines: n.Added, RemovedLines: n.Removed,
		Approved: int32(n.Approved), Rejected: int32(n.Rejected), Unresolved: int32(len(l.Unresolved())),
	}
	for _, o := range l.Others {
		other := &ctxfsv1.OtherContext{ContextId: o.Context, PathCount: int32(o.Count), ListedNs: ns(o.At)}
		for _, p := range o.Paths {
			other.Paths = append(other.Paths, "/"+printable(p))
		}
		out.OtherContexts = append(out.OtherContexts, other)
	}
	out.GoneCount = int32(len(l.Gone))
	for _, g := range l.Gone[:min(len(l.Gone), maxNamed)] {
		pb := &ctxfsv1.GoneDecision{Decision: decisionToPB(g.Decision), Actor: g.Actor, DecidedNs: ns(g.At), Comment: g.Comment, Replaced: g.Replaced}
		pb.Path, pb.RawPath = virtual(g.Path)
		out.Gone = append(out.Gone, pb)
	}
	for _, c := range l.Changes {
		if c.Drifted {
			out.Drifted++
		}
	}
	return out
}

func filesToPB(e *review.Entry) []*ctxfsv1.AppliedFile {
	var out []*ctxfsv1.AppliedFile
	for _, f := range e.Files() {
		out = append(out, fileToPB(f))
	}
	return out
}

func fileToPB(f review.AppliedFile) *ctxfsv1.AppliedFile {
	pb := &ctxfsv1.AppliedFile{Kind: ctxfsv1.AppliedKind(f.Did), Merged: f.Merged, OwnerChanged: f.OwnerLost}
	pb.Path, pb.RawPath = virtual(f.Path)
	return pb
}

// targetOf leaves an unknown target for Apply to refuse.
func targetOf(t ctxfsv1.ApplyTarget) review.Target {
	switch t {
	case ctxfsv1.ApplyTarget_APPLY_TARGET_UNSPECIFIED:
		return review.ToWorkingTree
	case ctxfsv1.ApplyTarget_APPLY_TARGET_COMMIT:
		return review.ToCommit
	case ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH:
		return review.ToBranch
	}
	return review.Target(t.String())
}

// commitOptionsOf refuses hooks to panels: they are programs that run as the server's user.
func commitOptionsOf(caller panels.Identity, o *ctxfsv1.CommitOptions) (out review.CommitOptions, err error) {
	switch hooks := o.GetHooks(); {
	case hooks != ctxfsv1.CommitHooks_COMMIT_HOOKS_UNSPECIFIED && hooks != ctxfsv1.CommitHooks_COMMIT_HOOKS_RUN:
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "unknown treatment of hooks", Hint: "use a value of CommitHooks"}
	case hooks == ctxfsv1.CommitHooks_COMMIT_HOOKS_RUN && (caller.Role != panels.RoleHost || caller.Panel != "" || caller.Console):
		err = &fserr.Error{Code: fserr.EACCES, Detail: "only a host may run the hooks of a repository", Hint: "leave the hooks out, or commit with 'ctxfs apply --commit --hooks'"}
	}
	return review.CommitOptions{
		Message: o.GetMessage(), Author: git.Identity{Name: o.GetAuthorName(), Email: o.GetAuthorEmail()}, Trailers: o.GetTrailers(), Branch: o.GetBranch(),
		RunHooks: o.GetHooks() == ctxfsv1.CommitHooks_COMMIT_HOOKS_RUN,
	}, err
}

func commitsToPB(e *review.Entry) []*ctxfsv1.Commit {
	var out []*ctxfsv1.Commit
	for _, c := range e.Commits {
		out = append(out, &ctxfsv1.Commit{
			Repository: "/" + printable(c.Repository), CommitId: c.ID, Ref: c.Ref, Parent: c.Parent, Author: fserrpb.Valid(c.Author.String()), Committer: fserrpb.Valid(c.Committer.String()), Hooks: c.Hooks,
		})
	}
	return out
}

var entryKinds = map[review.EntryKind]ctxfsv1.JournalKind{
	review.EntryApply: ctxfsv1.JournalKind_JOURNAL_KIND_APPLY, review.EntryDiscard: ctxfsv1.JournalKind_JOURNAL_KIND_DISCARD,
	review.EntryUndo: ctxfsv1.JournalKind_JOURNAL_KIND_UNDO, review.EntryRebase: ctxfsv1.JournalKind_JOURNAL_KIND_REBASE,
	review.EntryPush:    ctxfsv1.JournalKind_JOURNAL_KIND_PUSH,
	review.EntryResolve: ctxfsv1.JournalKind_JOURNAL_KIND_RESOLVE, review.EntryExec: ctxfsv1.JournalKind_JOURNAL_KIND_EXEC,
	review.EntryPull: ctxfsv1.JournalKind_JOURNAL_KIND_PULL,
}

func entryToPB(e *review.Entry) *ctxfsv1.JournalEntry {
	return &ctxfsv1.JournalEntry{
		JournalId: e.ID, Kind: entryKinds[e.Kind], ContextId: e.Context, Actor: e.Actor, DoneNs: ns(e.At), Files: filesToPB(e),
		Undoes: e.Undoes, UndoneBy: e.UndoneBy, Commits: commitsToPB(e), Command: e.Command,
	}
}

// reviewStatus is fserrpb.ToStatus, and makes a refusal of a review the one that travels.
func reviewStatus(err error) error {
	var refused *review.Error
	if !errors.As(err, &refused) {
		return fserrpb.ToStatus(err)
	}
	out := &fserrpb.Refusal{Reason: string(refused.Reason), Detail: refused.Detail, Hint: refused.Hint, Err: err}
	for i, p := range refused.Paths {
		pb := &ctxfsv1.RefusedFile{}
		pb.Path, pb.RawPath = virtual(p)
		if len(refused.Conflicts) > 0 {
			pb.Kind = ctxfsv1.ConflictKind(refused.Conflicts[i].Kind)
		}
		out.Files = append(out.Files, pb)
	}
	return out
}

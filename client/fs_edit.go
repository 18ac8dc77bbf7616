package client

import (
	"errors"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Conditions are what a change requires of the files it is about, by their etags (ETagOf). A change whose conditions do not hold changes
// nothing; StaleETag recognizes its error.
type Conditions struct {
	// IfMatch is the etag that the file must have; of Rename, Link and CopyFile the file at the first path.
	IfMatch string
	// IfNoneMatch says that nothing may have the name.
	IfNoneMatch bool
	// DestIfMatch and DestIfNoneMatch are the same for the second path of Rename, Link and CopyFile.
	DestIfMatch     string
	DestIfNoneMatch bool
}

// anyETag is what a request has where nothing may have the name.
const anyETag = "*"

func (c Conditions) none() string { return star(c.IfNoneMatch) }

func (c Conditions) destNone() string { return star(c.DestIfNoneMatch) }

func star(set bool) string {
	if set {
		return anyETag
	}
	return ""
}

// If returns a copy whose changes have conditions: f.If(client.Conditions{IfMatch: etag}).WriteFile(...). Each method takes those that apply
// to it. Cp, MkdirTemp, and writes through an open File have none.
func (f *FS) If(c Conditions) *FS {
	with := *f
	with.conditions = c
	return &with
}

// StaleETag reports whether a change was refused because its conditions do not hold. etag is the one that the file has now, "" if there is
// none.
func StaleETag(err error) (etag string, stale bool) {
	var e *fserr.Error
	if !errors.As(err, &e) || e.Kind != fserr.KindCondition {
		return "", false
	}
	return e.ETag, true
}

// Lines are some lines of a file.
type Lines struct {
	// Data has the lines with their ends.
	Data []byte
	// Total is how many lines the file has; -1 if it is too large to count them.
	Total int64
	// ETag belongs to this content.
	ETag string
}

// ReadLines reads count lines of a file, from start, which counts from 1. A count of 0 means all from there on. They may have up to 3.5 MiB
// (EFBIG).
func (f *FS) ReadLines(name string, start, count int64) (Lines, error) {
	p, raw := f.wire(name)
	r, err := f.rpc.ReadFile(f.ctx, &ctxfsv1.ReadFileRequest{
		ContextId: f.id, Path: p, RawPath: raw, Lines: &ctxfsv1.LineRange{Start: start, Count: count},
	})
	if err != nil {
		return Lines{}, f.pathError("open", name, err)
	}
	total := int64(-1)
	if r.TotalLines != nil {
		total = r.GetTotalLines()
	}
	return Lines{Data: r.GetData(), Total: total, ETag: r.GetEtag()}, nil
}

// Edit is one change of EditFile: of Old, or of the lines from StartLine to EndLine.
type Edit struct {
	// Old is replaced by New. It must occur exactly once, unless All is set.
	Old, New string
	All      bool
	// StartLine and EndLine are lines, from 1, that New replaces. EndLine = StartLine-1 inserts New before StartLine.
	StartLine, EndLine int64
}

// EditOptions of EditFile.
type EditOptions struct {
	// DryRun changes nothing, and says what would change.
	DryRun bool
	// Flush puts the content on the disk before EditFile returns.
	Flush bool
}

// Edited says what EditFile changed.
type Edited struct {
	// Replacements is how many replacements each edit made.
	Replacements []int32
	// LinesAdded and LinesRemoved count the lines of the diff.
	LinesAdded, LinesRemoved int32
	// Diff is unified; "" when nothing changed. DiffTruncated says that only its first lines are here.
	Diff          string
	DiffTruncated bool
	// ETag is the one that the file has now.
	ETag string
}

// EditFile changes a text file of up to 16 MiB: all edits, in order, or none. A new file takes its place, whole, with the same mode, owner
// and extended attributes. Text that is missing, or that occurs more than once, is EINVAL; the error names the lines.
func (f *FS) EditFile(name string, edits []Edit, o EditOptions) (Edited, error) {
	p, raw := f.wire(name)
	req := &ctxfsv1.EditFileRequest{
		ContextId: f.id, Path: p, RawPath: raw, DryRun: o.DryRun, Flush: o.Flush, IfMatch: f.conditions.IfMatch,
	}
	for _, e := range edits {
		req.Edits = append(req.Edits, &ctxfsv1.TextEdit{OldText: e.Old, NewText: e.New, All: e.All, StartLine: e.StartLine, EndLine: e.EndLine})
	}
	r, err := f.rpc.EditFile(f.ctx, req)
	return Edited{
		Replacements: r.GetReplacements(), LinesAdded: r.GetLinesAdded(), LinesRemoved: r.GetLinesRemoved(),
		Diff: r.GetDiff(), DiffTruncated: r.GetDiffTruncated(), ETag: r.GetEtag(),
	}, f.pathError("edit", name, err)
}

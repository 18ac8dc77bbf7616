package fsservice

import (
	"context"
	"io"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice/textedit"
	"github.com/ctxfs/ctxfs/internal/linediff"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// maxEdits bounds the edits of a request.
const maxEdits = 1000

// editMemory is about how much memory an edit takes for each byte of the file: the versions before and after, and their lines.
const editMemory = 4

// EditFile implements FsService.
func (s *paths) EditFile(ctx context.Context, req *ctxfsv1.EditFileRequest) (*ctxfsv1.EditFileResponse, error) {
	return inBudget(ctx, "edit", func() (*ctxfsv1.EditFileResponse, error) {
		return onPath(ctx, s.opener, "edit", writes, req, func(c *call) (resp *ctxfsv1.EditFileResponse, err error) {
			e := &edit{call: c, req: req, want: condition{match: req.GetIfMatch()}}
			if e.edits, err = editsOf(req); err != nil {
				return nil, err
			}
			err = reopening(func() error {
				resp, err = e.try()
				return err
			})
			return resp, err
		})
	})
}

func editsOf(req *ctxfsv1.EditFileRequest) ([]textedit.Edit, error) {
	if n := len(req.GetEdits()); n == 0 || n > maxEdits {
		return nil, fserr.Invalid("a request has 1 to %d edits, this one %d", maxEdits, n)
	}
	edits := make([]textedit.Edit, len(req.GetEdits()))
	for i, e := range req.GetEdits() {
		edits[i] = textedit.Edit{Old: e.GetOldText(), New: e.GetNewText(), All: e.GetAll(), First: e.GetStartLine(), Last: e.GetEndLine()}
	}
	return edits, nil
}

// edit is one EditFile.
type edit struct {
	*call
	req   *ctxfsv1.EditFileRequest
	edits []textedit.Edit
	want  condition
	// reserved is the size of file for which there is memory, in bytes.
	reserved int64
}

// try edits the file while it has it to itself. It fails with errReplaced if the file is replaced before its new version appears.
func (e *edit) try() (*ctxfsv1.EditFileResponse, error) {
	f, opened, err := e.root.OpenStat(e.path, rootfs.O_RDONLY)
	if err != nil {
		return nil, e.want.missing(e.generation, err)
	}
	defer func() { _ = f.Close() }()
	switch {
	case opened.IsDir():
		return nil, fserr.EISDIR
	case opened.Size > textedit.MaxSize:
		return nil, textedit.TooLarge(opened.Size)
	}
	if e.reserved < opened.Size {
		if err := reserve(e, editMemory*opened.Size); err != nil {
			return nil, err
		}
		e.reserved = opened.Size
	}
	lock, err := e.locks.lock(e, e.id.Context, opened, writes)
	if err != nil {
		return nil, err
	}
	defer lock.unlock()
	before, err := e.stillThere(e.path, f, opened, e.want)
	if err != nil {
		return nil, err
	}
	return e.change(f, before)
}

// change makes the edits in f, whose attributes are before.
func (e *edit) change(f rootfs.File, before rootfs.Stat) (*ctxfsv1.EditFileResponse, error) {
	text, err := io.ReadAll(io.LimitReader(f, textedit.MaxSize+1))
	if err != nil {
		return nil, err
	}
	after, counts, err := textedit.Apply(text, e.edits)
	if err != nil {
		return nil, err
	}
	if err := reserve(e, int64(len(after))+linediff.LineMemory*min(linediff.MaxLines, textedit.Lines(text)+textedit.Lines(after))); err != nil {
		return nil, err
	}
	d := textedit.Compare(fserrpb.Printable(absolute(e.path)), text, after)
	resp := &ctxfsv1.EditFileResponse{
		Replacements: counts, LinesAdded: d.Added, LinesRemoved: d.Removed, Diff: d.Diff, DiffTruncated: d.Truncated,
		Etag: etagOf(e.generation, before),
	}
	if d.Diff != "" && !e.req.GetDryRun() {
		resp.Etag, err = e.replace(before, after)
	}
	return resp, err
}

// replace puts a new file in place of the one with the attributes before, which is locked.
func (e *edit) replace(before rootfs.Stat, text []byte) (etag string, err error) {
	if err := e.access.Charge(int64(len(text)), 1); err != nil {
		return "", err
	}
	f, err := e.root.CreateAtomic(e.path, 0o666&^umask, false)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // removes it unless it was committed
	if _, err := writeAll(e, f.Write, text); err != nil {
		return "", unwritten(err)
	}
	unlock, err := e.locks.lockAll(e, e.names(f.Base()))
	if err != nil {
		return "", err
	}
	defer unlock()
	now, err := e.root.Stat(e.path)
	if fserr.CodeOf(err) == fserr.ENOENT || err == nil && etagOf(e.generation, now) != etagOf(e.generation, before) {
		return "", errReplaced
	}
	if err != nil {
		return "", err
	}
	return e.put(f, now, e.req.GetFlush())
}

// names returns the locks, alone, of the name that the file has and of the one in the request, which may be a link.
func (e *edit) names(base string) []wantedLock {
	return []wantedLock{
		{fileKey{context: e.id.Context, name: base}, writes}, {fileKey{context: e.id.Context, name: baseOf(e.path)}, writes},
	}
}

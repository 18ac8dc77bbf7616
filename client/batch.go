package client

import (
	"errors"
	"io/fs"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// BatchStep is one change of a Batch. Step functions, such as StepWrite, make it.
type BatchStep struct {
	make       func(f *FS) *ctxfsv1.BatchStep
	conditions Conditions
}

// If returns the step with conditions: if they do not hold before the batch, the batch changes nothing, and StaleETag recognizes its error.
// Batch refuses a condition that does not apply to the step (EINVAL): IfMatch needs a file that the step changes, and IfNoneMatch a path that
// it creates, which is the second path of StepRename and StepCopy and so DestIfNoneMatch.
func (s BatchStep) If(c Conditions) BatchStep {
	s.conditions = c
	return s
}

// StepWrite writes a file, always whole. A new one gets perm.
func StepWrite(name string, data []byte, perm fs.FileMode) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(name)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_WriteFile{WriteFile: &ctxfsv1.WriteFileRequest{
			Path: p, RawPath: raw, ModeForm: &ctxfsv1.WriteFileRequest_Mode{Mode: unixMode(perm)}, Content: &ctxfsv1.WriteFileRequest_Data{Data: data},
		}}}
	}}
}

// StepEdit edits a text file.
func StepEdit(name string, edits ...Edit) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(name)
		req := &ctxfsv1.EditFileRequest{Path: p, RawPath: raw}
		for _, e := range edits {
			req.Edits = append(req.Edits, &ctxfsv1.TextEdit{OldText: e.Old, NewText: e.New, All: e.All, StartLine: e.StartLine, EndLine: e.EndLine})
		}
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_EditFile{EditFile: req}}
	}}
}

// StepMkdir makes a directory. With all it also makes missing parents, and one that exists is no error.
func StepMkdir(name string, perm fs.FileMode, all bool) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(name)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Mkdir{Mkdir: &ctxfsv1.MkdirRequest{
			Path: p, RawPath: raw, Recursive: all, ModeForm: &ctxfsv1.MkdirRequest_Mode{Mode: unixMode(perm)},
		}}}
	}}
}

// StepRm removes a file or, with Recursive, a tree.
func StepRm(name string, o RmOptions) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(name)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rm{Rm: &ctxfsv1.RmRequest{Path: p, RawPath: raw, Recursive: o.Recursive, Force: o.Force}}}
	}}
}

// StepRename moves a file or directory.
func StepRename(from, to string) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(from)
		d, rawDest := f.wire(to)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Rename{Rename: &ctxfsv1.RenameRequest{Path: p, RawPath: raw, Dest: d, RawDest: rawDest}}}
	}}
}

// StepCopy copies one file.
func StepCopy(from, to string, mode CopyMode) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(from)
		d, rawDest := f.wire(to)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_CopyFile{CopyFile: &ctxfsv1.CopyFileRequest{
			Path: p, RawPath: raw, Dest: d, RawDest: rawDest, Mode: int32(mode),
		}}}
	}}
}

// StepSymlink makes a link.
func StepSymlink(target, name string) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(name)
		t, rawTarget := twin(target)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Symlink{Symlink: &ctxfsv1.SymlinkRequest{Path: p, RawPath: raw, Target: t, RawTarget: rawTarget}}}
	}}
}

// StepChmod sets permission bits.
func StepChmod(name string, mode fs.FileMode) BatchStep {
	return BatchStep{make: func(f *FS) *ctxfsv1.BatchStep {
		p, raw := f.wire(name)
		return &ctxfsv1.BatchStep{Change: &ctxfsv1.BatchStep_Chmod{Chmod: &ctxfsv1.ChmodRequest{
			Path: p, RawPath: raw, ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: unixMode(mode)},
		}}}
	}}
}

// wire is the step with its conditions. It fails with EINVAL if one does not apply to the step.
func (s BatchStep) wire(f *FS) (*ctxfsv1.BatchStep, error) {
	out, c := s.make(f), s.conditions
	rest, name := c, ""
	switch change := out.GetChange().(type) {
	case *ctxfsv1.BatchStep_WriteFile:
		name, rest.IfMatch, rest.IfNoneMatch = "StepWrite", "", false
		change.WriteFile.IfMatch, change.WriteFile.IfNoneMatch = c.IfMatch, c.none()
	case *ctxfsv1.BatchStep_EditFile:
		name, rest.IfMatch = "StepEdit", ""
		change.EditFile.IfMatch = c.IfMatch
	case *ctxfsv1.BatchStep_Mkdir:
		name, rest.IfNoneMatch = "StepMkdir", false
		change.Mkdir.IfNoneMatch = c.none()
	case *ctxfsv1.BatchStep_Rm:
		name, rest.IfMatch = "StepRm", ""
		change.Rm.IfMatch = c.IfMatch
	case *ctxfsv1.BatchStep_Rename:
		name, rest = "StepRename", Conditions{IfNoneMatch: c.IfNoneMatch}
		change.Rename.IfMatch, change.Rename.DestIfMatch, change.Rename.DestIfNoneMatch = c.IfMatch, c.DestIfMatch, c.destNone()
	case *ctxfsv1.BatchStep_CopyFile:
		name, rest = "StepCopy", Conditions{IfNoneMatch: c.IfNoneMatch}
		change.CopyFile.IfMatch, change.CopyFile.DestIfMatch, change.CopyFile.DestIfNoneMatch = c.IfMatch, c.DestIfMatch, c.destNone()
	case *ctxfsv1.BatchStep_Symlink:
		name, rest.IfNoneMatch = "StepSymlink", false
		change.Symlink.IfNoneMatch = c.none()
	case *ctxfsv1.BatchStep_Chmod:
		name, rest.IfMatch = "StepChmod", ""
		change.Chmod.IfMatch = c.IfMatch
	}
	if field := rest.first(); field != "" {
		return nil, fserr.Invalid("%s takes no %s", name, field)
	}
	return out, nil
}

// first names a condition that is set; "" if none is.
func (c Conditions) first() string {
	switch {
	case c.IfMatch != "":
		return "IfMatch"
	case c.IfNoneMatch:
		return "IfNoneMatch"
	case c.DestIfMatch != "":
		return "DestIfMatch"
	case c.DestIfNoneMatch:
		return "DestIfNoneMatch"
	}
	return ""
}

// BatchOptions of Batch.
type BatchOptions struct {
	// DryRun changes nothing, and answers the diff.
	DryRun bool
	// Flush flushes the contents to the disk before the changes.
	Flush bool
}

// Batched is the result of Batch.
type Batched struct {
	// ETags has the etag that each step left; "" where it left no file.
	ETags []string
	// Diff is the unified diff of a dry run; DiffCut says that it is longer.
	Diff    string
	DiffCut bool
	// Bytes counts the content that was written.
	Bytes int64
}

// Batch carries out up to 1,000 steps in order, all of them or none, also if the server is killed. Conditions are checked first, on the
// context as it is before the batch. If a step fails nothing is changed, and the error is an *fserr.Error whose Step is 1 + the index of that
// step. All contents together must fit into one request (16 MiB by default).
func (f *FS) Batch(steps []BatchStep, o BatchOptions) (Batched, error) {
	req := &ctxfsv1.BatchRequest{ContextId: f.id, DryRun: o.DryRun, Flush: o.Flush}
	for i, s := range steps {
		step, err := s.wire(f)
		if err != nil {
			e, _ := errors.AsType[*fserr.Error](fserr.Wrap(err, "batch", "", ""))
			e.Step = i + 1
			return Batched{}, e
		}
		req.Steps = append(req.Steps, step)
	}
	return f.BatchOf(req)
}

// BatchOf is Batch of a request as the wire has it. Its paths are virtual paths of the context, whatever directory f is.
func (f *FS) BatchOf(req *ctxfsv1.BatchRequest) (Batched, error) {
	req.ContextId = f.id
	resp, err := f.rpc.Batch(f.ctx, req)
	if err != nil {
		return Batched{}, convert("batch", err)
	}
	out := Batched{Diff: resp.GetDiff(), DiffCut: resp.GetDiffTruncated(), Bytes: resp.GetBytesWritten()}
	for _, r := range resp.GetResults() {
		out.ETags = append(out.ETags, r.GetEtag())
	}
	return out, nil
}

// Batch carries out steps in the panel's context. See FS.Batch.
func (p *Panel) Batch(steps []BatchStep, o BatchOptions) (Batched, error) {
	return p.FS().Batch(steps, o)
}

package fsservice

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/textedit"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// maxSteps bounds the steps of a batch.
const maxSteps = 1000

// Batch implements FsService.
func (s *paths) Batch(ctx context.Context, req *ctxfsv1.BatchRequest) (*ctxfsv1.BatchResponse, error) {
	resp, err := inBudget(ctx, "batch", func() (*ctxfsv1.BatchResponse, error) { return s.batch(ctx, req) })
	if e, ok := errors.AsType[*fserr.Error](err); ok && e.Step > 0 {
		return nil, fail(err, e.Op, e.Path, e.Dest)
	}
	return resp, fail(err, "batch", "", "")
}

func (s *paths) batch(ctx context.Context, req *ctxfsv1.BatchRequest) (*ctxfsv1.BatchResponse, error) {
	if err := readOnly(panels.IdentityFrom(ctx)); err != nil {
		return nil, err
	}
	steps, err := stepsOf(req.GetSteps())
	if err != nil {
		return nil, err
	}
	// Seeds the context of a panel at its first access.
	a, id, err := s.acquire(ctx, req.GetContextId(), writes)
	if err != nil {
		return nil, err
	}
	a.Release()
	var generation uint64
	memory := &batchMemory{ctx: ctx}
	done, err := s.gate.Batch(ctx, id.Context, contexts.BatchOptions{
		DryRun: req.GetDryRun(), Diff: req.GetDryRun(), Sync: req.GetFlush(), Reserve: memory.passing,
		Steps: func(a *contexts.Access) ([]batch.Step, error) {
			generation = a.Generation
			return steps.in(memory, a, req.GetDryRun()), nil
		},
	})
	if err != nil {
		return nil, err
	}
	return batchReply(done, len(steps), generation), nil
}

// batchStep is a step with its conditions.
type batchStep struct {
	batch.Step
	// targets are the paths that have conditions.
	targets []target
}

type batchSteps []batchStep

// batchMemory counts what a batch has in memory in the budget of its call.
type batchMemory struct {
	ctx context.Context //nolint:containedctx // the batch's
	// kept is what stays until the batch ends, in bytes.
	kept int64
}

// passing makes room for bytes beside those that are kept.
func (m *batchMemory) passing(bytes int64) error { return reserve(m.ctx, m.kept+bytes) }

// keep makes room for bytes that stay.
func (m *batchMemory) keep(bytes int64) error {
	err := m.passing(bytes)
	if err == nil {
		m.kept += bytes
	}
	return err
}

// in returns the steps for a context that is open. What edits make is kept in memory.
func (b batchSteps) in(memory *batchMemory, a *contexts.Access, dryRun bool) []batch.Step {
	out := make([]batch.Step, len(b))
	for i, s := range b {
		if !dryRun {
			a.Touch(s.Path, s.Kind == batch.Remove || s.Kind == batch.Rename)
			a.Touch(s.Dest, true)
		}
		for _, t := range s.targets {
			s.Conditions = append(s.Conditions, batch.Condition{Path: t.path, Follow: t.follow && !t.want.none, Check: func(st *rootfs.Stat) error {
				if st == nil {
					return t.want.check(a.Generation, rootfs.Stat{}, fserr.ENOENT)
				}
				return t.want.check(a.Generation, *st, nil)
			}})
		}
		if edit := s.Edit; edit != nil {
			s.Edit = func(text []byte) ([]byte, error) {
				if err := memory.passing(editMemory * int64(len(text))); err != nil {
					return nil, err
				}
				after, err := edit(text)
				if err == nil {
					err = memory.keep(int64(len(after)))
				}
				return after, err
			}
		}
		out[i] = s.Step
	}
	return out
}

func batchReply(done contexts.Batched, steps int, generation uint64) *ctxfsv1.BatchResponse {
	resp := &ctxfsv1.BatchResponse{Diff: strings.ToValidUTF8(string(done.Diff), "\uFFFD"), DiffTruncated: done.DiffCut, BytesWritten: done.Bytes}
	for i := range steps {
		result := &ctxfsv1.BatchResult{}
		if i < len(done.Written) && done.Written[i] != nil {
			result.Etag = etagOf(generation, *done.Written[i])
		}
		resp.Results = append(resp.Results, result)
	}
	return resp
}

// stepsOf checks the steps of a request.
func stepsOf(in []*ctxfsv1.BatchStep) (batchSteps, error) {
	if len(in) == 0 || len(in) > maxSteps {
		return nil, &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindRequest, Detail: fmt.Sprintf("a batch has 1 to %d steps, this one %d", maxSteps, len(in))}
	}
	steps := make(batchSteps, len(in))
	for i, one := range in {
		if err := steps[i].set(one); err != nil {
			e, _ := errors.AsType[*fserr.Error](fserr.Wrap(err, "batch", steps[i].Path, steps[i].Dest))
			e.Step = i + 1
			return nil, e
		}
	}
	return steps, nil
}

// set makes the step what a request says.
func (s *batchStep) set(in *ctxfsv1.BatchStep) error {
	switch c := in.GetChange().(type) {
	case *ctxfsv1.BatchStep_WriteFile:
		return s.setWrite(c.WriteFile)
	case *ctxfsv1.BatchStep_EditFile:
		return s.setEdit(c.EditFile)
	case *ctxfsv1.BatchStep_Mkdir:
		mode, err := newMode(c.Mkdir.GetModeForm(), 0o777)
		s.Mode, s.Recursive = mode, c.Mkdir.GetRecursive()
		return errors.Join(s.onPath(batch.Mkdir, c.Mkdir), err, s.when("", c.Mkdir.GetIfNoneMatch(), false))
	case *ctxfsv1.BatchStep_Rm:
		s.Recursive, s.Force = c.Rm.GetRecursive(), c.Rm.GetForce()
		return errors.Join(s.onPath(batch.Remove, c.Rm), s.when(c.Rm.GetIfMatch(), "", false))
	case *ctxfsv1.BatchStep_Rename:
		return errors.Join(s.onTwoPaths(batch.Rename, c.Rename), s.when(c.Rename.GetIfMatch(), "", false), s.whenDest(c.Rename, false))
	case *ctxfsv1.BatchStep_CopyFile:
		exclusive, err := wantCopyMode(c.CopyFile.GetMode())
		s.Exclusive = exclusive
		return errors.Join(s.onTwoPaths(batch.Copy, c.CopyFile), err, s.when(c.CopyFile.GetIfMatch(), "", true), s.whenDest(c.CopyFile, true))
	case *ctxfsv1.BatchStep_Symlink:
		target, err := oneOf("target", c.Symlink.GetTarget(), c.Symlink.GetRawTarget())
		s.Target = target
		return errors.Join(s.onPath(batch.Symlink, c.Symlink), err, s.when("", c.Symlink.GetIfNoneMatch(), false))
	case *ctxfsv1.BatchStep_Chmod:
		mode, err := wantMode(c.Chmod.GetModeForm())
		s.Mode = mode
		return errors.Join(s.onPath(batch.Chmod, c.Chmod), err, s.when(c.Chmod.GetIfMatch(), "", true))
	}
	return fserr.Invalid("the step has no change")
}

func (s *batchStep) setWrite(req *ctxfsv1.WriteFileRequest) error {
	w, err := newContent(req, req.GetFlagForm(), "w", req.GetModeForm())
	if err = errors.Join(s.onPath(batch.Write, req), err); err != nil {
		return err
	}
	switch {
	case req.Fd != nil:
		return fserr.Invalid("a batch writes to paths, not to handles")
	case !w.flags.replaces():
		return fserr.Invalid("a batch writes whole files, with flag \"w\" or \"wx\"")
	}
	s.Data, s.Mode, s.Exclusive = w.data, w.mode, w.flags.Flags&rootfs.O_EXCL != 0
	s.want(s.Path, w.want, true)
	return nil
}

func (s *batchStep) setEdit(req *ctxfsv1.EditFileRequest) error {
	edits, err := editsOf(req)
	s.Edit = func(text []byte) ([]byte, error) {
		after, _, err := textedit.Apply(text, edits)
		return after, err
	}
	return errors.Join(s.onPath(batch.Edit, req), err, s.when(req.GetIfMatch(), "", true))
}

// onPath sets the path of a request.
func (s *batchStep) onPath(kind batch.Kind, req pathRequest) (err error) {
	s.Kind = kind
	if s.Path, err = pathOf(req.GetPath(), req.GetRawPath()); err == nil && req.GetContextId() != "" {
		err = fserr.Invalid("the context_id belongs to the batch, not to a step")
	}
	return err
}

// onTwoPaths sets the path and the dest of a request.
func (s *batchStep) onTwoPaths(kind batch.Kind, req destRequest) error {
	err := s.onPath(kind, req)
	dest, destErr := oneOf("dest", req.GetDest(), req.GetRawDest())
	s.Dest = dest
	return errors.Join(err, destErr)
}

// when sets the condition of the path.
func (s *batchStep) when(match, noneMatch string, follow bool) error {
	want, err := conditionOf(match, noneMatch)
	s.want(s.Path, want, follow)
	return err
}

// whenDest sets the condition of the dest.
func (s *batchStep) whenDest(req destCondition, follow bool) error {
	want, err := destConditionOf(req)
	s.want(s.Dest, want, follow)
	return err
}

func (s *batchStep) want(path string, want condition, follow bool) {
	if !want.empty() {
		s.targets = append(s.targets, target{path: path, follow: follow, want: want})
	}
}

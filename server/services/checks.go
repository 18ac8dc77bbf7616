package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/review"
)

// RunCommand runs a command, and calls send with what ExecService.Run reports.
type RunCommand func(ctx context.Context, cmd *ctxfsv1.Command, send func(*ctxfsv1.RunResponse) error) error

// Forks makes throw-away forks.
type Forks struct {
	Contexts interface {
		Fork(ctx context.Context, from, to contexts.ID, opts contexts.EnsureOptions) (contexts.Info, error)
		Delete(ctx context.Context, id contexts.ID, unless contexts.Unless) (contexts.Deleted, error)
		List(ctx context.Context) ([]contexts.Info, error)
	}
}

// forkDeleteTime bounds the deletion of a fork whose caller may have left.
const forkDeleteTime = time.Minute

// forkID has the IDs of throw-away forks. No other context may have such an ID.
var forkID = regexp.MustCompile(`^ctx_check~~[a-z2-7]{26}$`)

// with makes a fork of a context, calls f, and deletes the fork.
func (s *Forks) with(ctx context.Context, from contexts.ID, f func(fork contexts.ID) error) (err error) {
	id := contexts.ID("ctx_check~~" + strings.ToLower(rand.Text()))
	if _, err := s.Contexts.Fork(ctx, from, id, contexts.EnsureOptions{}); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forkDeleteTime)
		defer cancel()
		if _, gone := s.Contexts.Delete(ctx, id, nil); gone != nil {
			err = errors.Join(err, fmt.Errorf("delete the fork %s: %w", id, gone))
		}
	}()
	return f(id)
}

// Sweep deletes the forks of a server that was killed.
func (s *Forks) Sweep(ctx context.Context) error {
	all, err := s.Contexts.List(ctx)
	errs := []error{err}
	for _, info := range all {
		if forkID.MatchString(string(info.ID)) {
			_, err := s.Contexts.Delete(ctx, info.ID, nil)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Bounds of checks.
const (
	maxChecks    = 16
	maxCheckTime = time.Hour
)

// checkedStream is what ApplyChecked sends to.
type checkedStream = grpc.ServerStreamingServer[ctxfsv1.ApplyCheckedResponse]

// ApplyChecked implements ReviewService.
func (s *Reviews) ApplyChecked(req *ctxfsv1.ApplyCheckedRequest, stream checkedStream) error {
	return reviewStatus(s.applyChecked(req, stream))
}

func (s *Reviews) applyChecked(req *ctxfsv1.ApplyCheckedRequest, stream checkedStream) error {
	ctx := stream.Context()
	if n := len(req.GetChecks()); n == 0 || n > maxChecks {
		return fserr.Invalid("there are %d checks; use 1 to %d", n, maxChecks)
	}
	apply, err := s.applyOf(ctx, req.GetApply())
	if err != nil {
		return err
	}
	e, release, err := s.Reviews.Plan(ctx, apply)
	if err != nil {
		return err
	}
	defer release()
	if e.ID == 0 { // otherwise an earlier call with its request_id was carried out
		err := s.Forks.with(ctx, contexts.ID(apply.Context), func(fork contexts.ID) error {
			if err := s.Reviews.Place(ctx, string(fork), e); err != nil {
				return err
			}
			release() // the fork has the merges
			return s.check(ctx, fork, req.GetChecks(), stream)
		})
		if err != nil {
			return err
		}
		apply.Checked = e
		if e, err = s.Reviews.Apply(ctx, apply); err != nil {
			return err
		}
	}
	return stream.Send(&ctxfsv1.ApplyCheckedResponse{Event: &ctxfsv1.ApplyCheckedResponse_Applied{Applied: appliedToPB(e)}})
}

// check runs checks one after the other, up to the first required one that fails.
func (s *Reviews) check(ctx context.Context, fork contexts.ID, checks []*ctxfsv1.Check, stream checkedStream) error {
	for i, c := range checks {
		exit, err := s.runCheck(ctx, fork, i, c, stream)
		if err != nil {
			return err
		}
		passed := exit.GetReason() == ctxfsv1.ExitReason_EXIT_REASON_EXITED && exit.GetCode() == 0
		err = stream.Send(&ctxfsv1.ApplyCheckedResponse{Event: &ctxfsv1.ApplyCheckedResponse_Ended{Ended: &ctxfsv1.CheckEnded{Check: int32(i), Passed: passed, Exit: exit}}})
		if err != nil {
			return err
		}
		if !passed && !c.GetOptional() {
			return &review.Error{
				Reason: review.CheckFailed, Detail: fmt.Sprintf("nothing was applied: the check %q %s", strings.Join(Argv(c), " "), outcome(exit)),
				Hint: "change the context, or make the check optional",
			}
		}
	}
	return nil
}

func (s *Reviews) runCheck(ctx context.Context, fork contexts.ID, i int, c *ctxfsv1.Check, stream checkedStream) (exit *ctxfsv1.Exit, err error) {
	if c.GetWallMs() < 0 || c.GetWallMs() > maxCheckTime.Milliseconds() {
		return nil, fserr.Invalid("wall_ms of check %d is %d; use 0 to %d", i, c.GetWallMs(), maxCheckTime.Milliseconds())
	}
	cmd := &ctxfsv1.Command{
		ContextId: string(fork), Argv: c.GetArgv(), RawArgv: c.GetRawArgv(), Cwd: c.GetCwd(), RawCwd: c.GetRawCwd(), Limits: &ctxfsv1.ExecLimits{WallMs: c.GetWallMs()},
	}
	err = s.Run(ctx, cmd, func(m *ctxfsv1.RunResponse) error {
		switch {
		case m.GetStarted() != nil:
			return stream.Send(&ctxfsv1.ApplyCheckedResponse{Event: &ctxfsv1.ApplyCheckedResponse_Started{Started: &ctxfsv1.CheckStarted{Check: int32(i)}}})
		case m.GetOutput() != nil:
			return stream.Send(&ctxfsv1.ApplyCheckedResponse{Event: &ctxfsv1.ApplyCheckedResponse_Output{Output: m.GetOutput()}})
		case m.GetExited() != nil:
			exit = m.GetExited().GetExit()
		}
		return nil
	})
	return exit, err
}

// outcome says how a check that did not pass ended.
func outcome(e *ctxfsv1.Exit) string {
	switch e.GetReason() {
	case ctxfsv1.ExitReason_EXIT_REASON_EXITED:
		return fmt.Sprintf("exited with code %d", e.GetCode())
	case ctxfsv1.ExitReason_EXIT_REASON_TIMEOUT:
		return "exceeded its time limit"
	}
	return "was ended: " + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(e.GetReason().String(), "EXIT_REASON_"), "_", " ")) + " " + e.GetDetail()
}

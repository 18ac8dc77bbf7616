package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// checking has the flags of checks that run before changes are applied.
type checking struct {
	required, optional []string
	limit              time.Duration
}

func (c *checking) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&c.required, "check", nil, "run this in a shell, in a throw-away fork that holds the result, and apply nothing if it fails; repeatable")
	f.StringArrayVar(&c.optional, "check-optional", nil, "run this as --check does, and apply even if it fails; repeatable")
	f.DurationVar(&c.limit, "check-time-limit", 0, "how long each check may run (default 10m)")
}

// of returns the checks, nil if there are none.
func (c *checking) of(req *ctxfsv1.ApplyRequest) ([]*ctxfsv1.Check, error) {
	var out []*ctxfsv1.Check
	add := func(scripts []string, optional bool) {
		for _, s := range scripts {
			out = append(out, &ctxfsv1.Check{Argv: []string{"sh", "-c", s}, Optional: optional, WallMs: c.limit.Milliseconds()})
		}
	}
	add(c.required, false)
	add(c.optional, true)
	switch {
	case c.limit < 0:
		return nil, usagef("--check-time-limit must not be negative")
	case len(out) > 0 && req.GetDryRun():
		return nil, usagef("leave out one of --check and --dry-run")
	case len(out) > 0 && req.GetTarget() == ctxfsv1.ApplyTarget_APPLY_TARGET_BRANCH:
		return nil, usagef("leave out one of --check and --branch: a commit to a branch changes no file that a check could read")
	}
	return out, nil
}

// applyChecked prints the output of checks to standard error, and returns what was applied.
func (a *app) applyChecked(ctx context.Context, r *client.Review, req *ctxfsv1.ApplyRequest, checks []*ctxfsv1.Check) (done *ctxfsv1.ApplyResponse, err error) {
	say := func(i int32, what string) error {
		_, err := fmt.Fprintf(a.env.Stderr, "check %s: %s\n", show(checks[i].GetArgv()[2]), what)
		return err
	}
	err = r.ApplyChecked(ctx, &ctxfsv1.ApplyCheckedRequest{Apply: req, Checks: checks}, func(m *ctxfsv1.ApplyCheckedResponse) error {
		switch {
		case m.GetStarted() != nil:
			return say(m.GetStarted().GetCheck(), "started")
		case m.GetEnded().GetPassed():
			return say(m.GetEnded().GetCheck(), "passed")
		case m.GetEnded() != nil:
			return say(m.GetEnded().GetCheck(), "failed")
		case m.GetApplied() != nil:
			done = m.GetApplied()
		}
		_, err := a.env.Stderr.Write(m.GetOutput().GetData())
		return err
	})
	return done, err
}

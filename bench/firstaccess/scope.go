package firstaccess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/server"
)

// scopeBound is how many times as long as in a workspace that has only the files of a scope a first access to it may take in a large one.
const scopeBound = 1.25

// Scope is what the first access to a scope costs, by what was measured: in a workspace that has only its files, and in a large one.
type Scope struct {
	Files, All, Rounds int
	Alone, Within      map[string]time.Duration
}

// measureScope measures the first access to a folder of a repository, in turns in a workspace without other files and in one with many.
func measureScope(ctx context.Context, o Options, log io.Writer) (row Scope, err error) {
	row = Scope{Files: o.ScopeFiles, All: o.ScopeAll, Rounds: o.Rounds}
	scratch, err := os.MkdirTemp(o.Dir, "cs")
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	alone, within := &stand{dir: filepath.Join(scratch, "alone")}, &stand{dir: filepath.Join(scratch, "within")}
	for s, others := range map[*stand]int{alone: 0, within: o.ScopeAll - o.ScopeFiles} {
		s.workspace = filepath.Join(s.dir, "w")
		if err := s.fillScope(ctx, o.ScopeFiles, others); err != nil {
			return row, err
		}
	}
	took := map[*stand]map[string][]time.Duration{alone: {}, within: {}}
	for range o.Rounds {
		for _, s := range []*stand{alone, within} {
			if err := s.scopeRound(ctx, took[s], log); err != nil {
				return row, err
			}
		}
	}
	row.Alone, row.Within = medians(took[alone]), medians(took[within])
	return row, nil
}

// fillScope makes the workspace: a repository with the scope and half of the others, committed, and one with the other half.
func (s *stand) fillScope(ctx context.Context, scope, others int) error {
	app, other := filepath.Join(s.workspace, "app"), filepath.Join(s.workspace, "other")
	if err := errors.Join(fill(filepath.Join(app, "scope"), scope), fill(filepath.Join(app, "rest"), others/2), fill(other, max(1, others-others/2))); err != nil {
		return err
	}
	for _, repo := range []string{app, other} {
		for _, args := range [][]string{
			{"init", "-q"}, {"config", "gc.auto", "0"}, {"config", "maintenance.auto", "false"}, {"add", "-A"},
			{"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-q", "-m", "all"},
		} {
			if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
				return fmt.Errorf("git %s: %w: %s", args[0], err, out)
			}
		}
	}
	return nil
}

// scopeRound makes a first context of the scope, which builds the layer, and then one from the layer, by each driver that works here.
func (s *stand) scopeRound(ctx context.Context, took map[string][]time.Duration, log io.Writer) error {
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		if driver == server.DriverOverlay {
			if why := server.OverlayRefusal(ctx, s.dir); why != "" {
				_, _ = fmt.Fprintln(log, "overlay is left out:", why)
				continue
			}
		}
		dir := s.name("contexts")
		err := s.serve(ctx, driver, dir, 0, func(c *client.Client) error {
			for _, of := range []struct{ id, kind string }{{"ctx_cold", cold}, {"ctx_layered", layered}} {
				d, err := firstOf(ctx, c, of.id, "scope", "app/scope")
				if err != nil {
					return err
				}
				took[driver+of.kind] = append(took[driver+of.kind], d)
				if err := appears(ctx, dir, ".ctxfs", "layers", "*", "tree"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", driver, err)
		}
	}
	return nil
}

func medians(took map[string][]time.Duration) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, all := range took {
		slices.Sort(all)
		out[name] = all[len(all)/2]
	}
	return out
}

// Text is the table of the scope.
func (s Scope) Text() string {
	t := &report.Table{Head: []string{
		"what", fmt.Sprintf(">%s files alone", report.Thousands(int64(s.Files))), fmt.Sprintf(">as a scope of %s", report.Thousands(int64(s.All))), ">ratio", ">required", "met",
	}}
	for _, name := range names {
		alone, within := s.Alone[name], s.Within[name]
		if alone > 0 && within > 0 {
			times := float64(within) / float64(alone)
			t.Add(name, report.Duration(alone), report.Duration(within), report.Ratio(times), fmt.Sprintf("at most %.2fx", scopeBound), met(times <= scopeBound))
		}
	}
	return "\n## A scope of a large workspace\n\n" + t.String() +
		fmt.Sprintf("\nA context that is seeded from one folder of a repository (`--seed-from`), in a workspace that has only these files, and in one of two repositories with all. "+
			"All files are committed. Medians of %d rounds, in turns.\n", s.Rounds)
}

// Package firstaccess measures what the first access to a context costs, by driver and by the
// size of the workspace, in turns with cp -a of the same files. Each server is a real one, asked over its socket.
package firstaccess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	otiai "github.com/otiai10/copy"

	"github.com/ctxfs/ctxfs/bench/report"
)

// Options of Run.
type Options struct {
	// Dir is the directory for temporary files, on the disk to measure. Out is the directory for the report; "" writes none.
	Dir, Out string
	// Sizes are the numbers of files of the workspaces. Rounds is how often each is measured; the report has the median.
	Sizes  []int
	Rounds int
	// ScopeFiles are the files of a scope, in a workspace of ScopeAll files. 0 measures none.
	ScopeFiles, ScopeAll int
}

// fewRounds is what a workspace of more than manyFiles files gets: each round of it writes gigabytes.
const (
	manyFiles = 20_000
	fewRounds = 1
)

// Run measures everything, prints it and, with Options.Out, writes first-access.md and first-access.svg.
func Run(ctx context.Context, o Options, stdout, log io.Writer) error {
	var f Figures
	for _, size := range o.Sizes {
		_, _ = fmt.Fprintf(log, "%d files\n", size)
		rounds := o.Rounds
		if size > manyFiles {
			rounds = min(rounds, fewRounds)
		}
		row, err := measure(ctx, o.Dir, size, rounds, log)
		if err != nil {
			return fmt.Errorf("%d files: %w", size, err)
		}
		f.Rows = append(f.Rows, row)
	}
	if o.ScopeFiles > 0 {
		_, _ = fmt.Fprintf(log, "a scope of %d files in %d\n", o.ScopeFiles, o.ScopeAll)
		scope, err := measureScope(ctx, o, log)
		if err != nil {
			return fmt.Errorf("a scope: %w", err)
		}
		f.Scope = &scope
	}
	text := report.Describe(o.Dir) + ".\n\n" + f.Text()
	if _, err := io.WriteString(stdout, text); err != nil || o.Out == "" {
		return err
	}
	return f.write(o.Out, text)
}

// stand is a workspace and what is measured in it.
type stand struct {
	dir, workspace, tree string
	n                    int
}

func measure(ctx context.Context, dir string, size, rounds int, log io.Writer) (row Row, err error) {
	scratch, err := os.MkdirTemp(dir, "cf")
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	s := &stand{dir: scratch, workspace: filepath.Join(scratch, "w"), tree: filepath.Join(scratch, "tree")}
	if err := s.fill(ctx, size); err != nil {
		return row, err
	}
	took := map[string][]time.Duration{}
	for range rounds {
		if err := s.round(ctx, took, log); err != nil {
			return row, err
		}
	}
	return Row{Files: size, Rounds: rounds, Took: medians(took)}, nil
}

// fill makes the tree, and the workspace: a repository of the same files, and twice as many that are excluded.
func (s *stand) fill(ctx context.Context, files int) error {
	app := filepath.Join(s.workspace, "app")
	for _, t := range []struct {
		dir string
		n   int
	}{{s.tree, files}, {app, files}, {filepath.Join(app, "node_modules"), 2 * min(files, manyFiles)}} {
		if err := fill(t.dir, t.n); err != nil {
			return err
		}
	}
	return exec.CommandContext(ctx, "git", "init", "-q", app).Run()
}

// perDirectory is how many files lie in a directory, fileSize how big one is, in bytes.
const perDirectory, fileSize = 50, 1 << 10

func fill(dir string, files int) error {
	content := make([]byte, fileSize)
	for i := range files {
		in := filepath.Join(dir, fmt.Sprintf("d%d", i/perDirectory))
		if i%perDirectory == 0 {
			if err := os.MkdirAll(in, 0o755); err != nil {
				return err
			}
		}
		copy(content, fmt.Sprintf("file %d of %s", i, dir))
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("f%d", i)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// name returns a path that is free. Nothing is removed before the end: ext4 looks for inodes beside
// those that were freed a moment ago, and passes over each of them.
func (s *stand) name(kind string) string {
	s.n++
	return filepath.Join(s.dir, fmt.Sprint(kind, s.n))
}

// copyTree copies the tree with cp -a, and with otiai10/copy, which the copy driver uses where it has no openat2.
func (s *stand) copyTree(ctx context.Context, took map[string][]time.Duration) error {
	start := time.Now()
	out, err := exec.CommandContext(ctx, "cp", "-a", s.tree, s.name("cp")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	took[plainCopy] = append(took[plainCopy], time.Since(start))
	start = time.Now()
	if err := otiai.Copy(s.tree, s.name("copy"), otiai.Options{PreserveTimes: true}); err != nil {
		return fmt.Errorf("otiai10/copy: %w", err)
	}
	took[goCopy] = append(took[goCopy], time.Since(start))
	return nil
}

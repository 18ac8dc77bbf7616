// Command bench compares ctxfs with its peers on this machine. Run it by make bench.
//
//	bench [--rounds 5] [--time 300ms] [--only REGEXP] [--peers REGEXP] [--before PROGRAM] [--out DIR] [--quick]
//	bench scale [--out DIR]
//	bench first-access [--out DIR] [--rounds 5] [--files 1000,10000,100000]
//	bench review [--out DIR] [--rounds 5] [--files 1000,10000,100000]
//	bench git [--out DIR] [--rounds 5] [--changed 1000]
//	bench exec [--out DIR] [--time 10s]
//	bench sandbox [--out DIR] [--rounds 21] [--files 1000]
//	bench gateway [--out DIR] [--rounds 5] [--time 500ms] [--quick]
//	bench fairness [--out DIR] [--rounds 5] [--time 2s]
//	bench records [--out DIR] [--rounds 3] [--contexts 10,10000]
//	bench agents [--out DIR] [--rounds 5] [--time 300ms] [--files 1000]
//
// It starts every server itself, each as a process of its own, and ends them all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ctxfs/ctxfs/bench/agents"
	"github.com/ctxfs/ctxfs/bench/commands"
	"github.com/ctxfs/ctxfs/bench/fairness"
	"github.com/ctxfs/ctxfs/bench/firstaccess"
	"github.com/ctxfs/ctxfs/bench/gateway"
	"github.com/ctxfs/ctxfs/bench/memory"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/records"
	"github.com/ctxfs/ctxfs/bench/review"
	"github.com/ctxfs/ctxfs/bench/scale"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) == 4 && args[0] == "peer" && args[1] == "scale":
		return scale.Serve(args[3])
	case len(args) == 4 && args[0] == "peer" && args[1] == "greedy":
		return fairness.Serve(ctx, args[2], args[3], os.Stdin, stdout)
	case len(args) == 4 && args[0] == "peer":
		return peers.Serve(args[1], args[2], args[3])
	case len(args) > 0 && args[0] == "scale":
		return runScale(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "first-access":
		return runFirstAccess(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "review":
		return runReview(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "git":
		return runCommits(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "exec":
		return runExec(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "sandbox":
		return runSandbox(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "gateway":
		return runGateway(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "fairness":
		return runFairness(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "records":
		return runRecords(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "agents":
		return runAgents(ctx, args[1:], stdout, stderr)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return run(ctx, o, stdout, stderr)
}

// profile records what the load generator's processors do, clients included; not with an empty path.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&o.rounds, "rounds", 5, "rounds of each cell; their median is reported")
	set.DurationVar(&o.time, "time", 300*time.Millisecond, "how long each peer runs in a round")
	only := set.String("only", "", "expression of the cells to run, such as '^stat/32$'")
	with := set.String("peers", "", "expression of the peers to run")
	set.StringVar(&o.out, "out", "", "folder for bench.md and bench.svg; empty writes none")
	set.StringVar(&o.dir, "dir", "", "folder for temporary files, on the disk that is to be measured")
	set.StringVar(&o.ctxfs, "ctxfs", "", "the ctxfs to measure; empty builds it")
	set.StringVar(&o.before, "before", "", "an earlier ctxfs to measure beside this one")
	set.StringVar(&o.source, "source", ".", "folder of bench's source")
	set.StringVar(&o.profile, "cpuprofile", "", "file for a profile of the load generator, clients included")
	set.BoolVar(&o.quick, "quick", false, "a smaller tree and one short round: shows that all works, not how fast")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.rounds, o.time = 1, 5*time.Millisecond
	}
	if o.rounds < 1 || o.time <= 0 {
		return o, errors.New("--rounds and --time must be above 0")
	}
	if o.source, err = filepath.Abs(o.source); err != nil {
		return o, err
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("--only: %w", err)
	}
	if o.with, err = regexp.Compile(*with); err != nil {
		return o, fmt.Errorf("--peers: %w", err)
	}
	return o, nil
}

func runScale(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o scale.Options
	set := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for scale.md and scale.svg; empty writes none")
	set.StringVar(&o.Dir, "dir", "", "folder for temporary files")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	return scale.Run(ctx, o, stdout, stderr)
}

func runFirstAccess(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o firstaccess.Options
	set := flag.NewFlagSet("bench first-access", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for first-access.md and first-access.svg; empty writes none")
	set.IntVar(&o.ScopeFiles, "scope", 500, "files of the scope of a large workspace; 0 measures none")
	set.IntVar(&o.ScopeAll, "scope-of", 100_000, "files of that workspace")
	set.StringVar(&o.Dir, "dir", "", "folder for temporary files, on the disk that is to be measured")
	set.IntVar(&o.Rounds, "rounds", 5, "rounds of each size; their median is reported")
	files := set.String("files", "1000,10000,100000", "sizes of workspaces")
	err := set.Parse(args)
	if err == nil {
		o.Sizes, err = sizes(*files, o.Rounds)
	}
	if err != nil {
		return err
	}
	return firstaccess.Run(ctx, o, stdout, stderr)
}

func runRecords(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o records.Options
	set := flag.NewFlagSet("bench records", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for records.md; empty writes none")
	set.StringVar(&o.Dir, "dir", "", "folder for temporary files, on the disk that is to be measured")
	set.IntVar(&o.Rounds, "rounds", 9, "rounds of each size; their median is reported")
	contexts := set.String("contexts", "10,10000", "numbers of contexts, ascending")
	err := set.Parse(args)
	if err == nil {
		o.Sizes, err = sizes(*contexts, o.Rounds)
	}
	if err != nil {
		return err
	}
	return records.Run(ctx, o, stdout, stderr)
}

// sizes reads a list of sizes, and checks the value of --rounds.
func sizes(files string, rounds int) (out []int, err error) {
	for size := range strings.SplitSeq(files, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 || rounds < 1 {
			return nil, fmt.Errorf("sizes %q: must be numbers above 0, and --rounds one", files)
		}
		out = append(out, n)
	}
	return out, nil
}

func runReview(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := review.Options{Files: 10_000, Most: 10_000}
	set := flag.NewFlagSet("bench review", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for review.md and review.svg; empty writes none")
	set.StringVar(&o.Dir, "dir", os.TempDir(), "folder for temporary files, on the disk that is to be measured")
	set.IntVar(&o.Rounds, "rounds", 5, "rounds of each; their median is reported")
	set.IntVar(&o.Most, "changed", o.Most, "measure 10 changed files, and ten times as many, up to so many")
	files := set.String("files", "1000,10000,100000", "sizes of workspaces")
	err := set.Parse(args)
	if err == nil {
		o.Sizes, err = sizes(*files, o.Rounds)
	}
	if err != nil {
		return err
	}
	if o.Most < 1 || o.Most > o.Files {
		return fmt.Errorf("--changed %d: must be 1 to %d", o.Most, o.Files)
	}
	return review.Run(ctx, o, stdout, stderr)
}

func runCommits(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := review.Options{Files: 10_000}
	set := flag.NewFlagSet("bench git", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for git.md; empty writes none")
	set.StringVar(&o.Dir, "dir", os.TempDir(), "folder for temporary files, on the disk that is to be measured")
	set.IntVar(&o.Rounds, "rounds", 5, "rounds of each; their median is reported")
	set.IntVar(&o.Most, "changed", 1000, "measure 10 changed files, and ten times as many, up to so many")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Most < 1 || o.Most > o.Files {
		return fmt.Errorf("--changed %d: must be 1 to %d, and --rounds above 0", o.Most, o.Files)
	}
	return review.RunCommits(ctx, o, stdout, stderr)
}

func runExec(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o commands.Options
	set := flag.NewFlagSet("bench exec", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for exec.md; empty writes none")
	set.StringVar(&o.Source, "source", ".", "folder of bench's source")
	set.DurationVar(&o.Time, "time", 10*time.Second, "how long each benchmark runs")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.Time <= 0 {
		return errors.New("--time must be above 0")
	}
	return commands.Run(ctx, o, stdout, stderr)
}

func runSandbox(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o memory.Options
	set := flag.NewFlagSet("bench sandbox", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for sandbox.md; empty writes none")
	set.StringVar(&o.Source, "source", ".", "folder of bench's source")
	set.IntVar(&o.Rounds, "rounds", 21, "rounds of each; their median is reported")
	set.IntVar(&o.Files, "files", 1000, "files in the directory")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Files < 1 {
		return errors.New("--rounds and --files must be above 0")
	}
	return memory.Run(ctx, o, stdout, stderr)
}

func runGateway(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o := gateway.Options{Sizes: gateway.Full()}
	set := flag.NewFlagSet("bench gateway", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for gateway.md; empty writes none")
	set.StringVar(&o.Dir, "dir", "", "folder for temporary files")
	set.IntVar(&o.Rounds, "rounds", 5, "rounds of each cell; their median is reported")
	set.DurationVar(&o.Time, "time", 500*time.Millisecond, "how long each server runs in a round")
	quick := set.Bool("quick", false, "smaller files and few streams: shows that all works, not how fast")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *quick {
		o.Sizes, o.Rounds, o.Time = gateway.Quick(), 1, 5*time.Millisecond
	}
	if o.Rounds < 1 || o.Time <= 0 {
		return errors.New("--rounds and --time must be above 0")
	}
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	return gateway.Run(ctx, o, stdout, stderr)
}

func runFairness(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o fairness.Options
	set := flag.NewFlagSet("bench fairness", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for fairness.md; empty writes none")
	set.StringVar(&o.Dir, "dir", "", "folder for temporary files")
	set.StringVar(&o.Ctxfs, "ctxfs", "", "the ctxfs to measure; empty builds it")
	set.StringVar(&o.Source, "source", ".", "folder of bench's source")
	set.IntVar(&o.Rounds, "rounds", 5, "rounds of each load; their median is reported")
	set.DurationVar(&o.Time, "time", 2*time.Second, "how long each load is measured in a round")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Time <= 0 {
		return errors.New("--rounds and --time must be above 0")
	}
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	return fairness.Run(ctx, o, stdout, stderr)
}

func runAgents(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o agents.Options
	set := flag.NewFlagSet("bench agents", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Out, "out", "", "folder for agents.md; empty writes none")
	set.StringVar(&o.Dir, "dir", os.TempDir(), "folder for temporary files, on the disk that is to be measured")
	set.StringVar(&o.Ctxfs, "ctxfs", "", "the ctxfs to measure; empty builds it")
	set.StringVar(&o.Source, "source", ".", "folder of bench's source")
	set.IntVar(&o.Rounds, "rounds", 5, "rounds of each row; their median is reported")
	set.DurationVar(&o.Time, "time", 300*time.Millisecond, "how long each side is measured in a round")
	set.IntVar(&o.Files, "files", 1000, "files in the directory that is listed, searched and exported")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Time <= 0 || o.Files < 10 {
		return errors.New("--rounds and --time must be above 0, and --files at least 10")
	}
	return agents.Run(ctx, o, stdout, stderr)
}

// Command bench compares ctxfs with its peers on this machine, and measures what its parts cost. Run it by make bench and make bench-NAME.
//
//	bench [compare|first-access|review|exec|gateway|records|fairness] [--rounds N] [--time 300ms] [--sizes N,N] [--only REGEXP] [--peers REGEXP]
//	      [--ctxfs PROGRAM] [--dir DIR] [--out DIR] [--quick]
//
// It starts every server itself, and ends them all.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ctxfs/ctxfs/bench/commands"
	"github.com/ctxfs/ctxfs/bench/compare"
	"github.com/ctxfs/ctxfs/bench/fairness"
	"github.com/ctxfs/ctxfs/bench/firstaccess"
	"github.com/ctxfs/ctxfs/bench/gateway"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/records"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/bench/review"
	"github.com/ctxfs/ctxfs/bench/stand"
)

// benchmarks are all, with what is usual of each; sizes and time are not there if they mean nothing to it.
var benchmarks = map[string]struct {
	run          func(context.Context, *stand.Options) (*report.Page, error)
	rounds       int
	time         time.Duration
	sizes, quick string
}{
	"compare":      {compare.Run, 5, 300 * time.Millisecond, "", ""},
	"first-access": {firstaccess.Run, 5, 0, "1000,10000,100000", "20,60"},
	"review":       {review.Run, 5, 0, "1000,10000,100000", "20,60"},
	"exec":         {commands.Run, 1, 10 * time.Second, "", ""},
	"gateway":      {gateway.Run, 5, 500 * time.Millisecond, "", ""},
	"records":      {records.Run, 9, 0, "10,10000", "1,3"},
	"fairness":     {fairness.Run, 1, 10 * time.Second, "", ""},
}

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
	if len(args) == 4 && args[0] == "peer" {
		return peers.Serve(args[1], args[2], args[3])
	}
	if len(args) == 2 && args[0] == "hostile" {
		return fairness.Hostile(args[1])
	}
	name := "compare"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	b, ok := benchmarks[name]
	if !ok {
		return fmt.Errorf("no benchmark is called %q", name)
	}
	o, out := &stand.Options{Log: stderr}, ""
	set := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&o.Rounds, "rounds", b.rounds, "rounds, in turns; their median is reported")
	set.DurationVar(&o.Time, "time", b.time, "how long each peer or benchmark runs in a round")
	sizes := set.String("sizes", b.sizes, "numbers of files or contexts, ascending")
	only, with := set.String("only", "", "expression of the cells to run, such as '^stat/32$'"), set.String("peers", "", "expression of the peers to run")
	set.StringVar(&out, "out", "", "folder for the page; empty writes none")
	set.StringVar(&o.Dir, "dir", os.TempDir(), "folder for temporary files, on the disk that is to be measured")
	set.StringVar(&o.Ctxfs, "ctxfs", "", "the ctxfs to compare; empty builds it")
	set.StringVar(&o.Source, "source", ".", "folder of bench's source")
	set.BoolVar(&o.Quick, "quick", false, "less, and one short round: shows that all works, not how fast")
	err := set.Parse(args)
	if err != nil {
		return err
	}
	if o.Quick {
		o.Rounds, o.Time, *sizes = 1, 5*time.Millisecond, b.quick
	}
	if o.Rounds < 1 || (o.Time <= 0 && b.time > 0) {
		return errors.New("--rounds and --time must be above 0")
	}
	for size := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(size)
		if *sizes != "" && (err != nil || n < 1) {
			return fmt.Errorf("--sizes %q: must be numbers above 0", *sizes)
		}
		o.Sizes = append(o.Sizes, n)
	}
	if o.Source, err = filepath.Abs(o.Source); err != nil {
		return err
	}
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	if o.Only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if o.Peers, err = regexp.Compile(*with); err != nil {
		return fmt.Errorf("--peers: %w", err)
	}
	machine := report.Machine(o.Dir)
	page, err := b.run(ctx, o)
	if err != nil {
		return err
	}
	if o.Quick {
		page.How = "This was a quick run: the figures mean nothing."
	}
	if _, err := io.WriteString(stdout, page.String(machine)); err != nil || out == "" {
		return err
	}
	return page.Write(out, machine)
}

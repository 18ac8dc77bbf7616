package fairness

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
)

// Row is what a panel had that sends one stat at a time, while load was going on.
type Row struct {
	load      load
	P50, P99  time.Duration
	PerSecond float64
}

// Figures is the result of a run, the row of a panel that is alone first.
type Figures struct{ Rows []Row }

// mostTail is how many times as long as alone the p99 may be, leastShare what must be left of the throughput.
const (
	mostTail   = 5
	leastShare = 1. / 3
)

// median takes the median of each figure separately.
func median(l load, rows []Row) Row {
	return Row{
		load:      l,
		P50:       middle(rows, func(r Row) time.Duration { return r.P50 }),
		P99:       middle(rows, func(r Row) time.Duration { return r.P99 }),
		PerSecond: middle(rows, func(r Row) float64 { return r.PerSecond }),
	}
}

func middle[T cmp.Ordered](rows []Row, of func(Row) T) T {
	values := make([]T, 0, len(rows))
	for _, r := range rows {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Text is the table and what it means.
func (f Figures) Text() string {
	t := &report.Table{Head: []string{"meanwhile", ">p50", ">p99", ">of alone", ">stats per second", ">of alone", "required"}}
	base := f.Rows[0]
	for _, r := range f.Rows {
		tail, share := float64(r.P99)/float64(base.P99), r.PerSecond/base.PerSecond
		t.Add(r.load.name, report.Duration(r.P50), report.Duration(r.P99), report.Ratio(tail), report.Thousands(int64(r.PerSecond)), report.Ratio(share), verdict(r.load, tail, share))
	}
	return "## One stat at a time beside a greedy panel\n\n" + t.String() + fmt.Sprintf(
		"\nRequired is a p99 of at most %dx of that alone, and a third of the throughput. "+
			"The greedy client gets what others leave of the processors, as though it were on another machine. "+
			"The other program has nothing to do with the server and runs at usual priority: it shows what the system does when all processors are in use.\n", mostTail)
}

func verdict(l load, tail, share float64) string {
	switch {
	case l.other || len(l.jobs) == 0:
		return ""
	case tail <= mostTail && share >= leastShare:
		return "ok"
	}
	return "**short**"
}

// write writes fairness.md.
func (f Figures) write(dir, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	md := "# Fairness\n\nWritten by `make bench-fairness`; [how to read it](../explanation/performance.md).\n\n" + text
	return os.WriteFile(filepath.Join(dir, "fairness.md"), []byte(md), 0o644)
}

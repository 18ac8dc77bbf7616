package firstaccess

import (
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/server"
)

// What is measured: of the copiers to compare with, and after a driver's name.
const (
	plainCopy = "cp -a"
	goCopy    = "otiai10/copy"
	statWalk  = "stat walk"
	cold      = ", nothing there"
	layered   = ", layer built"
	pooled    = ", copy ready"
)

// names are what is reported, in this order.
var names = [...]string{
	plainCopy, goCopy, statWalk, server.DriverCopy + cold, server.DriverOverlay + cold,
	server.DriverCopy + layered, server.DriverCopy + pooled, server.DriverOverlay + layered,
}

// What is required: of 10,000 files how long the first access takes when a copy is ready, and besides the stat walk when overlay has its layer;
// of others how many times as long as with 10,000; of a seeding from nothing how many times as long as cp -a; of a scope how many times as
// long as in a workspace that has only its files.
const (
	poolBound     = 100 * time.Millisecond
	overlayBound  = 25 * time.Millisecond
	overlaySpread = 2
	coldBound     = 1.25
	scopeBound    = 1.25
)

// row is what a workspace of so many files costs, by what was measured.
type row struct {
	files, rounds int
	took          map[string]time.Duration
}

type figures struct{ rows []row }

func (f figures) text() string {
	t := &report.Table{Head: []string{"what"}}
	for _, r := range f.rows {
		t.Head = append(t.Head, fmt.Sprintf(">%s files (%d rounds)", report.Thousands(int64(r.files)), r.rounds))
	}
	for _, name := range names {
		cells := []string{name}
		for _, r := range f.rows {
			cell := "-"
			if d, ok := r.took[name]; ok {
				cell = report.Duration(d)
			}
			cells = append(cells, cell)
		}
		t.Add(cells...)
	}
	return "## First access\n\n" + t.String() +
		"\nEnsureContext over the socket until the folder shows a file, medians, in turns with `cp -a` and otiai10/copy of the same files (1 KiB each). " +
		"The stat walk of the workspace is part of all, and measured by itself; as many files again, twice, lie in `node_modules` and are passed over. " +
		"From nothing, `copy` makes the context in one walk and keeps the layer's content in one file; the layer's tree is written afterwards.\n\n## Required\n\n" + f.required().String()
}

// besides is what the first access takes besides the stat walk when overlay has its layer.
func (r row) besides() (time.Duration, bool) {
	d, ok := r.took[server.DriverOverlay+layered]
	return max(0, d-r.took[statWalk]), ok
}

func (f figures) required() *report.Table {
	t := &report.Table{Head: []string{">files", "what", ">measured", ">required", "met"}}
	var middle time.Duration
	for _, r := range f.rows {
		if r.files == 10_000 {
			middle, _ = r.besides()
		}
	}
	for _, r := range f.rows {
		files := report.Thousands(int64(r.files))
		if d, ok := r.besides(); ok && middle > 0 {
			bound, says := overlayBound, "under "+report.Duration(overlayBound)
			if r.files != 10_000 {
				bound, says = overlaySpread*middle, fmt.Sprintf("at most %dx of 10,000 files", overlaySpread)
			}
			t.Add(files, server.DriverOverlay+layered+", besides the stat walk", report.Duration(d), says, report.Met(d <= bound))
		}
		if d, ok := r.took[server.DriverCopy+pooled]; ok && r.files == 10_000 {
			t.Add(files, server.DriverCopy+pooled, report.Duration(d), "under "+report.Duration(poolBound), report.Met(d < poolBound))
		}
		for _, name := range []string{server.DriverCopy + cold, server.DriverOverlay + cold} {
			if d, ok := r.took[name]; ok && r.took[plainCopy] > 0 {
				times := float64(d) / float64(r.took[plainCopy])
				t.Add(files, name, report.Ratio(times)+" of cp -a", fmt.Sprintf("at most %.2fx", coldBound), report.Met(times <= coldBound))
			}
		}
	}
	return t
}

// plots show time against files, one for each thing measured.
func (f figures) plots() (out []report.Plot) {
	for _, name := range names {
		p := report.Plot{Title: name}
		for _, r := range f.rows {
			if d, ok := r.took[name]; ok {
				p.Bars = append(p.Bars, report.Bar{Name: report.Thousands(int64(r.files)) + " files", Label: report.Duration(d), Value: float64(d), Class: peers.Product})
			}
		}
		if len(p.Bars) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func scopeText(files, all, rounds int, alone, within map[string]time.Duration) string {
	t := &report.Table{Head: []string{
		"what", fmt.Sprintf(">%s files alone", report.Thousands(int64(files))), fmt.Sprintf(">as a scope of %s", report.Thousands(int64(all))), ">ratio", ">required", "met",
	}}
	for _, name := range names {
		if alone, within := alone[name], within[name]; alone > 0 && within > 0 {
			times := float64(within) / float64(alone)
			t.Add(name, report.Duration(alone), report.Duration(within), report.Ratio(times), fmt.Sprintf("at most %.2fx", scopeBound), report.Met(times <= scopeBound))
		}
	}
	return "\n## A scope of a large workspace\n\n" + t.String() +
		fmt.Sprintf("\nA context that is seeded from one folder of a repository (`--seed-from`), in a workspace that has only these files, and in one of two repositories with all. "+
			"All files are committed. Medians of %d rounds, in turns.\n", rounds)
}

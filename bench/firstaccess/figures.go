package firstaccess

import (
	"fmt"
	"os"
	"path/filepath"
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

// Row is what a workspace of so many files costs, by what was measured.
type Row struct {
	Files, Rounds int
	Took          map[string]time.Duration
}

// Figures is the result of a run.
type Figures struct {
	Rows []Row
	// Scope is nil if none was measured.
	Scope *Scope
}

// names are what is reported, in this order.
var names = [...]string{
	plainCopy, goCopy, statWalk, server.DriverCopy + cold, server.DriverOverlay + cold,
	server.DriverCopy + layered, server.DriverCopy + pooled, server.DriverOverlay + layered,
}

// Text is all tables.
func (f Figures) Text() string {
	scope := ""
	if f.Scope != nil {
		scope = f.Scope.Text()
	}
	return "## First access\n\n" + f.table().String() +
		"\nEnsureContext over the socket until the folder shows a file, medians, in turns with `cp -a` and otiai10/copy of the same files (1 KiB each). " +
		"The stat walk of the workspace is part of all, and measured by itself; as many files again, twice, lie in `node_modules` and are passed over. " +
		"From nothing, `copy` makes the context in one walk and keeps the layer's content in one file; the layer's tree is written afterwards.\n\n## Required\n\n" + f.required().String() + scope
}

func (f Figures) table() *report.Table {
	t := &report.Table{Head: []string{"what"}}
	for _, r := range f.Rows {
		t.Head = append(t.Head, fmt.Sprintf(">%s files (%d rounds)", report.Thousands(int64(r.Files)), r.Rounds))
	}
	for _, name := range names {
		cells := []string{name}
		for _, r := range f.Rows {
			cells = append(cells, r.cell(name))
		}
		t.Add(cells...)
	}
	return t
}

func (r Row) cell(name string) string {
	if d, ok := r.Took[name]; ok {
		return report.Duration(d)
	}
	return "-"
}

// poolBound is what the first access of 10,000 files may take when a copy is ready, coldBound how many times
// as long as cp -a a seeding from nothing.
// overlayBound is what it may take besides the stat walk when overlay has its layer, and overlaySpread how many times as
// long as with 10,000 files when there are fewer or more.
const (
	poolBound     = 100 * time.Millisecond
	coldBound     = 1.25
	overlayBound  = 25 * time.Millisecond
	overlaySpread = 2
)

// besides is what the first access takes besides the stat walk when overlay has its layer.
func (r Row) besides() (time.Duration, bool) {
	d, ok := r.Took[server.DriverOverlay+layered]
	return max(0, d-r.Took[statWalk]), ok
}

func (f Figures) required() *report.Table {
	t := &report.Table{Head: []string{">files", "what", ">measured", ">required", "met"}}
	var middle time.Duration
	for _, r := range f.Rows {
		if r.Files == 10_000 {
			middle, _ = r.besides()
		}
	}
	for _, r := range f.Rows {
		if d, ok := r.besides(); ok && middle > 0 {
			bound, says := overlayBound, "under "+report.Duration(overlayBound)
			if r.Files != 10_000 {
				bound, says = overlaySpread*middle, fmt.Sprintf("at most %dx of 10,000 files", overlaySpread)
			}
			t.Add(report.Thousands(int64(r.Files)), server.DriverOverlay+layered+", besides the stat walk", report.Duration(d), says, met(d <= bound))
		}
		files, cp := report.Thousands(int64(r.Files)), r.Took[plainCopy]
		if d, ok := r.Took[server.DriverCopy+pooled]; ok && r.Files == 10_000 {
			t.Add(files, server.DriverCopy+pooled, report.Duration(d), "under "+report.Duration(poolBound), met(d < poolBound))
		}
		for _, name := range []string{server.DriverCopy + cold, server.DriverOverlay + cold} {
			if d, ok := r.Took[name]; ok && cp > 0 {
				times := float64(d) / float64(cp)
				t.Add(files, name, report.Ratio(times)+" of cp -a", fmt.Sprintf("at most %.2fx", coldBound), met(times <= coldBound))
			}
		}
	}
	return t
}

func met(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// plots show time against files, one for each thing measured.
func (f Figures) plots() []report.Plot {
	var out []report.Plot
	for _, name := range names {
		p := report.Plot{Title: name}
		for _, r := range f.Rows {
			if d, ok := r.Took[name]; ok {
				p.Bars = append(p.Bars, report.Bar{
					Name: report.Thousands(int64(r.Files)) + " files", Label: report.Duration(d), Value: float64(d), Role: peers.Product,
				})
			}
		}
		if len(p.Bars) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// write writes first-access.md and first-access.svg.
func (f Figures) write(dir, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	md := "# First access\n\nWritten by `make bench-first-access`; [the drivers](../explanation/drivers.md).\n\n![Time by number of files](first-access.svg)\n\n" + text
	if err := os.WriteFile(filepath.Join(dir, "first-access.md"), []byte(md), 0o644); err != nil {
		return err
	}
	svg := report.SVG("First access by number of files", "each plot has a scale of its own; shorter is better", f.plots())
	return os.WriteFile(filepath.Join(dir, "first-access.svg"), []byte(svg), 0o644)
}

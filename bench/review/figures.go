package review

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
	"github.com/ctxfs/ctxfs/server"
)

// What is measured.
const (
	firstList = "first ListChanges"
	listing   = "ListChanges"
	statWalk  = "stat walk"
	diff      = "GetDiff"
	gitDiff   = "git diff"
	apply     = "Apply"
	gitApply  = "git apply"
	// approveAndApply is Apply with approve set, of contents that the server has not seen.
	approveAndApply = "approve + Apply"
)

// Row is what was measured of a context with so many files, some of them changed.
type Row struct {
	Files, Changed int
	Driver         string
	Took           map[string]time.Duration
}

// Figures is the result of a run.
type Figures struct {
	// Sizes are of workspaces of several sizes in which few files changed, Changed of one with Files in which more and more changed.
	Sizes, Changed []Row
	Files, Rounds  int
}

// Text is all tables.
func (f Figures) Text() string {
	return "## By number of files\n\n" + table(f.Sizes, firstList, listing, statWalk) +
		"\n## By number of changed files\n\n" + table(f.Changed, listing, statWalk, diff, gitDiff, apply, gitApply, approveAndApply) +
		fmt.Sprintf("\nMedians of %d rounds (of the first ListChanges, at most %d), over the socket; each round measures both sides in turns, with contents ", f.Rounds, firsts) +
		"that are new to both. Files have 1 KiB; one line of each changed file changed. The stat walk reads the attributes of all files of the context, in this " +
		"process. `git diff` and `git apply` run on the same files. Apply applies what is approved. \"approve + Apply\" is one call, which lists and keeps the changes " +
		"first, as `git diff` does before `git apply`. Apply returns when everything is on the disk; `git apply` leaves that to the system.\n\n## Required\n\n" +
		f.required().String()
}

func table(rows []Row, names ...string) string {
	t := &report.Table{Head: []string{"driver", ">files", ">changed"}}
	for _, name := range names {
		t.Head = append(t.Head, ">"+name)
	}
	for _, r := range rows {
		cells := []string{r.Driver, report.Thousands(int64(r.Files)), report.Thousands(int64(r.Changed))}
		for _, name := range names {
			cells = append(cells, report.Duration(r.Took[name]))
		}
		t.Add(cells...)
	}
	return t.String()
}

// The requirements: of ListChanges with 10 changed among 10,000, and of GetDiff and Apply with 1,000 changed.
const (
	overlayBound = 10 * time.Millisecond
	copyBound    = 1.5
	diffBound    = 1.0
	applyBound   = 2.0
	manyFiles    = 10_000
	manyChanged  = 1_000
)

func (f Figures) required() *report.Table {
	t := &report.Table{Head: []string{"what", "driver", ">measured", ">required", "met"}}
	ratio := func(r Row, what, of string, most float64) {
		times := float64(r.Took[what]) / float64(max(1, r.Took[of]))
		t.Add(what+" with "+report.Thousands(int64(r.Changed))+" changed", r.Driver, report.Ratio(times)+" of "+of, fmt.Sprintf("at most %.1fx", most), met(times <= most))
	}
	for _, r := range f.Changed {
		switch {
		case r.Files != manyFiles:
		case r.Changed == few && r.Driver == server.DriverCopy:
			ratio(r, listing, statWalk, copyBound)
		case r.Changed == few:
			t.Add(listing+" with 10 changed", r.Driver, report.Duration(r.Took[listing]), "under "+report.Duration(overlayBound), met(r.Took[listing] < overlayBound))
		case r.Changed == manyChanged:
			ratio(r, diff, gitDiff, diffBound)
			ratio(r, apply, gitApply, applyBound)
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

// plots show the time of ListChanges against files, and against changed files.
func (f Figures) plots() []report.Plot {
	var out []report.Plot
	bar := func(r Row, name string) report.Bar {
		return report.Bar{Name: name, Label: report.Duration(r.Took[listing]), Value: float64(r.Took[listing]), Role: peers.Product}
	}
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		files := report.Plot{Title: driver + ", 10 files changed"}
		for _, r := range f.Sizes {
			if r.Driver == driver {
				files.Bars = append(files.Bars, bar(r, report.Thousands(int64(r.Files))+" files"))
			}
		}
		changed := report.Plot{Title: fmt.Sprintf("%s, of %s files", driver, report.Thousands(int64(f.Files)))}
		for _, r := range f.Changed {
			if r.Driver == driver {
				changed.Bars = append(changed.Bars, bar(r, report.Thousands(int64(r.Changed))+" changed"))
			}
		}
		for _, p := range []report.Plot{files, changed} {
			if len(p.Bars) > 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

// write writes review.md and review.svg.
func (f Figures) write(dir, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	md := "# Review\n\nWritten by `make bench-review`; [what a review is](../how-to/review.md).\n\n![Time of ListChanges](review.svg)\n\n" + text
	if err := os.WriteFile(filepath.Join(dir, "review.md"), []byte(md), 0o644); err != nil {
		return err
	}
	svg := report.SVG("ListChanges by number of files, and of changed files", "each plot has a scale of its own; shorter is better", f.plots())
	return os.WriteFile(filepath.Join(dir, "review.svg"), []byte(svg), 0o644)
}

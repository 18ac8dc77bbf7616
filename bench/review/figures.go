package review

import (
	"fmt"
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

// row is what was measured of a context with so many files, some of them changed.
type row struct {
	files, changed int
	driver         string
	took           map[string]time.Duration
}

// figures is the result of a run: sizes of workspaces of several sizes in which few files changed, changed of one in which more and more did.
type figures struct {
	sizes, changed []row
	files, rounds  int
}

func (f figures) text() string {
	return "## By number of files\n\n" + table(f.sizes, firstList, listing, statWalk) +
		"\n## By number of changed files\n\n" + table(f.changed, listing, statWalk, diff, gitDiff, apply, gitApply, approveAndApply) +
		fmt.Sprintf("\nMedians of %d rounds (of the first ListChanges, at most %d), over the socket; each round measures both sides in turns, with contents ", f.rounds, firsts) +
		"that are new to both. Files have 1 KiB; one line of each changed file changed. The stat walk reads the attributes of all files of the context, in this " +
		"process. `git diff` and `git apply` run on the same files. Apply applies what is approved. \"approve + Apply\" is one call, which lists and keeps the changes " +
		"first, as `git diff` does before `git apply`. Apply returns when everything is on the disk; `git apply` leaves that to the system.\n\n## Required\n\n" +
		f.required().String()
}

func table(rows []row, names ...string) string {
	t := &report.Table{Head: []string{"driver", ">files", ">changed"}}
	for _, name := range names {
		t.Head = append(t.Head, ">"+name)
	}
	for _, r := range rows {
		cells := []string{r.driver, report.Thousands(int64(r.files)), report.Thousands(int64(r.changed))}
		for _, name := range names {
			cells = append(cells, report.Duration(r.took[name]))
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

func (f figures) required() *report.Table {
	t := &report.Table{Head: []string{"what", "driver", ">measured", ">required", "met"}}
	ratio := func(r row, what, of string, most float64) {
		times := float64(r.took[what]) / float64(max(1, r.took[of]))
		t.Add(what+" with "+report.Thousands(int64(r.changed))+" changed", r.driver, report.Ratio(times)+" of "+of, fmt.Sprintf("at most %.1fx", most), report.Met(times <= most))
	}
	for _, r := range f.changed {
		switch {
		case r.files != manyFiles:
		case r.changed == few && r.driver == server.DriverCopy:
			ratio(r, listing, statWalk, copyBound)
		case r.changed == few:
			t.Add(listing+" with 10 changed", r.driver, report.Duration(r.took[listing]), "under "+report.Duration(overlayBound), report.Met(r.took[listing] < overlayBound))
		case r.changed == manyChanged:
			ratio(r, diff, gitDiff, diffBound)
			ratio(r, apply, gitApply, applyBound)
		}
	}
	return t
}

// plots show the time of ListChanges against files, and against changed files.
func (f figures) plots() (out []report.Plot) {
	add := func(title, driver, unit string, rows []row, count func(row) int) {
		p := report.Plot{Title: driver + title}
		for _, r := range rows {
			if r.driver == driver {
				d := r.took[listing]
				p.Bars = append(p.Bars, report.Bar{Name: report.Thousands(int64(count(r))) + unit, Label: report.Duration(d), Value: float64(d), Class: peers.Product})
			}
		}
		if len(p.Bars) > 0 {
			out = append(out, p)
		}
	}
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		add(", 10 files changed", driver, " files", f.sizes, func(r row) int { return r.files })
		add(fmt.Sprintf(", of %s files", report.Thousands(int64(f.files))), driver, " changed", f.changed, func(r row) int { return r.changed })
	}
	return out
}

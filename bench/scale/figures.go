package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
)

// Figures is what was found.
type Figures struct {
	Panels      []PanelRow
	Directories []DirectoryRow
	Ranges      []RangeRow
	// HandleHeap is bytes of the server's heap for an open handle, OpenEach how long each took.
	HandleHeap float64
	OpenEach   time.Duration
}

// PanelRow is a server with so many panels.
type PanelRow struct {
	Panels int
	// None is its memory while none has a session; Shared with one each on one connection; Own
	// with a connection each.
	None, Shared, Own Memory
	// Resident is its memory as the system sees it, in bytes, and Idle its share of a
	// processor, both with sessions on one connection.
	Resident int64
	Idle     float64
}

// perSession is the heap and the stacks that a session adds, in bytes.
func (r PanelRow) perSession(with Memory) (heap, all float64) {
	n := float64(r.Panels)
	heap = float64(with.Heap-r.None.Heap) / n
	return heap, heap + float64(with.Stacks-r.None.Stacks)/n
}

// DirectoryRow is a listing with attributes.
type DirectoryRow struct {
	Entries int
	Took    time.Duration
}

// RangeRow is a read of 256 KiB at an offset of a file of 4 GiB.
type RangeRow struct {
	Offset int64
	Took   time.Duration
}

// The requirements, in bytes of heap.
const (
	mostSession = 40 << 10
	mostHandle  = 256
)

// Text is all tables.
func (f Figures) Text() string {
	return "## Panels with idle sessions\n\n" + f.panelTable().String() +
		"\nHeap is of live objects after a collection; in brackets with the stacks of goroutines.\n\n## Required\n\n" + f.required().String() +
		"\n## Directories with attributes\n\n" + f.directoryTable().String() +
		"\n## A sparse file of 4 GiB, 256 KiB a read\n\n" + f.rangeTable().String()
}

func (f Figures) panelTable() *report.Table {
	t := &report.Table{Head: []string{
		">panels", ">heap", ">RSS", ">goroutines", ">idle CPU", ">a session, one connection", ">a session, a connection each",
	}}
	for _, r := range f.Panels {
		t.Add(report.Thousands(int64(r.Panels)), report.Bytes(float64(r.Shared.Heap)), report.Bytes(float64(r.Resident)),
			report.Thousands(int64(r.Shared.Goroutines)), fmt.Sprintf("%.1f %%", 100*r.Idle), r.cost(r.Shared), r.cost(r.Own))
	}
	return t
}

func (r PanelRow) cost(with Memory) string {
	heap, all := r.perSession(with)
	return report.Bytes(max(heap, 0)) + " (" + report.Bytes(max(all, 0)) + ")"
}

func (f Figures) required() *report.Table {
	t := &report.Table{Head: []string{"cell", "required", "measured", ""}}
	if n := len(f.Panels); n > 0 {
		last := f.Panels[n-1]
		for _, c := range []struct {
			name string
			with Memory
		}{{"idle session, on one connection", last.Shared}, {"idle session, a connection each", last.Own}} {
			heap, _ := last.perSession(c.with)
			t.Add(c.name, "under 40 KiB of heap", report.Bytes(heap), word(heap < mostSession))
		}
	}
	t.Add("open handle", "under 256 B of heap", report.Bytes(f.HandleHeap), word(f.HandleHeap < mostHandle))
	return t
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "**short**"
}

func (f Figures) directoryTable() *report.Table {
	t := &report.Table{Head: []string{">entries", ">listed in", ">an entry"}}
	for _, r := range f.Directories {
		t.Add(report.Thousands(int64(r.Entries)), report.Duration(r.Took), report.Duration(r.Took/time.Duration(r.Entries)))
	}
	return t
}

func (f Figures) rangeTable() *report.Table {
	t := &report.Table{Head: []string{">offset", ">p50"}}
	for _, r := range f.Ranges {
		t.Add(report.Thousands(r.Offset), report.Duration(r.Took))
	}
	return t
}

// plots are of what should grow with the panels, and of what should not.
func (f Figures) plots() []report.Plot {
	heap, goroutines, session := report.Plot{Title: "heap"}, report.Plot{Title: "goroutines"}, report.Plot{Title: "heap of one session"}
	list := report.Plot{Title: "listing with attributes"}
	for _, r := range f.Panels {
		name := report.Thousands(int64(r.Panels)) + " panels"
		if r.Panels == 1 {
			name = "1 panel"
		}
		one, _ := r.perSession(r.Shared)
		heap.Bars = append(heap.Bars, bar(name, report.Bytes(float64(r.Shared.Heap)), float64(r.Shared.Heap)))
		goroutines.Bars = append(goroutines.Bars, bar(name, report.Thousands(int64(r.Shared.Goroutines)), float64(r.Shared.Goroutines)))
		session.Bars = append(session.Bars, bar(name, report.Bytes(max(one, 0)), max(one, 0)))
	}
	for _, r := range f.Directories {
		list.Bars = append(list.Bars, bar(report.Thousands(int64(r.Entries)), report.Duration(r.Took), float64(r.Took)))
	}
	return []report.Plot{heap, goroutines, session, list}
}

func bar(name, label string, value float64) report.Bar {
	return report.Bar{Name: name, Label: label, Value: value, Role: peers.Product}
}

// write writes scale.md and scale.svg.
func (f Figures) write(dir, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	md := "# Scale\n\nWritten by `make bench-scale`; [how to read it](../explanation/performance.md).\n\n![Cost by number of panels](scale.svg)\n\n" + text
	if err := os.WriteFile(filepath.Join(dir, "scale.md"), []byte(md), 0o644); err != nil {
		return err
	}
	svg := report.SVG("Cost by size", "a server with 1 to 1,000 panels, each with an idle session on one connection; shorter is better", f.plots())
	return os.WriteFile(filepath.Join(dir, "scale.svg"), []byte(svg), 0o644)
}

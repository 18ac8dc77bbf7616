package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/bench/report"
)

// The names of cells.
const (
	smallCell = "file of 4 KiB"
	largeCell = "file of 256 MiB"
	listCell  = "listing of 10,000 files"
)

// figures is the result of a run.
type figures struct {
	Options
	machine string
	missing []string
	results report.Results
	streams streamFigures
}

// required is what a site's rate must be of nginx's, by cell.
var required = []struct {
	cell  string
	least float64
}{{smallCell + "/1", 0.8}, {smallCell + "/32", 0.8}, {largeCell + "/1", 1}}

func (f *figures) text() string {
	var b strings.Builder
	if f.Sizes != Full() {
		b.WriteString("This was a quick run on smaller files: the figures mean nothing.\n\n")
	}
	fmt.Fprintf(&b, "%s. Median of %d rounds of %s, all servers in turns.\n\n", f.machine, f.Rounds, f.Time)
	for _, m := range f.missing {
		fmt.Fprintf(&b, "**Missing here, and not measured:** %s.\n\n", m)
	}
	b.WriteString(f.results.Table().String())
	b.WriteString("\n`rate/s` is requests (bytes for 256 MiB), `CPU/op` of client and server together, `ctxfs is` its rate divided by the peer's. " +
		"All serve the same directory over loopback TCP without TLS, each as a process of its own. The client is the bench's own: one connection for each request " +
		"at once, of which it reads the length and the body only. ctxfs serves a site of the host form with all checks; nginx is Debian's with `sendfile` and " +
		"`autoindex`, `http.FileServer` is Go's.\n\n## Required\n\n")
	b.WriteString(f.verdicts().String())
	b.WriteString("\n## Event streams\n\n")
	t := &report.Table{Head: []string{"what", ">measured"}}
	n := report.Thousands(int64(f.Sizes.Streams))
	t.Add("heap and stacks for each of "+n+" streams", report.Bytes(f.streams.Heap))
	t.Add("resident memory for each", report.Bytes(f.streams.Resident))
	t.Add("goroutines for each", fmt.Sprintf("%.1f", f.streams.Goroutines))
	t.Add("from a change to its event, the first stream", report.Duration(f.streams.First))
	t.Add("from a change to its event, the last of "+n, report.Duration(f.streams.Last))
	b.WriteString(t.String())
	fmt.Fprintf(&b, "\nThe streams are of one site with live reload, each on a connection of its own. Heap and stacks are what they add after a collection; resident memory "+
		"is what the system counts. A change is a write to a file of the site; the times are medians of %d changes, and include the 50 ms in which the server gathers changes.\n", f.Sizes.Edits)
	return b.String()
}

func (f *figures) verdicts() *report.Table {
	t := &report.Table{Head: []string{"cell", ">required", ">measured", ""}}
	for _, r := range required {
		name, at, _ := strings.Cut(r.cell, "/")
		measured, word := "", "not measured"
		if ratio, ok := f.results.Against(r.cell, "nginx"); ok {
			measured, word = report.Ratio(ratio)+" nginx", "ok"
			if ratio < r.least {
				word = "**short**"
			}
		}
		t.Add(name+", at once: "+at, fmt.Sprintf("at least %.1fx nginx", r.least), measured, word)
	}
	return t
}

// byHand begins what 'make bench-gateway' keeps of an earlier gateway.md: figures that a test in a browser prints.
const byHand = "\n## Edit to reload\n"

// write writes gateway.md.
func write(dir, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, "gateway.md")
	earlier, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	_, kept, found := strings.Cut(string(earlier), byHand)
	if found {
		kept = byHand + kept
	}
	md := "# Sites: how fast they are\n\nWritten by `make bench-gateway`; [how to read it](../explanation/performance.md), all but the section on edits.\n\n" + text + kept
	return os.WriteFile(name, []byte(md), 0o644)
}

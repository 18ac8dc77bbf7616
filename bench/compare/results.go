package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
)

// product is the peer that all others are held against: ctxfs on the unix socket.
const product = "ctxfs"

// Result is what a peer did in a cell: the medians of its rounds.
type Result struct {
	Cell *Cell
	Peer *peers.Peer
	report.Round
}

// Results is all that was measured.
type Results []Result

// find returns what a peer did in a cell. The peer "" is the rival with the highest rate.
func (rs Results) find(cell, peer string) (best Result, ok bool) {
	for _, r := range rs {
		if r.Cell.Key() == cell && (r.Peer.Name == peer || peer == "" && r.Peer.Role == peers.Rival && r.Rate > best.Rate) {
			best, ok = r, true
		}
	}
	return best, ok
}

// byCell keeps the order in which cells ran.
func (rs Results) byCell() (out [][]Result) {
	for _, r := range rs {
		if n := len(out); n > 0 && out[n-1][0].Cell == r.Cell {
			out[n-1] = append(out[n-1], r)
		} else {
			out = append(out, []Result{r})
		}
	}
	return out
}

// Table is the one table: a row for each cell and peer.
func (rs Results) Table() *report.Table {
	t := &report.Table{Head: []string{"cell", ">at once", "peer", ">rate/s", ">p50", ">p99", ">CPU/op", ">ctxfs is"}}
	for _, group := range rs.byCell() {
		for i, r := range group {
			name, n, times := r.Cell.Name, report.Thousands(int64(r.Cell.Concurrency)), ""
			if i > 0 {
				name, n = "", ""
			}
			if own, ok := rs.find(r.Cell.Key(), product); ok && r.Rate > 0 && r.Peer.Name != product {
				times = report.Ratio(own.Rate / r.Rate)
			}
			t.Add(name, n, r.Peer.Name, r.rate(), report.Duration(r.P50), report.Duration(r.P99), report.Duration(r.CPU), times)
		}
	}
	return t
}

// rate is of bytes for what moves many.
func (r Result) rate() string {
	if r.Cell.Bytes > 0 {
		return report.Bytes(r.Rate * float64(r.Cell.Bytes))
	}
	return report.Rate(r.Rate)
}

// chart has a plot for each cell: the rates of ctxfs, of its peers and, in grey, of a transport that does nothing. Local calls are left out:
// nothing would be seen beside them.
func (rs Results) chart() report.Chart {
	c := report.Chart{Title: "Rates of ctxfs and its peers", Subtitle: "operations or bytes a second on one machine, longer is better; grey: a limit, not a peer"}
	for _, group := range rs.byCell() {
		p := report.Plot{Title: fmt.Sprintf("%s, %d at once", group[0].Cell.Name, group[0].Cell.Concurrency)}
		for _, r := range group {
			if r.Peer.Name != "local" {
				p.Bars = append(p.Bars, report.Bar{Name: r.Peer.Name, Label: r.rate(), Value: r.Rate, Class: r.Peer.Role})
			}
		}
		slices.SortStableFunc(p.Bars, func(a, b report.Bar) int { return cmp.Compare(b.Value, a.Value) })
		if len(p.Bars) > 1 {
			c.Plots = append(c.Plots, p)
		}
	}
	return c
}

// Rule is what must be reached: own's rate is at least factor times that of a peer, "" being the best rival. With plus, own's p50 is at most
// factor times the peer's, and plus.
type Rule struct {
	Title, Cell, Own, Peer string
	Factor                 float64
	Plus                   time.Duration
}

const npm, json = "ctxfs-node", "json-ws-node"

var rules = []Rule{
	{"stat, 1, unix socket", "stat/1", product, "echo-stream", 1.15, 5 * time.Microsecond},
	{"stat, 1, TCP", "stat/1", "ctxfs-tcp", "echo-stream-tcp", 1.15, 5 * time.Microsecond},
	{"stat, 32", "stat/32", product, "", 2.5, 0},
	{"read 4 KiB, 1, unix socket", "read 4 KiB/1", product, "echo-stream", 1.15, 10 * time.Microsecond},
	{"read 4 KiB, 1, TCP", "read 4 KiB/1", "ctxfs-tcp", "echo-stream-tcp", 1.15, 10 * time.Microsecond},
	{"read 4 KiB, 32", "read 4 KiB/32", product, "", 2, 0},
	{"overwrite 4 KiB, 1", "overwrite 4 KiB/1", product, "", 3, 0},
	{"overwrite 4 KiB, 32", "overwrite 4 KiB/32", product, "", 3, 0},
	{"readdir 1,000 with stats, 1", "readdir 1,000 with stats/1", product, "", 1, 0},
	{"readdir 1,000 with stats, 32", "readdir 1,000 with stats/32", product, "", 1, 0},
	{"status walk, 1", "status walk of 10,000/1", product, "", 2, 0},
	{"status walk, 32", "status walk of 10,000/32", product, "", 2, 0},
	{"read 256 MiB", "read 256 MiB/1", product, "", 1, 0},
	{"write 256 MiB", "write 256 MiB/1", product, "", 1, 0},
	{"grep 5,000 files", "grep 5,000 files/32", product, "ripgrep", 0.5, 0},
	{"npm client: stat, 1", "stat/1", npm, json, 3, 0},
	{"npm client: stat, 32", "stat/32", npm, json, 3, 0},
	{"npm client: read 4 KiB, 1", "read 4 KiB/1", npm, json, 3, 0},
	{"npm client: read 4 KiB, 32", "read 4 KiB/32", npm, json, 3, 0},
	{"npm client: status walk, 1", "status walk of 10,000/1", npm, json, 3, 0},
	{"npm client: status walk, 32", "status walk of 10,000/32", npm, json, 3, 0},
	{"npm client: read 256 MiB", "read 256 MiB/1", npm, json, 8, 0},
}

// Required is a table of rules with what was measured.
func (rs Results) Required(rules []Rule) string {
	t := &report.Table{Head: []string{"cell", "required", "measured", "met"}}
	for _, r := range rules {
		t.Add(append([]string{r.Title}, r.judge(rs)...)...)
	}
	return t.String()
}

// judge returns what is required, what was measured, and whether that is enough.
func (r Rule) judge(rs Results) []string {
	required := fmt.Sprintf("%gx %s", r.Factor, cmp.Or(r.Peer, "the best peer"))
	if r.Plus > 0 {
		required = fmt.Sprintf("p50 at most %s x %.2f + %s", r.Peer, r.Factor, report.Duration(r.Plus))
	}
	own, have := rs.find(r.Cell, r.Own)
	peer, known := rs.find(r.Cell, r.Peer)
	switch {
	case !have || !known:
		return []string{required, "", "not measured"}
	case r.Plus > 0:
		most := time.Duration(math.Round(float64(peer.P50)*r.Factor)) + r.Plus
		return []string{required, fmt.Sprintf("%s, at most %s (echo %s)", report.Duration(own.P50), report.Duration(most), report.Duration(peer.P50)), report.Met(own.P50 <= most)}
	}
	measured := report.Ratio(own.Rate/peer.Rate) + " " + peer.Peer.Name
	if tcp, ok := rs.find(r.Cell, r.Own+"-tcp"); ok {
		measured += fmt.Sprintf(" (TCP %s)", report.Ratio(tcp.Rate/peer.Rate))
	}
	return []string{required, measured, report.Met(own.Rate >= r.Factor*peer.Rate)}
}

package report

import (
	"fmt"
	"math"
	"time"

	"github.com/ctxfs/ctxfs/bench/figure"
)

// Verdict is a requirement with what was measured.
type Verdict struct {
	Cell, Required, Measured string
	// Known is false when what it needs was not measured.
	Known, OK bool
}

// Word is what the table says: ok, short, or that it was not measured.
func (v Verdict) Word() string {
	switch {
	case !v.Known:
		return "not measured"
	case v.OK:
		return "ok"
	}
	return "**short**"
}

// requirement is one row of what must be reached.
type requirement struct {
	title string
	judge func(rs Results) Verdict
}

func requirements() []requirement {
	const stat, read, over, list = "stat", "read 4 KiB", "overwrite 4 KiB", "readdir 1,000 with stats"
	const walk, bulk, npm, json = "status walk of 10,000", "read 256 MiB", product + "-node", "json-ws-node"
	return []requirement{
		{"stat, 1, unix socket", floor("stat/1", "ctxfs", "echo-stream", 1.15, 5*time.Microsecond)},
		{"stat, 1, TCP", floor("stat/1", "ctxfs-tcp", "echo-stream-tcp", 1.15, 5*time.Microsecond)},
		{"stat, 32", lead(stat+"/32", 2.5)},
		{"read 4 KiB, 1, unix socket", floor(read+"/1", "ctxfs", "echo-stream", 1.15, 10*time.Microsecond)},
		{"read 4 KiB, 1, TCP", floor(read+"/1", "ctxfs-tcp", "echo-stream-tcp", 1.15, 10*time.Microsecond)},
		{"read 4 KiB, 32", lead(read+"/32", 2)},
		{"overwrite 4 KiB, 1", lead(over+"/1", 3)},
		{"overwrite 4 KiB, 32", lead(over+"/32", 3)},
		{"readdir 1,000 with stats, 1", lead(list+"/1", 1)},
		{"readdir 1,000 with stats, 32", lead(list+"/32", 1)},
		{"status walk, 1, JSON service", times(walk+"/1", "json-ws", 5)},
		{"status walk, 1, best peer", lead(walk+"/1", 2)},
		{"status walk, 32, JSON service", times(walk+"/32", "json-ws", 5)},
		{"status walk, 32, best peer", lead(walk+"/32", 2)},
		{"read 256 MiB", lead(bulk+"/1", 1)},
		{"write 256 MiB", lead("write 256 MiB/1", 1)},
		{"grep 5,000 files", times("grep 5,000 files/32", "ripgrep", 0.5)},
		{"confinement: read 4 KiB", within("confined read 4 KiB/1", "rootfs", "plain", 1.1)},
		{"npm client: stat, 1", between(stat+"/1", npm, json, 3)},
		{"npm client: stat, 32", between(stat+"/32", npm, json, 3)},
		{"npm client: read 4 KiB, 1", between(read+"/1", npm, json, 3)},
		{"npm client: read 4 KiB, 32", between(read+"/32", npm, json, 3)},
		{"npm client: status walk, 1", between(walk+"/1", npm, json, 3)},
		{"npm client: status walk, 32", between(walk+"/32", npm, json, 3)},
		{"npm client: read 256 MiB", between(bulk+"/1", npm, json, 8)},
	}
}

// Verdicts judges every requirement.
func (rs Results) Verdicts() []Verdict {
	var out []Verdict
	for _, r := range requirements() {
		v := r.judge(rs)
		v.Cell = r.title
		out = append(out, v)
	}
	return out
}

// Required is the second table.
func (rs Results) Required() *Table {
	t := &Table{Head: []string{"cell", "required", "measured", ""}}
	for _, v := range rs.Verdicts() {
		t.Add(v.Cell, v.Required, v.Measured, v.Word())
	}
	return t
}

// floor requires that own's p50 is at most factor times the p50 of the transport's echo, plus plus.
func floor(cell, own, echo string, factor float64, plus time.Duration) func(Results) Verdict {
	return func(rs Results) Verdict {
		v := Verdict{Required: fmt.Sprintf("p50 at most %s x %.2f + %s", echo, factor, Duration(plus))}
		a, have := rs.find(cell, own)
		b, known := rs.find(cell, echo)
		if v.Known = have && known; !v.Known {
			return v
		}
		most := time.Duration(math.Round(float64(b.P50)*factor)) + plus
		v.OK = a.P50 <= most
		v.Measured = fmt.Sprintf("%s, at most %s (echo %s)", Duration(a.P50), Duration(most), Duration(b.P50))
		return v
	}
}

// lead requires that ctxfs is at least factor times as fast as the best rival.
func lead(cell string, factor float64) func(Results) Verdict {
	return func(rs Results) Verdict {
		name, m, ok := rs.best(cell)
		v := Verdict{Required: fmt.Sprintf("%gx the best peer", factor)}
		return v.compare(rs, cell, product, name, m, ok, factor)
	}
}

// times requires that ctxfs is at least factor times as fast as one peer.
func times(cell, peer string, factor float64) func(Results) Verdict {
	return between(cell, product, peer, factor)
}

// between requires that one of ctxfs's clients is at least factor times as fast as a peer.
func between(cell, own, peer string, factor float64) func(Results) Verdict {
	return func(rs Results) Verdict {
		m, ok := rs.find(cell, peer)
		v := Verdict{Required: fmt.Sprintf("%gx %s", factor, peer)}
		return v.compare(rs, cell, own, peer, m, ok, factor)
	}
}

func (v Verdict) compare(rs Results, cell, client, peer string, other figure.Round, ok bool, factor float64) Verdict {
	own, have := rs.find(cell, client)
	if v.Known = have && ok && other.Rate > 0; !v.Known {
		return v
	}
	ratio := own.Rate / other.Rate
	v.OK = ratio >= factor
	v.Measured = Ratio(ratio) + " " + peer
	if tcp, ok := rs.find(cell, client+"-tcp"); ok {
		v.Measured += fmt.Sprintf(" (TCP %s)", Ratio(tcp.Rate/other.Rate))
	}
	return v
}

// within requires that own's p50 is at most factor times the p50 of plain calls.
func within(cell, own, plain string, factor float64) func(Results) Verdict {
	return func(rs Results) Verdict {
		v := Verdict{Required: fmt.Sprintf("p50 at most %gx plain calls", factor)}
		a, have := rs.find(cell, own)
		b, known := rs.find(cell, plain)
		if v.Known = have && known && b.P50 > 0; !v.Known {
			return v
		}
		ratio := float64(a.P50) / float64(b.P50)
		v.OK = ratio <= factor
		v.Measured = fmt.Sprintf("%s (%s, plain %s)", Ratio(ratio), Duration(a.P50), Duration(b.P50))
		return v
	}
}

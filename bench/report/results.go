package report

import (
	"github.com/ctxfs/ctxfs/bench/cells"
	"github.com/ctxfs/ctxfs/bench/figure"
	"github.com/ctxfs/ctxfs/bench/peers"
)

// product is the peer that all others are held against: ctxfs on the unix socket.
const product = "ctxfs"

// Results is all that was measured.
type Results []cells.Result

// find returns a peer's medians in a cell.
func (rs Results) find(cell, peer string) (figure.Round, bool) {
	for _, r := range rs {
		if r.Cell.Key() == cell && r.Peer.Name == peer {
			return r.Median, true
		}
	}
	return figure.Round{}, false
}

// best returns the rival with the highest rate in a cell, or the lowest p50 at concurrency 1.
func (rs Results) best(cell string) (name string, m figure.Round, ok bool) {
	for _, r := range rs {
		if r.Cell.Key() != cell || r.Peer.Role != peers.Rival {
			continue
		}
		if !ok || r.Median.Rate > m.Rate {
			name, m, ok = r.Peer.Name, r.Median, true
		}
	}
	return name, m, ok
}

// byCell keeps the order in which cells ran.
func (rs Results) byCell() [][]cells.Result {
	var out [][]cells.Result
	for _, r := range rs {
		if n := len(out); n > 0 && out[n-1][0].Cell == r.Cell {
			out[n-1] = append(out[n-1], r)
			continue
		}
		out = append(out, []cells.Result{r})
	}
	return out
}

// Table is the one table: a row for each cell and peer.
func (rs Results) Table() *Table {
	t := &Table{Head: []string{"cell", ">at once", "peer", ">rate/s", ">p50", ">p99", ">CPU/op", ">ctxfs is"}}
	for _, group := range rs.byCell() {
		for i, r := range group {
			name, n := r.Cell.Name, Thousands(int64(r.Cell.Concurrency))
			if i > 0 {
				name, n = "", ""
			}
			t.Add(name, n, r.Peer.Name, rate(r), Duration(r.Median.P50), Duration(r.Median.P99), Duration(r.Median.CPU), rs.against(r))
		}
	}
	return t
}

// rate is of bytes for what moves many.
func rate(r cells.Result) string {
	if r.Cell.Bytes > 0 {
		return Bytes(r.Median.Rate * float64(r.Cell.Bytes))
	}
	return Rate(r.Median.Rate)
}

// against is how many times as fast ctxfs is as this peer.
func (rs Results) against(r cells.Result) string {
	ratio, ok := rs.Against(r.Cell.Key(), r.Peer.Name)
	if !ok || r.Peer.Name == product {
		return ""
	}
	return Ratio(ratio)
}

// Against returns how many times as fast ctxfs is as a peer in a cell; ok is false if it was not measured.
func (rs Results) Against(cell, peer string) (ratio float64, ok bool) {
	own, have := rs.find(cell, product)
	other, known := rs.find(cell, peer)
	if !have || !known || other.Rate == 0 {
		return 0, false
	}
	return own.Rate / other.Rate, true
}

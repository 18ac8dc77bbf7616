package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/bench/cells"
	"github.com/ctxfs/ctxfs/bench/figure"
	"github.com/ctxfs/ctxfs/bench/peers"
	"github.com/ctxfs/ctxfs/bench/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTable(t *testing.T) {
	table := report.Table{Head: []string{"peer", ">rate"}}
	table.Add("ctxfs", "1")
	table.Add("nginx", "1,234")
	const want = `| peer  |  rate |
|-------|------:|
| ctxfs |     1 |
| nginx | 1,234 |
`
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"microseconds", report.Duration(8420 * time.Nanosecond), "8.42 us"},
		{"milliseconds", report.Duration(12 * time.Millisecond), "12.0 ms"},
		{"seconds", report.Duration(1500 * time.Millisecond), "1.50 s"},
		{"a rate with thousands apart", report.Rate(140210.4), "140,210"},
		{"a low rate", report.Rate(4.351), "4.35"},
		{"millions", report.Thousands(1234567), "1,234,567"},
		{"negative", report.Thousands(-123456), "-123,456"},
		{"bytes", report.Bytes(12), "12.0 B"},
		{"KiB", report.Bytes(12.5 * 1024), "12.5 KiB"},
		{"GiB", report.Bytes(2.07 * (1 << 30)), "2.07 GiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%q, want %q", c.got, c.want)
			}
		})
	}
}

var (
	own    = &peers.Peer{Name: "ctxfs", Role: peers.Product}
	tcp    = &peers.Peer{Name: "ctxfs-tcp", Role: peers.Product}
	slow   = &peers.Peer{Name: "slow", Role: peers.Rival}
	fast   = &peers.Peer{Name: "fast <&>", Role: peers.Rival}
	echo   = &peers.Peer{Name: "echo-stream", Role: peers.Limit}
	stat1  = &cells.Cell{Name: "stat", Concurrency: 1, Parts: 1}
	stat32 = &cells.Cell{Name: "stat", Concurrency: 32, Parts: 1}
)

func result(c *cells.Cell, p *peers.Peer, rate float64, p50 time.Duration) cells.Result {
	return cells.Result{Cell: c, Peer: p, Median: figure.Round{Rate: rate, P50: p50}}
}

func verdict(t *testing.T, rs report.Results, cell string) report.Verdict {
	t.Helper()
	for _, v := range rs.Verdicts() {
		if v.Cell == cell {
			return v
		}
	}
	t.Fatalf("there is no requirement %q", cell)
	return report.Verdict{}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name, cell string
		results    report.Results
		known, ok  bool
	}{
		{"nothing measured", "stat, 32", nil, false, false},
		{"no peer measured", "stat, 32", report.Results{result(stat32, own, 10, 0)}, false, false},
		{"the best peer counts", "stat, 32", report.Results{result(stat32, own, 249, 0), result(stat32, slow, 10, 0), result(stat32, fast, 100, 0)}, true, false},
		{"exactly enough", "stat, 32", report.Results{result(stat32, own, 250, 0), result(stat32, fast, 100, 0)}, true, true},
		{"limits are no peers", "stat, 32", report.Results{result(stat32, own, 250, 0), result(stat32, fast, 100, 0), result(stat32, echo, 1000, 0)}, true, true},
		{"another concurrency is another cell", "stat, 32", report.Results{result(stat1, own, 250, 0), result(stat1, fast, 100, 0)}, false, false},
		{"at the floor", "stat, 1, unix socket", report.Results{result(stat1, own, 0, 120*time.Microsecond), result(stat1, echo, 0, 100*time.Microsecond)}, true, true},
		{"above the floor", "stat, 1, unix socket", report.Results{result(stat1, own, 0, 121*time.Microsecond), result(stat1, echo, 0, 100*time.Microsecond)}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verdict(t, c.results, c.cell)
			if v.Known != c.known || v.OK != c.ok {
				t.Errorf("known %v ok %v (%s), want %v %v", v.Known, v.OK, v.Measured, c.known, c.ok)
			}
		})
	}
}

func TestTheTableComparesEveryPeerWithCtxfs(t *testing.T) {
	rs := report.Results{result(stat1, own, 300, time.Millisecond), result(stat1, tcp, 150, time.Millisecond), result(stat1, fast, 100, time.Millisecond)}
	rows := rs.Table().Rows
	var ratios []string
	for _, r := range rows {
		ratios = append(ratios, r[len(r)-1])
	}
	if got, want := strings.Join(ratios, " "), " 2.00x 3.00x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTheChartIsXMLWithABarForEachPeer(t *testing.T) {
	rs := report.Results{result(stat1, own, 300, 0), result(stat1, fast, 100, 0), result(stat32, own, 0, 0), result(stat32, slow, 0, 0)}
	d := xml.NewDecoder(strings.NewReader(rs.Chart()))
	bars := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					bars[a.Value]++
				}
			}
		}
	}
	if bars["product"] != 2 || bars["rival"] != 2 || bars["page"] != 1 {
		t.Errorf("bars: %v", bars)
	}
}

func TestMissingPeersAreNamed(t *testing.T) {
	dir := t.TempDir()
	d := report.Document{Missing: []string{"nginx: nginx (Debian: nginx-light)"}, Peers: []*peers.Peer{own}, Rounds: 5}
	if err := d.Write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "bench.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "- nginx: nginx (Debian: nginx-light)") {
		t.Errorf("not named:\n%s", b)
	}
}

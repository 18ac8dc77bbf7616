package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/bench/report"
)

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
	for got, want := range map[string]string{
		report.Duration(8420 * time.Nanosecond):  "8.42 us",
		report.Duration(12 * time.Millisecond):   "12.0 ms",
		report.Duration(1500 * time.Millisecond): "1.50 s",
		report.Rate(140210.4):                    "140,210",
		report.Rate(4.351):                       "4.35",
		report.Thousands(1234567):                "1,234,567",
		report.Thousands(-123456):                "-123,456",
		report.Bytes(12):                         "12.0 B",
		report.Bytes(12.5 * 1024):                "12.5 KiB",
		report.Bytes(2.07 * (1 << 30)):           "2.07 GiB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheChartIsXMLWithABarForEachValue(t *testing.T) {
	c := report.Chart{Title: "a <&> b", Plots: []report.Plot{
		{Title: "one", Bars: []report.Bar{{Name: "own", Class: "product", Value: 2}, {Name: "<&>", Class: "rival", Value: 1}}},
		{Title: "none is 0", Bars: []report.Bar{{Name: "own", Class: "product"}}},
	}}
	d, bars := xml.NewDecoder(strings.NewReader(c.SVG())), map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars[e.Attr[0].Value]++
		}
	}
	if bars["product"] != 2 || bars["rival"] != 1 || bars["page"] != 1 {
		t.Errorf("bars: %v", bars)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, c := range []struct {
		name   string
		sorted []int
		q      float64
		want   int
	}{
		{"nothing", nil, 0.5, 0},
		{"one is all quantiles", []int{7}, 0.99, 7},
		{"the middle of three", []int{1, 2, 3}, 0.5, 2},
		{"the lower middle of four", []int{1, 2, 3, 4}, 0.5, 2},
		{"the 99th of a hundred", hundred, 0.99, 99},
		{"the last", hundred, 1, 100},
		{"the first", hundred, 0, 1},
	} {
		if got := report.Quantile(c.sorted, c.q); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"odd", []float64{9, 1, 5}, 5},
		{"even is the mean of the middle", []float64{8, 2, 4, 100}, 6},
		{"an outlier does not move it", []float64{3, 3, 3, 3, 1e9}, 3},
	} {
		before := slices.Clone(c.values)
		if got := report.Median(c.values); got != c.want || !slices.Equal(before, c.values) {
			t.Errorf("%s: %g, want %g; the values are %v", c.name, got, c.want, c.values)
		}
	}
}

func TestRounds(t *testing.T) {
	const ms = time.Millisecond
	got := report.Summarize([]time.Duration{4 * ms, ms, 2 * ms, 3 * ms}, 4, 10*ms, 8*ms)
	if want := (report.Round{P50: 2 * ms, P99: 4 * ms, Rate: 400, CPU: 2 * ms}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = report.Medians([]report.Round{{P50: 1, P99: 30, Rate: 5, CPU: 2}, {P50: 2, P99: 10, Rate: 9, CPU: 1}, {P50: 3, P99: 20, Rate: 7, CPU: 3}})
	if want := (report.Round{P50: 2, P99: 20, Rate: 7, CPU: 2}); got != want {
		t.Errorf("the medians of each figure by itself: %+v, want %+v", got, want)
	}
}

package report

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/bench/cells"
	"github.com/ctxfs/ctxfs/bench/peers"
)

// Measures of the chart, in pixels.
const (
	chartWidth  = 1080
	chartCols   = 3
	chartGap    = 28
	barHeight   = 15
	barStep     = 20
	nameWidth   = 112
	valueWidth  = 74
	titleHeight = 26
	headHeight  = 64
)

// Bar is a named value of a plot.
type Bar struct {
	Name, Label string
	Value       float64
	Role        peers.Role
}

// Plot is a small chart of bars; longer is better.
type Plot struct {
	Title string
	Bars  []Bar
}

// Chart is an SVG with a plot for each cell: the rates of ctxfs, of its peers and, in grey,
// of a transport that does nothing. Local calls are left out: nothing would be seen beside them.
func (rs Results) Chart() string {
	var plots []Plot
	for _, group := range rs.byCell() {
		if p := plot(group); len(p.Bars) > 1 {
			plots = append(plots, p)
		}
	}
	return SVG("ctxfs beside its peers", "operations or bytes a second on one machine, longer is better; grey: a limit, not a peer", plots)
}

func plot(group []cells.Result) Plot {
	c := group[0].Cell
	p := Plot{Title: fmt.Sprintf("%s, %d at once", c.Name, c.Concurrency)}
	for _, r := range group {
		if r.Peer.Name != "local" && !strings.HasPrefix(r.Peer.Name, "echo-unary") {
			p.Bars = append(p.Bars, Bar{Name: r.Peer.Name, Label: rate(r), Value: r.Median.Rate, Role: r.Peer.Role})
		}
	}
	slices.SortStableFunc(p.Bars, func(a, b Bar) int {
		switch {
		case a.Value > b.Value:
			return -1
		case a.Value < b.Value:
			return 1
		}
		return 0
	})
	return p
}

// svg is a picture that is being written.
type svg struct{ strings.Builder }

// SVG draws plots in columns. The picture reads on a light and on a dark page.
func SVG(title, subtitle string, plots []Plot) string {
	var body svg
	y := headHeight
	for row := range slices.Chunk(plots, chartCols) {
		height := 0
		for i, p := range row {
			x := chartGap + i*(chartWidth-chartGap)/chartCols
			height = max(height, body.plot(p, x, y, (chartWidth-chartGap)/chartCols-chartGap))
		}
		y += height + chartGap
	}
	var out svg
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, y, chartWidth, y, html.EscapeString(title))
	out.WriteString(chartStyle)
	fmt.Fprintf(&out, `<rect class="page" width="%d" height="%d" rx="6"/>`+"\n", chartWidth, y)
	out.text(chartGap, 30, "title", title)
	out.text(chartGap, 48, "sub", subtitle)
	out.WriteString(body.String())
	out.WriteString("</svg>\n")
	return out.String()
}

const chartStyle = `<style>
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
.title { font-size: 18px; font-weight: 600; }
.sub, .value { fill: #57606a; }
.head { font-size: 13px; font-weight: 600; }
.own { font-weight: 600; }
.page { fill: #ffffff; }
.product { fill: #1f6feb; }
.rival { fill: #d4a017; }
.limit { fill: #afb8c1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .sub, .value { fill: #9198a1; }
  .page { fill: #0d1117; }
  .product { fill: #58a6ff; }
  .limit { fill: #484f58; }
}
</style>
`

func (s *svg) text(x, y int, class, text string) {
	fmt.Fprintf(s, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, html.EscapeString(text))
}

// plot draws one, and returns its height.
func (s *svg) plot(p Plot, x, y, width int) int {
	s.text(x, y+14, "head", p.Title)
	longest := 0.0
	for _, b := range p.Bars {
		longest = max(longest, b.Value)
	}
	room := width - nameWidth - valueWidth
	for i, b := range p.Bars {
		top := y + titleHeight + i*barStep
		length := 1
		if longest > 0 {
			length = max(1, int(b.Value/longest*float64(room)))
		}
		s.text(x, top+barHeight-3, nameClass(b.Role), b.Name)
		fmt.Fprintf(s, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n", barClass(b.Role), x+nameWidth, top, length, barHeight)
		s.text(x+nameWidth+length+6, top+barHeight-3, "value", b.Label)
	}
	return titleHeight + len(p.Bars)*barStep
}

func nameClass(r peers.Role) string {
	if r == peers.Product {
		return "own"
	}
	return "peer"
}

func barClass(r peers.Role) string {
	switch r {
	case peers.Product:
		return "product"
	case peers.Limit:
		return "limit"
	default:
		return "rival"
	}
}

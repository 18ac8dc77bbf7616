package report

import (
	"fmt"
	"html"
	"slices"
	"strings"
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

// Chart is a picture of several plots.
type Chart struct {
	Title, Subtitle string
	Plots           []Plot
}

// Plot is a small chart of bars.
type Plot struct {
	Title string
	Bars  []Bar
}

// Bar is a named value of a plot. Class is its colour: "product", "rival" or "limit".
type Bar struct {
	Name, Label, Class string
	Value              float64
}

// svg is a picture that is being written.
type svg struct{ strings.Builder }

// SVG draws the plots in columns. The picture reads on a light and on a dark page.
func (c Chart) SVG() string {
	var body, out svg
	y := headHeight
	for row := range slices.Chunk(c.Plots, chartCols) {
		height := 0
		for i, p := range row {
			x := chartGap + i*(chartWidth-chartGap)/chartCols
			height = max(height, body.plot(p, x, y, (chartWidth-chartGap)/chartCols-chartGap))
		}
		y += height + chartGap
	}
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="%[3]s">`+"\n",
		chartWidth, y, html.EscapeString(c.Title))
	fmt.Fprintf(&out, `%s<rect class="page" width="%d" height="%d" rx="6"/>`+"\n", chartStyle, chartWidth, y)
	out.text(chartGap, 30, "title", c.Title)
	out.text(chartGap, 48, "sub", c.Subtitle)
	return out.String() + body.String() + "</svg>\n"
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
	for i, b := range p.Bars {
		top, length, name := y+titleHeight+i*barStep, 1, "peer"
		if longest > 0 {
			length = max(1, int(b.Value/longest*float64(width-nameWidth-valueWidth)))
		}
		if b.Class == "product" {
			name = "own"
		}
		s.text(x, top+barHeight-3, name, b.Name)
		fmt.Fprintf(s, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n", b.Class, x+nameWidth, top, length, barHeight)
		s.text(x+nameWidth+length+6, top+barHeight-3, "value", b.Label)
	}
	return titleHeight + len(p.Bars)*barStep
}

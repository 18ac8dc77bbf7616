package ledger

import (
	"fmt"
	"strings"
)

// Measures of the plot, in pixels.
const (
	plotWidth  = 1080
	plotLeft   = 70
	plotHeight = 130
	plotStep   = 190
	plotTop    = 100
)

const plotStyle = `<style>
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
.title { font-size: 18px; font-weight: 600; }
.sub { fill: #57606a; }
.head { font-size: 13px; font-weight: 600; }
.page { fill: #ffffff; }
.line { fill: none; stroke: #1f6feb; stroke-width: 1.5; }
.axis { stroke: #afb8c1; }
.end { stroke: #d4a017; stroke-dasharray: 3 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .sub { fill: #9198a1; }
  .page { fill: #0d1117; }
  .line { stroke: #58a6ff; }
  .axis { stroke: #484f58; }
}
</style>
`

// svg draws each quantity over time, with a dashed line where a server ended. It reads on a light and on a dark page.
func (s *soak) svg() string {
	height := plotTop + len(quantities)*plotStep
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Soak">`+"\n", plotWidth, height, plotWidth, height)
	b.WriteString(plotStyle)
	fmt.Fprintf(&b, `<rect class="page" width="%d" height="%d" rx="6"/>`+"\n", plotWidth, height)
	words(&b, 28, 30, "title", fmt.Sprintf("A soak: %d panels, %d servers", s.panels, len(s.lived)))
	words(&b, 28, 50, "sub", "what the server takes while every operation is done; dashed: it was stopped (SIGTERM) or killed (kill -9), and started again")
	for i, q := range quantities {
		s.draw(&b, plotTop+i*plotStep, q)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func words(b *strings.Builder, x, y int, class, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, text)
}

// draw is one plot, whose top is y.
func (s *soak) draw(b *strings.Builder, y int, q quantity) {
	highest, end := 1.0, 1.0
	for _, life := range s.lived {
		for _, m := range life.samples {
			highest, end = max(highest, q.of(m)), max(end, m.at.Seconds())
		}
	}
	highest *= 1.1
	x := func(seconds float64) float64 { return plotLeft + seconds/end*(plotWidth-plotLeft-40) }
	words(b, 28, y-10, "head", strings.TrimSpace(q.name+" "+q.unit))
	words(b, 28, y+10, "sub", fmt.Sprintf("%.0f", highest))
	words(b, 28, y+plotHeight, "sub", "0")
	words(b, plotWidth-80, y+plotHeight+16, "sub", fmt.Sprintf("%.0f s", end))
	fmt.Fprintf(b, `<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", plotLeft, y+plotHeight, plotWidth-40, y+plotHeight)
	for _, life := range s.lived {
		var points []string
		for _, m := range life.samples {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(m.at.Seconds()), float64(y+plotHeight)-q.of(m)/highest*plotHeight))
		}
		fmt.Fprintf(b, `<polyline class="line" points="%s"/>`+"\n", strings.Join(points, " "))
		if n := len(life.samples); n > 0 {
			at := x(life.samples[n-1].at.Seconds())
			fmt.Fprintf(b, `<line class="end" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", at, y, at, y+plotHeight)
		}
	}
}

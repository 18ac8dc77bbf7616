package cli

import (
	"os"
	"time"
)

// Bar is a command's progress bar that draws at once.
type Bar struct{ b *bar }

// NewBar returns a bar on a terminal.
func NewBar(w *os.File, bytes bool) Bar { return Bar{(&app{env: Env{Stderr: w}}).newBar(bytes)} }

// Set is the bar's, without the wait before the first drawing.
func (b Bar) Set(what string, done, total int64) {
	b.b.drawn = time.Time{}
	b.b.set(what, done, total)
}

// Later is Set with the wait.
func (b Bar) Later(what string, done, total int64) { b.b.set(what, done, total) }

// End is the bar's.
func (b Bar) End() { b.b.end() }

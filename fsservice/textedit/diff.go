package textedit

import (
	"bytes"
	"strings"

	"github.com/ctxfs/ctxfs/internal/linediff"
)

// MaxDiff bounds the text of a Change, in bytes.
const MaxDiff = 256 << 10

// around is how many lines of context a diff has.
const around = 3

// Change is what edits did to a text.
type Change struct {
	// Diff is unified; "" when nothing changed. Truncated says that only its first lines are here.
	Diff      string
	Truncated bool
	// Added and Removed count lines.
	Added, Removed int32
}

// Compare returns the difference between two versions of the text at a path.
func Compare(path string, before, after []byte) Change {
	if bytes.Equal(before, after) {
		return Change{}
	}
	d := linediff.Compare(string(before), string(after), around)
	c := Change{Added: int32(d.Added), Removed: int32(d.Removed)} // a text of MaxSize has fewer lines than an int32 counts
	var out strings.Builder
	out.WriteString("--- a" + path + "\n+++ b" + path + "\n")
	for line := range d.Lines {
		if c.Truncated = out.Len()+len(line) > MaxDiff; c.Truncated {
			break
		}
		out.WriteString(line)
	}
	c.Diff = out.String()
	return c
}

package review

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ctxfs/ctxfs/internal/linediff"
)

// FileHeader says which file a diff is of.
type FileHeader struct {
	// Path is relative and slash-separated.
	Path string
	// BeforeMode and AfterMode are permission bits, or what gitMode makes of a link. 0 says that the file does not exist in that version.
	BeforeMode, AfterMode uint32
}

// Unified writes the hunks for which chosen returns true as git does, with so many context lines; nil when there are none.
func (d *TextDiff) Unified(f FileHeader, context int, chosen func(h *Hunk) bool) []byte {
	var runs []linediff.Run
	var added []string
	for i := range d.Hunks {
		if h := &d.Hunks[i]; chosen(h) {
			runs = append(runs, linediff.Run{Before: h.Base, After: len(added), Removed: len(h.Removed), Added: len(h.Added)})
			added = append(added, h.Added...)
		}
	}
	if runs == nil {
		return nil
	}
	var out bytes.Buffer
	f.write(&out)
	for line := range linediff.Unified(d.Before, added, runs, context) {
		out.WriteString(line)
	}
	return out.Bytes()
}

// write writes git's header of a diff with hunks.
func (f FileHeader) write(out *bytes.Buffer) {
	before, after := f.writeHead(out)
	_, _ = fmt.Fprintf(out, "--- %s\n+++ %s\n", tabbed(before), tabbed(after))
}

// writeHead writes what a diff without hunks has of a header, and returns the names for the other lines.
func (f FileHeader) writeHead(out *bytes.Buffer) (before, after string) {
	before, after = quoted("a/"+f.Path), quoted("b/"+f.Path)
	_, _ = fmt.Fprintf(out, "diff --git %s %s\n", before, after)
	switch {
	case f.BeforeMode == 0:
		_, _ = fmt.Fprintf(out, "new file mode %06o\n", gitMode(f.AfterMode))
		before = "/dev/null"
	case f.AfterMode == 0:
		_, _ = fmt.Fprintf(out, "deleted file mode %06o\n", gitMode(f.BeforeMode))
		after = "/dev/null"
	case gitMode(f.BeforeMode) != gitMode(f.AfterMode):
		_, _ = fmt.Fprintf(out, "old mode %06o\nnew mode %06o\n", gitMode(f.BeforeMode), gitMode(f.AfterMode))
	}
	return before, after
}

// tabbed appends a tab to a name that has a space. The tab separates the name from a date, as git does it.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// Modes as git has them.
const (
	linkMode       = 0o120000
	plainMode      = 0o100644
	executableMode = 0o100755
)

// gitMode returns the mode that git keeps of a file.
func gitMode(mode uint32) uint32 {
	switch {
	case mode == linkMode:
		return mode
	case mode&0o111 != 0:
		return executableMode
	}
	return plainMode
}

// quoted returns a name as git writes it in a diff with core.quotePath off: in C's quotes if it has a byte that would break the line.
func quoted(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }) {
		return name
	}
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < ' ' || c == 0x7f:
			_, _ = fmt.Fprintf(&out, "\\%03o", c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

package review

import (
	"bytes"
	"fmt"
	"strings"
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
	var out bytes.Buffer
	shift := 0 // how many more lines the version after has, up to here
	for i := 0; i < len(d.Hunks); {
		if !chosen(&d.Hunks[i]) {
			i++
			continue
		}
		group, next := d.group(i, context, chosen)
		if out.Len() == 0 {
			f.write(&out)
		}
		shift += d.chunk(&out, group, context, shift)
		i = next
	}
	return out.Bytes()
}

// group returns the chosen hunks from i on whose context lines meet, and the index of the next hunk.
func (d *TextDiff) group(i, context int, chosen func(h *Hunk) bool) (group []*Hunk, next int) {
	group = []*Hunk{&d.Hunks[i]}
	for next = i + 1; next < len(d.Hunks); next++ {
		h, last := &d.Hunks[next], group[len(group)-1]
		if !chosen(h) {
			continue
		}
		if h.Base-(last.Base+len(last.Removed)) > 2*context {
			break
		}
		group = append(group, h)
	}
	return group, next
}

// chunk writes a group, and returns how many more lines it leaves than there were.
func (d *TextDiff) chunk(out *bytes.Buffer, group []*Hunk, context, shift int) int {
	last := group[len(group)-1]
	from := max(0, group[0].Base-context)
	to := min(len(d.Before), last.Base+len(last.Removed)+context)
	more := 0
	for _, h := range group {
		more += len(h.Added) - len(h.Removed)
	}
	before, after := to-from, to-from+more
	_, _ = fmt.Fprintf(out, "@@ -%s +%s @@\n", span(from, before), span(from+shift, after))
	for _, h := range group {
		writeLines(out, ' ', d.Before[from:h.Base])
		writeLines(out, '-', h.Removed)
		writeLines(out, '+', h.Added)
		from = h.Base + len(h.Removed)
	}
	writeLines(out, ' ', d.Before[from:to])
	return more
}

// span writes where lines begin and how many there are. An empty one names the line before it.
func span(from, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}

func writeLines(out *bytes.Buffer, mark byte, lines []string) {
	for _, line := range lines {
		out.WriteByte(mark)
		out.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
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

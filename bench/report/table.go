package report

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Table is a Markdown table whose columns are padded, so that it reads well in a terminal.
type Table struct {
	// Head are the columns; one that begins with ">" is aligned right.
	Head []string
	Rows [][]string
}

// Add appends a row of as many cells as there are columns.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// String is the table with a line end after each row.
func (t *Table) String() string {
	var b strings.Builder
	right, width := make([]bool, len(t.Head)), make([]int, len(t.Head))
	head := make([]string, len(t.Head))
	for i, h := range t.Head {
		head[i], right[i] = strings.CutPrefix(h, ">")
	}
	all := append([][]string{head}, t.Rows...)
	for _, r := range all {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for n, r := range all {
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if right[i] {
				pad, c = c, pad
			}
			b.WriteString("| " + c + pad + " ")
		}
		b.WriteString("|\n")
		for i, w := range width {
			if n == 0 {
				b.WriteString("|" + strings.Repeat("-", w+1) + map[bool]string{true: ":", false: "-"}[right[i]])
			}
		}
		if n == 0 {
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// Duration has three significant digits: "8.42 us", "1.20 ms".
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return significant(float64(d)/1e3) + " us"
	case d < time.Second:
		return significant(float64(d)/1e6) + " ms"
	}
	return significant(d.Seconds()) + " s"
}

// Rate is operations a second, with thousands apart: "140,210".
func Rate(v float64) string {
	if v < 100 {
		return significant(v)
	}
	return Thousands(int64(v + 0.5))
}

// Thousands writes a number with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Ratio has two decimals: "2.51x".
func Ratio(v float64) string { return fmt.Sprintf("%.2fx", v) }

func significant(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Bytes is a size: "12.5 KiB".
func Bytes(v float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if v < 1<<10 {
			return significant(v) + " " + unit
		}
		v /= 1 << 10
	}
	return significant(v) + " GiB"
}

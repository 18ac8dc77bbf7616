// Package textedit changes texts by exact text and by lines, and writes what changed as a unified diff. It opens nothing.
package textedit

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/fserr"
)

// MaxSize bounds a text before and after each edit, in bytes.
const MaxSize = 16 << 20

// Edit is one change: of Old, or of the lines from First to Last.
type Edit struct {
	// Old is replaced by New. It must occur exactly once, unless All is set.
	Old, New string
	All      bool
	// First and Last are lines, from 1. Last = First-1 inserts New before First. First 0 means that Old is meant.
	First, Last int64
}

// Check refuses a text that cannot be edited: EINVAL if it is binary or not UTF-8, EFBIG if it is too large.
func Check(text []byte) error {
	switch {
	case len(text) > MaxSize:
		return TooLarge(int64(len(text)))
	case bytes.IndexByte(text, 0) >= 0:
		return refused("the file has NUL bytes, so it is no text", "write it whole")
	case !utf8.Valid(text):
		return refused("the file is not UTF-8", "write it whole, in its encoding")
	}
	return nil
}

// TooLarge returns EFBIG for a text of size bytes.
func TooLarge(size int64) error {
	return &fserr.Error{
		Code: fserr.EFBIG, Kind: fserr.KindEdit, Detail: fmt.Sprintf("a text of %.1f MiB exceeds the 16 MiB that can be edited", float64(size)/(1<<20)),
		Hint: "write the file whole, or the bytes that change through a handle",
	}
}

func refused(detail, hint string) error {
	return &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindEdit, Detail: detail, Hint: hint}
}

// Apply makes the edits in order, each on what those before it have made. It returns the new text and how many replacements each edit
// made. If one cannot be made, it fails with EINVAL and says why; the edit is named if there are several.
//
// If all lines of the text end in CRLF, a line feed alone in Old and New stands for CRLF.
func Apply(text []byte, edits []Edit) (after []byte, counts []int32, err error) {
	if err := Check(text); err != nil {
		return nil, nil, err
	}
	isCRLF := allCRLF(text)
	for i, e := range edits {
		if isCRLF {
			e.Old, e.New = crlf(e.Old), crlf(e.New)
		}
		changed, n, err := e.apply(text, isCRLF)
		if err == nil {
			err = checkNew(e.New, changed)
		}
		if err != nil {
			return nil, nil, about(i, len(edits), err)
		}
		text, counts = changed, append(counts, int32(n))
	}
	return text, counts, nil
}

// checkNew refuses a new text that could not be edited again.
func checkNew(text string, all []byte) error {
	switch {
	case strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text):
		return refused("new_text has NUL bytes, or is not UTF-8", "write the file whole")
	case len(all) > MaxSize:
		return TooLarge(int64(len(all)))
	}
	return nil
}

// about names the edit that an error is about, if there are several.
func about(i, of int, err error) error {
	e, ok := err.(*fserr.Error) //nolint:errorlint // the errors of this package
	if !ok || of == 1 {
		return err
	}
	named := *e
	named.Detail = fmt.Sprintf("edit %d of %d: %s", i+1, of, e.Detail)
	return &named
}

// allCRLF reports whether there are lines, and all of them end in CRLF.
func allCRLF(text []byte) bool {
	n := bytes.Count(text, []byte("\n"))
	return n > 0 && n == bytes.Count(text, []byte("\r\n"))
}

// crlf puts a carriage return before each line feed that has none.
func crlf(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

func (e Edit) apply(text []byte, isCRLF bool) (after []byte, n int, err error) {
	switch {
	case e.First != 0 || e.Last != 0:
		if e.Old != "" || e.All {
			return nil, 0, refused("old_text and start_line are both set", "set one of them")
		}
		after, err = e.replaceLines(text, isCRLF)
		return after, 1, err
	case e.Old == "":
		return nil, 0, refused("old_text is empty", "give the text to replace, or start_line and end_line")
	}
	return e.replaceText(text)
}

func (e Edit) replaceText(text []byte) (after []byte, n int, err error) {
	old := []byte(e.Old)
	first := bytes.Index(text, old)
	if first < 0 {
		return nil, 0, e.missing(text)
	}
	if e.All {
		n = bytes.Count(text, old)
		if size := len(text) + n*(len(e.New)-len(old)); size > MaxSize {
			return nil, 0, TooLarge(int64(size))
		}
		return bytes.ReplaceAll(text, old, []byte(e.New)), n, nil
	}
	if bytes.Contains(text[first+1:], old) {
		return nil, 0, e.ambiguous(text)
	}
	return splice(text, first, first+len(old), e.New), 1, nil
}

// splice replaces the bytes from one offset to another.
func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)-(to-from)+len(with))
	return append(append(append(out, text[:from]...), with...), text[to:]...)
}

// replaceLines replaces the lines, or inserts new ones. The last new line gets the end of the last line that it replaces.
func (e Edit) replaceLines(text []byte, isCRLF bool) ([]byte, error) {
	total := Lines(text)
	if e.First < 1 || e.First > total+1 || e.Last < e.First-1 || e.Last > total {
		return nil, refused(fmt.Sprintf("lines %d to %d are not in the file, which has %d", e.First, e.Last, total),
			"read the file again; end_line = start_line - 1 inserts before start_line")
	}
	from := lineStart(text, e.First)
	to := from + lineStart(text[from:], e.Last-e.First+2)
	end := "\n"
	if isCRLF {
		end = "\r\n"
	}
	switch {
	case e.New == "" || len(text) == 0:
		return splice(text, from, to, e.New), nil
	case to > from:
		end = endOf(text[from:to])
	case from == len(text) && endOf(text) == "":
		return splice(text, from, to, end+withoutEnd(e.New)), nil // the last line keeps that it has no end
	}
	return splice(text, from, to, withoutEnd(e.New)+end), nil
}

// Lines returns how many lines a text has. The last one may lack an end.
func Lines(text []byte) int64 {
	n := int64(bytes.Count(text, []byte("\n")))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// lineStart returns the offset of a line, from 1; len(text) if there are fewer.
func lineStart(text []byte, line int64) int {
	at := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// endOf returns how a text ends its last line.
func endOf(text []byte) string {
	switch {
	case bytes.HasSuffix(text, []byte("\r\n")):
		return "\r\n"
	case bytes.HasSuffix(text, []byte("\n")):
		return "\n"
	}
	return ""
}

func withoutEnd(text string) string { return strings.TrimSuffix(text, endOf([]byte(text))) }

// maxNamed bounds how many lines an error names.
const maxNamed = 20

// ambiguous names the first lines in which Old begins. It looks for no more: Old may be long, and occur at each offset.
func (e Edit) ambiguous(text []byte) error {
	var named []string
	n, line, last := 0, int64(1), 0
	for at := 0; n <= maxNamed; n++ {
		i := bytes.Index(text[at:], []byte(e.Old))
		if i < 0 {
			break
		}
		if n < maxNamed {
			line += int64(bytes.Count(text[last:at+i], []byte("\n")))
			last = at + i
			named = append(named, strconv.FormatInt(line, 10))
		}
		at += i + 1
	}
	times := strconv.Itoa(n)
	if n > maxNamed {
		times = fmt.Sprintf("more than %d", maxNamed)
		named = append(named, "…")
	}
	return refused(fmt.Sprintf("old_text occurs %s times, in lines %s", times, strings.Join(named, ", ")),
		"add text around it until it occurs once, set all, or name start_line and end_line")
}

// missing names the lines that are most like Old.
func (e Edit) missing(text []byte) error {
	detail := "old_text is not in the file"
	if found := nearest(text, e.Old); len(found) > 0 {
		detail += "; the nearest lines are " + strings.Join(found, ", ")
	}
	return refused(detail, "read these lines again, and copy old_text from the file exactly, with its spaces and tabs")
}

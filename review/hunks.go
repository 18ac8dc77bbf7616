package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// MaxText is the size in bytes up to which a file has hunks.
const MaxText = 4 << 20

// binaryHead is how many bytes git searches for a NUL to detect binary files (buffer_is_binary in git's xdiff-interface.c).
const binaryHead = 8000

// IsBinary reports whether git would call the content binary.
func IsBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), binaryHead)], 0) >= 0
}

// Hunk is one maximal run of changed lines. Lines keep their newlines.
type Hunk struct {
	// ID names the hunk by its path, its lines and the base lines around it, so that it survives changes elsewhere in the file, and
	// covers each of its own bytes.
	ID string
	// Base and Other are the lines before the hunk, from 0, in each version.
	Base, Other int
	// Removed are base lines, Added are the other version's.
	Removed, Added []string
}

// TextDiff is the difference between two versions of a text.
type TextDiff struct {
	// Before and After are the lines of both versions, with their newlines. Only the last may lack one.
	Before, After []string
	Hunks         []Hunk
	// added and removed count the lines of all hunks. endings says that the versions differ in carriage returns alone. isShed says that there
	// are no lines any more.
	added, removed  int
	endings, isShed bool
}

// DiffText compares two versions of the file at path.
func DiffText(path string, before, after []byte) *TextDiff {
	d := &TextDiff{Before: lines(before), After: lines(after)}
	for _, r := range runs(diff.Diff("a", before, "b", after)) {
		d.Hunks = append(d.Hunks, Hunk{
			Base: r.before, Other: r.after,
			Removed: d.Before[r.before : r.before+r.removed], Added: d.After[r.after : r.after+r.added],
		})
	}
	d.name(path)
	for i := range d.Hunks {
		d.added += len(d.Hunks[i].Added)
		d.removed += len(d.Hunks[i].Removed)
	}
	d.endings = d.differsInEndings()
	return d
}

// shed drops the lines. What is left takes little memory, whatever the sizes of the versions.
func (d *TextDiff) shed() {
	d.Before, d.After, d.isShed = nil, nil, true
	for i := range d.Hunks {
		d.Hunks[i].Removed, d.Hunks[i].Added = nil, nil
	}
}

// lines splits content after each newline.
func lines(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	all := strings.SplitAfter(string(content), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// run is a run of changed lines: where it begins in both versions, and how many lines of each it has.
type run struct{ before, after, removed, added int }

// headerLines is how many lines diff.Diff writes before the first chunk.
const headerLines = 3

// runs finds the runs of changed lines in a diff that diff.Diff wrote.
func runs(unified []byte) []run {
	var out []run
	var x, y int // lines of both versions before the current line
	open := false
	for n := 0; len(unified) > 0; n++ {
		var line []byte
		line, unified, _ = bytes.Cut(unified, []byte("\n"))
		switch {
		case n < headerLines, line[0] == '\\':
			continue
		case line[0] == '@':
			x, y = starts(string(line))
			open = false
			continue
		case line[0] == ' ':
			x, y, open = x+1, y+1, false
			continue
		case !open:
			out, open = append(out, run{before: x, after: y}), true
		}
		r := &out[len(out)-1]
		if line[0] == '-' {
			r.removed, x = r.removed+1, x+1
		} else {
			r.added, y = r.added+1, y+1
		}
	}
	return out
}

// starts reads how many lines of both versions stand before a chunk from its "@@ -from,count +from,count @@".
func starts(chunk string) (before, after int) {
	var removed, added int
	if _, err := fmt.Sscanf(chunk, "@@ -%d,%d +%d,%d @@", &before, &removed, &after, &added); err != nil {
		panic("review: a chunk begins with " + strconv.Quote(chunk)) // diff.Diff's form is fixed
	}
	// The number of the first line, from 1; without lines it is the number of the line before.
	return before - min(removed, 1), after - min(added, 1)
}

// around is how many base lines on each side a hunk's ID covers.
const around = 3

// name sets the IDs.
func (d *TextDiff) name(path string) {
	seen := map[string]int{}
	for i := range d.Hunks {
		h := &d.Hunks[i]
		end := h.Base + len(h.Removed)
		id := hunkID(path, h.Removed, h.Added, d.Before[max(0, h.Base-around):h.Base], d.Before[end:min(len(d.Before), end+around)])
		seen[id]++
		if h.ID = id; seen[id] > 1 {
			h.ID += "~" + strconv.Itoa(seen[id])
		}
	}
}

var idEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// idLength is the length of an ID: 80 bits, so that no two in a review meet by chance.
const idLength = 16

func hunkID(path string, parts ...[]string) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "ctxfs.hunk.1\x00%s", path) // a hash takes everything
	for _, lines := range parts {
		_, _ = h.Write([]byte{0})
		for _, line := range lines {
			_, _ = h.Write([]byte(line))
		}
	}
	return strings.ToLower(idEncoding.EncodeToString(h.Sum(nil))[:idLength])
}

// Select returns the version before with the hunks for which chosen returns true.
func (d *TextDiff) Select(chosen func(h *Hunk) bool) []byte {
	var out bytes.Buffer
	from := 0
	write := func(lines []string) {
		for _, line := range lines {
			out.WriteString(line)
		}
	}
	for i := range d.Hunks {
		h := &d.Hunks[i]
		if !chosen(h) {
			continue
		}
		write(d.Before[from:h.Base])
		write(h.Added)
		from = h.Base + len(h.Removed)
	}
	write(d.Before[from:])
	return out.Bytes()
}

// Lines counts the lines that all hunks add and remove.
func (d *TextDiff) Lines() (added, removed int) { return d.added, d.removed }

// LineEndingsOnly reports whether the versions differ in nothing but carriage returns before newlines.
func (d *TextDiff) LineEndingsOnly() bool { return d.endings }

func (d *TextDiff) differsInEndings() bool {
	if len(d.Hunks) == 0 || len(d.Before) != len(d.After) {
		return false
	}
	for i, line := range d.Before {
		if strings.TrimRight(line, "\r\n") != strings.TrimRight(d.After[i], "\r\n") {
			return false
		}
	}
	return true
}

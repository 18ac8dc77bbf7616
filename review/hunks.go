package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/internal/linediff"
)

const (
	// MaxText is the size in bytes up to which a file has hunks, and is merged.
	MaxText = 4 << 20
	// MaxTextLines is up to how many lines it has these.
	MaxTextLines = linediff.MaxLines / 2
	// MaxHunks is up to how many hunks a change has these. One with more is decided on as a whole.
	MaxHunks = 1 << 14
)

// isText reports whether versions of a file can be compared and merged line by line.
func isText(contents ...[]byte) bool {
	return !slices.ContainsFunc(contents, func(c []byte) bool { return IsBinary(c) || isLong(c) })
}

// isLong reports whether a content is larger than one that has hunks.
func isLong(content []byte) bool {
	return len(content) > MaxText || bytes.Count(content, []byte("\n")) > MaxTextLines
}

// binaryHead is how many bytes git searches for a NUL to detect binary files (buffer_is_binary in git's xdiff-interface.c).
const binaryHead = 8000

// IsBinary reports whether git would call the content binary.
func IsBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), binaryHead)], 0) >= 0
}

// Hunk is one maximal run of changed lines. Lines keep their newlines.
type Hunk struct {
	// ID names the hunk by its path, its line in the base, its lines and the base lines around it. It survives changes elsewhere in the context's
	// file, and covers each of the hunk's bytes and its place. That of a new file covers its mode too: the hunk makes the file.
	ID string
	// Base and Other are the lines before the hunk, from 0, in each version.
	Base, Other int
	// Removed are base lines, Added are the other version's.
	Removed, Added []string
}

// TextDiff is the difference between two versions of a text.
type TextDiff struct {
	// Before are the lines of the version before, with their newlines. Only the last may lack one. The hunks have what the later version adds.
	Before []string
	Hunks  []Hunk
	// creates is the mode of a file that the hunks create, "" if the version before exists.
	creates string
	// added and removed count the lines of all hunks. endings says that the versions differ in carriage returns alone.
	added, removed int
	endings        bool
	// ids are those of the hunks, in order. isShed says that lines and Hunks were dropped.
	ids    []string
	isShed bool
}

// DiffText compares two versions of the file at path.
func DiffText(path string, before, after []byte) *TextDiff {
	return diffText(path, "", before, after, math.MaxInt)
}

// diffVersions is DiffText for versions with these contents, of which the later one exists. It returns nil if there are more hunks than most.
func diffVersions(p Path, before, after Version, old, now []byte, most int) *TextDiff {
	creates := ""
	if !before.Exists() {
		creates = fmt.Sprintf("%o", headMode(after))
	}
	return diffText(string(p), creates, old, now, most)
}

// diffText returns nil if there are more hunks than most.
func diffText(path, creates string, before, after []byte, most int) *TextDiff {
	d := &TextDiff{Before: linediff.Lines(string(before)), creates: creates}
	later := linediff.Lines(string(after))
	runs := linediff.Runs(d.Before, later)
	if len(runs) > most {
		return nil
	}
	d.Hunks, d.ids = make([]Hunk, 0, len(runs)), make([]string, len(runs))
	added := addedLines(later, runs)
	for _, r := range runs {
		d.Hunks = append(d.Hunks, Hunk{
			Base: r.Before, Other: r.After, Removed: d.Before[r.Before : r.Before+r.Removed], Added: added[:r.Added:r.Added],
		})
		added = added[r.Added:]
	}
	for i := range d.Hunks {
		h := &d.Hunks[i]
		h.ID = d.idAt(path, h.Base, h)
		d.ids[i] = h.ID
		d.added += len(h.Added)
		d.removed += len(h.Removed)
	}
	d.endings = len(d.Hunks) > 0 && differInEndings(d.Before, later)
	return d
}

// drop drops the lines and hunks, and keeps the IDs of the hunks.
func (d *TextDiff) drop() { d.Before, d.Hunks, d.isShed = nil, nil, true }

// addedLines returns the lines that runs add. They are copies unless that is all of it, so that the later version does not stay in memory for a few of its lines.
func addedLines(later []string, runs []linediff.Run) []string {
	lines, size := 0, 0
	for _, r := range runs {
		lines += r.Added
		for _, line := range later[r.After : r.After+r.Added] {
			size += len(line)
		}
	}
	if lines == len(later) {
		return later
	}
	var text strings.Builder
	text.Grow(size)
	for _, r := range runs {
		for _, line := range later[r.After : r.After+r.Added] {
			text.WriteString(line)
		}
	}
	return linediff.Lines(text.String())
}

// memory returns about how many bytes the lines and hunks take.
func (d *TextDiff) memory() int64 {
	const perLine, perHunk = 16, 176
	n := int64(perHunk * len(d.Hunks))
	add := func(lines []string) {
		for _, line := range lines {
			n += int64(perLine + len(line))
		}
	}
	add(d.Before)
	for i := range d.Hunks {
		add(d.Hunks[i].Added)
	}
	return n
}

// around is how many base lines on each side a hunk's ID covers.
const around = 3

// surroundings returns the lines before that the ID of a hunk covers: from the first one to the last one, which is excluded.
func (d *TextDiff) surroundings(h *Hunk) (from, to int) {
	return max(0, h.Base-around), min(len(d.Before), h.Base+len(h.Removed)+around)
}

// idAt returns the ID of a hunk that stands at a line of the version before.
func (d *TextDiff) idAt(path string, line int, h *Hunk) string {
	from, to := d.surroundings(h)
	end := h.Base + len(h.Removed)
	place := []string{path, strconv.Itoa(line)}
	if d.creates != "" {
		place = append(place, d.creates)
	}
	return idOf("hunk.2", place, h.Removed, h.Added, d.Before[from:h.Base], d.Before[end:to])
}

// formerIDs returns the IDs that the hunks had while the version before was former, by their IDs of now. It leaves out hunks whose place in former
// is not certain: the lines that the ID covers must be one unchanged run of former.
func (d *TextDiff) formerIDs(path string, former []byte) map[string]string {
	out := map[string]string{}
	changed := append(linediff.Runs(linediff.Lines(string(former)), d.Before), linediff.Run{After: len(d.Before) + 1})
	moved := 0 // by how many lines an unchanged run stands further down than in former
	next := 0  // the first changed run that does not end before the hunk
	for i := range d.Hunks {
		h := &d.Hunks[i]
		from, to := d.surroundings(h)
		for ; changed[next].After+changed[next].Added <= from && next < len(changed)-1; next++ {
			moved += changed[next].Added - changed[next].Removed
		}
		if to <= changed[next].After {
			out[h.ID] = d.idAt(path, h.Base-moved, h)
		}
	}
	return out
}

var idEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// idLength is the length of an ID: 130 bits. A panel chooses the texts, and may look for two that have one ID.
const idLength = 26

// idOf names what the parts hold. Parts that differ in any way have another ID.
func idOf(kind string, parts ...[]string) string {
	h := sha256.New()
	var buf []byte
	add := func(text string) {
		buf = append(strconv.AppendInt(buf[:0], int64(len(text)), 10), ':')
		buf = append(buf, text...)
		_, _ = h.Write(buf) // a hash takes everything
	}
	add("ctxfs." + kind)
	for _, part := range parts {
		add(strconv.Itoa(len(part)))
		for _, text := range part {
			add(text)
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

// differInEndings reports whether two versions have the same lines but for their ends.
func differInEndings(before, after []string) bool {
	return slices.EqualFunc(before, after, func(a, b string) bool { return strings.TrimRight(a, "\r\n") == strings.TrimRight(b, "\r\n") })
}

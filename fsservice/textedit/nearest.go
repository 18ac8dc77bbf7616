package textedit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxNearest is how many lines an error shows, each with up to maxShown bytes.
	maxNearest, maxShown = 3, 120
	// maxCompared is how much of a line is compared, in bytes.
	maxCompared = 400
	// leastLikeness is the least likeness of a line that is shown.
	leastLikeness = 0.4
)

// nearLine is a line and how like it is to the one that was looked for: 1 if they have the same pairs of bytes.
type nearLine struct {
	number   int64
	text     []byte
	likeness float64
}

// nearest returns the lines of a text that are most like the longest line of wanted, as "12: \"text\"", by number. It reads the text once.
func nearest(text []byte, wanted string) []string {
	want := longestLine(wanted)
	if len(want) < 2 {
		return nil
	}
	var pairs [1 << 16]bool
	for i := range len(want) - 1 {
		pairs[pairAt(want, i)] = true
	}
	var best []nearLine
	number := int64(0)
	for line := range bytes.Lines(text) {
		number++
		line = cutLine(line)
		if l := likeness(&pairs, want, line); l >= leastLikeness && (len(best) < maxNearest || l > best[len(best)-1].likeness) {
			best = append(best, nearLine{number, line, l})
			slices.SortStableFunc(best, func(a, b nearLine) int { return cmp.Compare(b.likeness, a.likeness) })
			best = best[:min(len(best), maxNearest)]
		}
	}
	slices.SortFunc(best, func(a, b nearLine) int { return cmp.Compare(a.number, b.number) })
	var out []string
	for _, l := range best {
		out = append(out, fmt.Sprintf("%d: %q", l.number, shown(l.text)))
	}
	return out
}

// longestLine returns the longest line without the space around it: the shorter ones, such as a brace, are in many places.
func longestLine(text string) []byte {
	longest := []byte(nil)
	for line := range strings.Lines(text) {
		if l := cutLine([]byte(line)); len(l) > len(longest) {
			longest = l
		}
	}
	return longest
}

func cutLine(line []byte) []byte {
	line = bytes.TrimSpace(line)
	return line[:min(len(line), maxCompared)]
}

func pairAt(line []byte, i int) uint16 { return uint16(line[i])<<8 | uint16(line[i+1]) }

// likeness is Dice's coefficient of the pairs of bytes.
func likeness(pairs *[1 << 16]bool, want, line []byte) float64 {
	if len(line) < 2 {
		return 0
	}
	common := 0
	for i := range len(line) - 1 {
		if pairs[pairAt(line, i)] {
			common++
		}
	}
	return 2 * float64(min(common, len(want)-1)) / float64(len(want)+len(line)-2)
}

func shown(line []byte) string {
	if len(line) <= maxShown {
		return string(line)
	}
	return strings.ToValidUTF8(string(line[:maxShown]), "") + "…"
}

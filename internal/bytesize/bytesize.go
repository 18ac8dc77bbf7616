// Package bytesize reads and writes numbers of bytes as people write them: 512MiB.
package bytesize

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as "512MiB", "5G" or "1073741824". K, M, G and T are powers of 1024, with or without "iB" or "B".
// It is never negative.
type Size int64

var sizeUnits = []struct {
	letter string
	factor int64
	name   string
}{{"T", 1 << 40, "TiB"}, {"G", 1 << 30, "GiB"}, {"M", 1 << 20, "MiB"}, {"K", 1 << 10, "KiB"}}

// Set parses a size (pflag.Value).
func (s *Size) Set(text string) error {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B"), "I")
	factor := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.letter); ok {
			number, factor = rest, u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	// Negated, the comparison refuses NaN as well.
	if !(err == nil && n >= 0 && n*float64(factor) < 1<<62) {
		return fmt.Errorf("%q is no size; write it as 512MiB, 5GiB or a number of bytes", text)
	}
	*s = Size(n * float64(factor))
	return nil
}

// UnmarshalText parses a size.
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// MarshalText formats the size as Set parses it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Type names the flag's argument in a usage text.
func (s *Size) Type() string { return "size" }

// String returns the shortest exact form: "1GiB", "1536MiB", "1000".
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

package metadata

import (
	"strings"
	"testing"
	"unicode"
)

// TestFoldedAlikeIsTheSameKey compares every rune with every other case of it.
func TestFoldedAlikeIsTheSameKey(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for _, other := range []rune{unicode.SimpleFold(r), unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r)} {
			a, b := string(r), string(other)
			if (strings.EqualFold(a, b) || unicode.ToLower(r) == unicode.ToLower(other)) && Fold(a) != Fold(b) {
				t.Errorf("%q and %q (%U, %U) have the keys %q and %q", a, b, r, other, Fold(a), Fold(b))
			}
		}
	}
	if Fold("ctx_A~b.1-Z") != "ctx_a~b.1-z" || Fold("a") == Fold("b") {
		t.Error("letters are not lower-cased alone")
	}
}

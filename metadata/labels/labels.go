// Package labels checks, changes and selects the labels of panels and contexts. A label is a key and a value that a host gives, such as
// task=1204. ctxfs never interprets them.
package labels

import (
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/fserr"
)

// The bounds of a set of labels. MaxKey and MaxValue are in bytes.
const (
	Max      = 16
	MaxKey   = 63
	MaxValue = 256
	// MaxRequirements bounds a Selector.
	MaxRequirements = 32
)

// Apply returns labels without the keys to remove, and with those of put, which replace others. It returns nil for an empty set. It fails with
// EINVAL for a bad key or value, a key that is both put and removed, and too many labels. A key to remove may be absent.
func Apply(labels, put map[string]string, remove []string) (map[string]string, error) {
	out := maps.Clone(labels)
	for _, key := range remove {
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if _, ok := put[key]; ok {
			return nil, invalid(fmt.Sprintf("label %q is both set and removed", key), "name each key once")
		}
		delete(out, key)
	}
	for key, value := range put {
		if err := check(key, value); err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	switch n := len(out); {
	case n > Max:
		return nil, invalid(fmt.Sprintf("there would be %d labels", n), fmt.Sprintf("at most %d are kept: remove some", Max))
	case n == 0:
		return nil, nil
	}
	return out, nil
}

// Has reports whether labels already have all of put.
func Has(labels, put map[string]string) bool {
	for key, value := range put {
		if old, ok := labels[key]; !ok || old != value {
			return false
		}
	}
	return true
}

func check(key, value string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	switch {
	case len(value) > MaxValue:
		return invalid(fmt.Sprintf("the value of label %q has %d bytes", key, len(value)), fmt.Sprintf("at most %d are kept", MaxValue))
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return invalid(fmt.Sprintf("the value of label %q has characters that cannot be printed", key), "use printable UTF-8")
	}
	return nil
}

func checkKey(key string) error {
	ok := key != "" && len(key) <= MaxKey && !strings.ContainsRune("._/-", rune(key[0]))
	if !ok || strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("._/-", r)
	}) {
		return invalid(fmt.Sprintf("bad label key %.80q", key), fmt.Sprintf("use 1 to %d of a-z 0-9 . _ / -, beginning with a letter or a digit", MaxKey))
	}
	return nil
}

func invalid(detail, hint string) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: detail, Hint: hint}
}

// Selector selects sets of labels. The zero Selector selects all.
type Selector []requirement

// requirement is one part of a Selector.
type requirement struct {
	key string
	// value counts if exact.
	value string
	exact bool
	// absent requires that the key is missing.
	absent bool
}

// Parse returns the Selector of some terms, all of which must match: "key=value" requires this value, "key" any value, and "!key" that there
// is no such label. It fails with EINVAL for anything else.
func Parse(terms []string) (Selector, error) {
	if len(terms) > MaxRequirements {
		return nil, invalid(fmt.Sprintf("%d labels are selected by", len(terms)), fmt.Sprintf("use at most %d", MaxRequirements))
	}
	var out Selector
	for _, term := range terms {
		r := requirement{}
		r.key, r.value, r.exact = strings.Cut(term, "=")
		if !r.exact {
			r.key, r.absent = strings.CutPrefix(term, "!")
		}
		if err := check(r.key, r.value); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Matches reports whether a set of labels meets all requirements.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s {
		value, ok := labels[r.key]
		if ok == r.absent || r.exact && value != r.value {
			return false
		}
	}
	return true
}

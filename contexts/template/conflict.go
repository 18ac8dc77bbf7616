package template

import (
	"fmt"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// ConflictError says that two deps of a chain cannot both be had: they put
// different things at one path, or one path contains the other.
type ConflictError struct {
	// First and Second are in the order of the chain, the oldest ancestor's first.
	First, Second Dep
}

// Error names both templates and lines, and what each wants.
func (e *ConflictError) Error() string { return e.travelling().Error() }

// Unwrap returns the *fserr.Error (EINVAL) that a caller elsewhere gets.
func (e *ConflictError) Unwrap() error { return e.travelling() }

func (e *ConflictError) travelling() *fserr.Error {
	a, b := e.First, e.Second
	if a.Path != b.Path {
		outer, inner := a, b
		if len(inner.Path) < len(outer.Path) {
			outer, inner = b, a
		}
		return &fserr.Error{
			Code: fserr.EINVAL,
			Detail: fmt.Sprintf("template conflict: path %s (%s) contains path %s (%s)",
				outer.Path, outer.From[0], inner.Path, inner.From[0]),
			Hint: "put them beside one another, or leave one out",
		}
	}
	return &fserr.Error{
		Code: fserr.EINVAL,
		Detail: fmt.Sprintf("template conflict: path %s is %s (%s) and %s (%s)",
			a.Path, a.describe(), a.From[0], b.describe(), b.From[0]),
		Hint: "name the same repository and ref in both, or use another path",
	}
}

// describe says what a dep is, with as much of the commit as a person reads.
func (d Dep) describe() string { return fmt.Sprintf("%s at %.12s (%s)", d.Repo, d.Commit, d.Ref) }

// contains reports whether outer is inner or a directory above it.
func contains(outer, inner string) bool {
	return outer == inner || outer == "/" || strings.HasPrefix(inner, outer+"/")
}

// merge adds a dep to those of a chain, or finds the conflict.
func merge(deps []Dep, d Dep) ([]Dep, error) {
	for i, have := range deps {
		switch {
		case have.Path == d.Path && have.Source == d.Source && have.Commit == d.Commit:
			deps[i].From = append(deps[i].From, d.From...)
			return deps, nil
		case contains(have.Path, d.Path) || contains(d.Path, have.Path):
			return nil, &ConflictError{First: have, Second: d}
		}
	}
	return append(deps, d), nil
}

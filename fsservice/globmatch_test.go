package fsservice

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestGlobMatch(t *testing.T) {
	for _, c := range []struct {
		base, pattern, rel string
		names, want        bool
	}{
		{"/", "*.go", "a.go", false, true},
		{"/", "*.go", "src/a.go", false, false},
		{"/", "*.go", "src/a.go", true, true},
		{"/", "**/*.go", "src/a.go", false, true},
		{"/", "**/*.go", "a.go", false, true},
		{"/", "./src/*", "src/a.go", false, true},
		{"/src", "/src/*.go", "a.go", false, true},
		{"/src", "/lib/*.go", "a.go", false, false},
		{"/", "{src/a,lib}/*", "src/a/x", false, true},
		{"/", "**", ".hidden/x", false, true},
		{"/", "src/", "src", false, true},
	} {
		set, err := newGlobSet(c.base, []string{c.pattern}, c.names)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.match(c.rel); got != c.want {
			t.Errorf("%s in %s matches %s: %v", c.pattern, c.base, c.rel, got)
		}
	}
}

func TestGlobRefuses(t *testing.T) {
	for _, pattern := range []string{"", "../x", "a/../b", "/..", "[a", "a{b", "a\x00"} {
		if _, err := newGlobSet("/", []string{pattern}, false); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%q: %v, want EINVAL", pattern, err)
		}
	}
}

// TestGlobNeverPrunesAMatch draws patterns and paths: every directory above a
// path that matches must be one the walk enters.
func TestGlobNeverPrunesAMatch(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "*", "**", "?", "{a,b}", "{a/b,a}", "[ab]"})
	name := rapid.SampledFrom([]string{"a", "b", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "pattern"), "/")
		rel := strings.Join(rapid.SliceOfN(name, 1, 5).Draw(t, "path"), "/")
		set, err := newGlobSet("/", []string{pattern}, false)
		if err != nil {
			t.Fatal(err)
		}
		if !set.match(rel) {
			return
		}
		for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
			if !set.below(dir) {
				t.Fatalf("%s matches %s, but the walk does not enter %s", pattern, rel, dir)
			}
		}
	})
}

func TestListOfPatternsIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		patterns []string
		want     fserr.Code
	}{
		"1,000 names":            {slices.Repeat([]string{"node_modules"}, 1000), 0},
		"a hundred words":        {[]string{"{" + strings.Repeat("word,", 100) + "end}"}, 0},
		"30,000 patterns":        {slices.Repeat([]string{"node_modules"}, 30_000), fserr.EINVAL},
		"long with many braces":  {[]string{strings.Repeat("{a,b}", 9) + strings.Repeat("*a", 500)}, fserr.EINVAL},
		"many with a few braces": {slices.Repeat([]string{"**/*{a,b}{c,d}{e,f}"}, 2000), fserr.EINVAL},
	} {
		if _, err := newGlobSet("/", c.patterns, true); fserr.CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

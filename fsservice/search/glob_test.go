package search

import (
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// FuzzGlob looks for a pattern that is accepted and then panics, takes much processor time, or finds
// something where nothing below a directory was said to match.
func FuzzGlob(f *testing.F) {
	for _, p := range []string{
		"**/*.go", "a/{b,c}/[!d]?", "/**", "{a,a}{a,a}{a,a}b", strings.Repeat("{a,a}", 24) + "b", strings.Repeat("**/a/", 12) + "b", "*a*a*a*a*b",
		strings.Repeat("{", 100) + strings.Repeat("}", 100), "\\", "[", "[^]]", "{a,{b,{c}}}", "../x", "a/../b", "\xff*", "[\\]-a]", "{,}{,}{,}", "a//b", "{a/b,c}/d",
	} {
		f.Add(p, "a/a/a.go", "/d")
		f.Add(p, strings.Repeat("a", 200), "/")
	}
	f.Fuzz(func(t *testing.T, pattern, rel, base string) {
		rel = strings.Trim(rel, "/")
		if rel == "" || len(rel) > rootfs.MaxPath || hasDotDot(rel) || strings.Contains(rel, "//") {
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for _, names := range []bool{false, true} {
			set, err := newGlobSet(base, []string{pattern}, names)
			if err != nil {
				if fserr.CodeOf(err) != fserr.EINVAL {
					t.Errorf("%q: %v", pattern, err)
				}
				continue
			}
			begun := clocktest.ProcessorTime()
			matches := set.match(rel)
			if took := clocktest.ProcessorTime() - begun; took > 5*time.Second {
				t.Errorf("%q took %v with %q", pattern, took, rel)
			}
			dir, _, ok := cutLast(rel)
			if matches && ok && !set.below(dir) {
				t.Errorf("%q matches %q, and nothing below %q", pattern, rel, dir)
			}
		}
	})
}

func cutLast(rel string) (dir, name string, ok bool) {
	i := strings.LastIndexByte(rel, '/')
	if i < 0 {
		return "", rel, false
	}
	return rel[:i], rel[i+1:], true
}

func TestGlobsOfManyPatterns(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"**/*.{ts,tsx,js,jsx}": true, "{a,b}{c,d}{e,{f,g}}": true, strings.Repeat("{a,b}", 9): true, strings.Repeat(`\{a,b\}`, 50): true,
		strings.Repeat("{a,b}", 10): false, strings.Repeat("{a,a}", 24) + "b": false, strings.Repeat("{", 17) + strings.Repeat("}", 17): false,
		strings.Repeat("a", maxGlob): true, strings.Repeat("a", maxGlob+1): false,
	} {
		_, err := newGlobSet("/", []string{pattern}, false)
		if (err == nil) != ok || err != nil && fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("%.40q: %v", pattern, err)
		}
	}
}

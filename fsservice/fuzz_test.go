package fsservice

import (
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// FuzzGlob looks for a pattern that is accepted and then panics, takes long, or finds
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
		for _, names := range []bool{false, true} {
			set, err := newGlobSet(base, []string{pattern}, names)
			if err != nil {
				if fserr.CodeOf(err) != fserr.EINVAL {
					t.Errorf("%q: %v", pattern, err)
				}
				continue
			}
			begun := time.Now()
			matches := set.match(rel)
			if took := time.Since(begun); took > time.Second {
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

// FuzzFlags looks for flags and modes that are accepted and mean what they should not.
func FuzzFlags(f *testing.F) {
	for _, s := range []string{"r", "r+", "rs+", "w", "wx", "wx+", "a", "ax", "as+", "", "x", "0644", "7777", "-1", "100644", "0o777", "w\x00"} {
		f.Add(s, int32(0o102))
		f.Add(s, int32(-1))
	}
	f.Add("rw", int32(3))
	f.Fuzz(func(t *testing.T, text string, number int32) {
		for _, got := range []func() (openFlags, error){
			func() (openFlags, error) { return flagsOf(&text, nil, "r") },
			func() (openFlags, error) { return flagsOf(nil, &number, "r") },
		} {
			flags, err := got()
			switch {
			case err != nil && fserr.CodeOf(err) != fserr.EINVAL:
				t.Errorf("%q, %d: %v", text, number, err)
			case err == nil && (flags.Flags&^knownFlags != 0 || flags.Flags&rootfs.O_ACCMODE == rootfs.O_ACCMODE):
				t.Errorf("%q, %d: %#o was accepted", text, number, flags.Flags)
			case err == nil && !flags.changes() && (flags.Writable() || flags.replaces()):
				t.Errorf("%q, %d: writes, and changes nothing", text, number)
			}
		}
		mode, _, err := modeOf(nil, &text, 0)
		if err == nil && mode&^0o7777 != 0 {
			t.Errorf("mode %q is %#o", text, mode)
		}
		if n := uint32(number); err == nil {
			if mode, _, err = modeOf(&n, nil, 0); err == nil && (mode&^0o7777 != 0 || n&^0o177777 != 0) {
				t.Errorf("mode %#o is %#o", n, mode)
			}
		}
	})
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

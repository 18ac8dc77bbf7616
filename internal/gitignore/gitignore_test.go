package gitignore

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/git/gittest"
	"github.com/ctxfs/ctxfs/internal/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// excludes reports whether the patterns exclude a path or a directory above it. A name that ends in "/" is a directory.
func excludes(p *Patterns, name string) bool {
	for i := range len(name) {
		if name[i] == '/' && p.Match(name[:i], true) == Excluded {
			return true
		}
	}
	return !strings.HasSuffix(name, "/") && p.Match(name, false) == Excluded
}

// TestPatterns has cases that were read from gitignore(5), or that other matchers get wrong. Each is compared with git too.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name, text string
		// excluded and kept are separated by "|".
		excluded, kept string
	}{
		{"a whitelist", "*\n!*/\n!*.c\n", "password|d/password|d/e/x.h", "a.c|d/b.c|d/|d/e/"},
		{"a whitelist of a folder", "/*\n!/src/\n", ".env|data/|data/x", "src/|src/a|src/b/c"},
		{"a file below an excluded folder cannot be included", "d/\n!d/keep\n", "d/|d/keep", "keep"},
		{"a file of an excluded folder's content can be", "d/*\n!d/keep\n", "d/x", "d/|d/keep"},
		{"an exclamation mark negates a class", "[!x]\n", "y|d/", "x|xy"},
		{"a circumflex negates a class", "[^x]\n", "y", "x"},
		{"everything", "/**\n", "x|d/|d/x", ""},
		{"everything in a folder", "/d/**\n", "d/x|d/e/|d/e/y", "d/|x"},
		{"everything in a folder of any depth", "**/d/**\n", "d/x|e/d/y", "d/|e/d/"},
		{"a name at any depth", "**/x\n", "x|d/x|d/e/x", "dx"},
		{"any folders between", "a/**/b\n", "a/b|a/x/b|a/x/y/b", "ab|a/xb"},
		{"two stars beside a letter are one", "x/?a**b\n", "x/aab|x/aacb", "x/aa/b"},
		{"two stars after the head of a pattern", "a**/b\n", "a/b|ax/y/b", "b|xa/b"},
		{"three stars", "a/***/b\n", "a/b|a/x/y/b", ""},
		{"a star stops at a slash", "d/*.c\n", "d/a.c", "d/e/a.c"},
		{"a question mark stops at a slash", "d?e\n/d?f\n", "dxe", "d/e|d/f"},
		{"a class stops at a slash", "/d[!a]f\n/d[.-9]g\n", "dxf|d1g", "d/f|d/g"},
		{"a byte order mark", "\xef\xbb\xbfsecret\n", "secret", "x"},
		{"a byte order mark in the second line", "x\n\xef\xbb\xbfsecret\n", "x|\xef\xbb\xbfsecret", "secret"},
		{"spaces at the end", "a  \nb c \n", "a|b c", "a  |b c "},
		{"quoted spaces at the end", "a\\ \nb\\  \n", "a |b ", "a|b|b  "},
		{"spaces at the beginning", " a\n", " a", "a"},
		{"a tab at the end", "a\t\n", "a\t", "a"},
		{"a comment", "#a\n a # b\n", " a # b", "#a|a"},
		{"a quoted hash", "\\#a\n", "#a", "a|\\#a"},
		{"a quoted exclamation mark", "\\!a\n", "!a", "a"},
		{"line ends of Windows", "a\r\nb/\r\n\r\n", "a|b/", "a\r|b"},
		{"a carriage return at the end of the file", "a\r", "a", "a\r"},
		{"a carriage return within a line", "a\rb\n", "a\rb", "a"},
		{"two carriage returns", "a\r\r\n", "a\r", "a"},
		{"no line end", "a", "a", "b"},
		{"classes by name", "[[:alpha:]]1\n[[:digit:][:space:]]2\n[![:upper:]]3\n", "a1|Z1|12| 2|a3", "11|a2|A3"},
		{"an unknown class", "[[:foo:]]\n[a[:foo:]]\n", "", "f|a|:"},
		{"a class without an end", "[ab\n[[:alpha:]\na[\n", "", "a|[ab|a[|b"},
		{"a bracket that begins a class", "[]x]\n[!]x]1\n", "]|x|a1", "]1|x1"},
		{"a class with a bracket", "[[]\n[[a]1\n[[:]2\n", "[|[1|a1|:2|[2", "a"},
		{"ranges", "[a-c]\n[c-a]1\n[-a]2\n[a-]3\n[a-c-e]4\n", "b|-2|a3|-3|b4|-4|e4", "d|b1|d4"},
		{"quotes in a class", "[\\]]\n[\\a-\\c]1\n[a\\-c]2\n", "]|b1|-2|a2", "\\|b2"},
		{"bytes are not characters", "?\n[é]1\n", "x|\xc3", "é|é1"},
		{"a backslash quotes", "\\a\\*\n", "a*", "ab|\\a*"},
		{"a backslash at the end", "a\\\nb\\ \\\n", "", "a|a\\|b  \\|b"},
		{"a slash at the beginning", "/a\n", "a|a/", "d/a"},
		{"a slash within", "d/a\n", "d/a", "e/d/a|a"},
		{"a slash at the end", "a/\n", "a/|d/a/|a/x", "a|d/a"},
		{"two slashes at the end", "a//\n", "", "a|a/"},
		{"two slashes at the beginning", "//a\n", "", "a"},
		{"only slashes and marks", "/\n//\n!\n!/\n \n", "", "a|d/"},
		{"a NUL ends a line", "a\x00b\n", "a", "ab"},
		{"the last pattern counts", "a\n!a\n*.c\n!b.c\nb.c\n", "b.c|x.c", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := gittest.New(t)
			w.Git("", nil, "init", "-q")
			w.Write(".gitignore", c.text)
			p, git := Parse([]byte(c.text), "", false), gittest.CheckIgnore(t, w.Dir)
			defer git.Close()
			check := func(names string, want bool) {
				for name := range strings.SplitSeq(names, "|") {
					if name == "" {
						continue
					}
					if got := excludes(p, name); got != want {
						t.Errorf("%q: excluded is %v, want %v", name, got, want)
					}
					dir := w.In(filepath.Dir(name))
					must(t, os.MkdirAll(dir, 0o755))
					if got := git.Ignores(strings.TrimSuffix(name, "/"))[0]; got != want {
						t.Errorf("%q: git says %v, want %v", name, got, want)
					}
					must(t, os.RemoveAll(w.In(strings.SplitN(name, "/", 2)[0]))) // a name may be a file, and then a directory
				}
			}
			check(c.excluded, true)
			check(c.kept, false)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestClasses compares each class with git, byte by byte, and with core.ignoreCase too.
func TestClasses(t *testing.T) {
	for _, foldCase := range []bool{false, true} {
		w := gittest.New(t)
		w.Git("", nil, "init", "-q")
		w.Git("", nil, "config", "core.ignoreCase", fmt.Sprint(foldCase))
		git := gittest.CheckIgnore(t, w.Dir)
		defer git.Close()
		n := 0
		for name := range classes {
			for _, form := range []string{"[[:%s:]]", "[![:%s:]]", "[x[:%s:]-z]"} {
				n++
				text, dir := fmt.Sprintf(form, name), fmt.Sprint(n)
				w.Write(dir+"/.gitignore", text)
				p := Parse([]byte(text), dir, foldCase)
				var paths []string
				for c := 1; c < 256; c++ {
					if c != '/' && c != '.' {
						paths = append(paths, dir+"/"+string([]byte{byte(c)}))
					}
				}
				for i, want := range git.Ignores(paths...) {
					if excludes(p, paths[i]) != want {
						t.Errorf("with ignoreCase=%v, %s excludes %q: %v, and in git %v", foldCase, text, paths[i], !want, want)
					}
				}
			}
		}
	}
}

// FuzzPatterns looks for an ignore file that makes the matcher panic or take much processor time. Every user that can write to the
// workspace can write such a file, and every seeding reads it.
func FuzzPatterns(f *testing.F) {
	for _, text := range []string{
		"*.log\n!keep.log\n/build/\n", "**/a/**/b\n", strings.Repeat("**/a/", 12) + "b", "*a*a*a*a*a*b", "[", "[^]a]", "\\", "!", "/", "//", "a//b", "\\!a", "\\ ",
		"# comment\n\r\n \n", "\xff\xfe", "[[:alpha:]]", "[z-a]", "{a,b}", strings.Repeat("[", 500), strings.Repeat("?", 300), "a\\", "***", "a/**", "**", "/**/",
		strings.Repeat("*a", 2000), strings.Repeat("**/", 1300), strings.Repeat(strings.Repeat("*a", 100)+"\n", 20),
	} {
		f.Add(text, "a/b/c.log", "")
		f.Add(text, strings.Repeat("a/", 40)+strings.Repeat("a", 200), "a")
	}
	f.Fuzz(func(t *testing.T, text, name, dir string) {
		if len(text) > 4096 || len(name) > 4096 {
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		begun := clocktest.ProcessorTime()
		for _, foldCase := range []bool{false, true} {
			p := Parse([]byte(text), dir, foldCase)
			for _, isDir := range []bool{false, true} {
				if p.Match(name, isDir) != Silent && p.IsEmpty() {
					t.Errorf("%q is matched by nothing", name)
				}
			}
		}
		if took := clocktest.ProcessorTime() - begun; took > 5*time.Second {
			t.Errorf("%q took %v with %q", text, took, name)
		}
	})
}

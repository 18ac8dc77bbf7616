package seed

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/ctxfs/ctxfs/internal/clocktest"
)

// FuzzIgnore looks for an ignore file that makes the matcher panic or take much processor time. Every user that can write to the
// workspace can write such a file, and every seeding reads it.
func FuzzIgnore(f *testing.F) {
	for _, text := range []string{
		"*.log\n!keep.log\n/build/\n", "**/a/**/b\n", strings.Repeat("**/a/", 12) + "b", "*a*a*a*a*a*b", "[", "[^]a]", "\\", "!", "/", "//", "a//b", "\\!a", "\\ ",
		"# comment\n\r\n \n", "\xff\xfe", "[[:alpha:]]", "[z-a]", "{a,b}", strings.Repeat("[", 500), strings.Repeat("?", 300), "a\\", "***", "a/**", "**", "/**/",
	} {
		f.Add(text, "a/b/c.log", "")
		f.Add(text, strings.Repeat("a/", 40)+strings.Repeat("a", 200), "a")
	}
	f.Fuzz(func(t *testing.T, text, name, domain string) {
		if len(text) > 4096 || len(name) > 4096 {
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		begun := clocktest.ProcessorTime()
		patterns := parsePatterns(strings.Split(text, "\n"), domainOf(domain))
		m := gitignore.NewMatcher(patterns)
		for _, isDir := range []bool{false, true} {
			if m.Match(strings.Split(name, "/"), isDir) && len(patterns) == 0 {
				t.Errorf("%q is left out by nothing", name)
			}
		}
		if took := clocktest.ProcessorTime() - begun; took > 5*time.Second {
			t.Errorf("%q took %v with %q", text, took, name)
		}
	})
}

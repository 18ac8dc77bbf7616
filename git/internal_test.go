package git

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestPeeledIsBounded(t *testing.T) {
	p := &peeled{commits: map[object]string{}}
	asked := 0
	ask := func() (string, error) { asked++; return "c", nil }
	for i := range maxPeeled + 1 {
		if c, err := p.of("r", fmt.Sprintf("%040x", i), ask); c != "c" || err != nil {
			t.Fatal(c, err)
		}
	}
	if len(p.commits) != 1 || asked != maxPeeled+1 {
		t.Errorf("%d are remembered of %d", len(p.commits), asked)
	}
	failing := func() (string, error) { return "", fserr.ENOENT }
	if _, err := p.of("r", fmt.Sprintf("%040x", maxPeeled+2), failing); err == nil || len(p.commits) != 1 {
		t.Errorf("a failure is remembered: %v", err)
	}
}

// FuzzTree looks for a tree object that panics, or has a name that must not be created.
func FuzzTree(f *testing.F) {
	id := strings.Repeat("i", 20)
	f.Add([]byte("100644 a\x00" + id + "40000 b\x00" + id))
	f.Add([]byte("40000 .git\x00" + id))
	f.Add([]byte("40000 ..\x00" + id))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(data, 20, "")
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Name == "" || e.Name == ".." || IsDotGit(e.Name) || strings.ContainsAny(e.Name, "/\x00") || !isObjectID(e.ID) {
				t.Errorf("accepted %+v", e)
			}
		}
	})
}

// TestProgramsDoNotGetTheDatabasesPassword looks at the environment of git, and of hooks, which a repository has.
func TestProgramsDoNotGetTheDatabasesPassword(t *testing.T) {
	t.Setenv("CTXFS_METADATA", "postgres://u:secret-word@h/db")
	t.Setenv("PGPASSWORD", "secret-word")
	t.Setenv("PGPASSFILE", "secret-word")
	t.Setenv("KEPT", "kept")
	for name, env := range map[string][]string{"git": environ(nil), "a hook": userEnviron()} {
		all := strings.Join(env, "\n")
		if strings.Contains(all, "secret-word") || !strings.Contains(all, "KEPT=kept") {
			t.Errorf("%s gets\n%s", name, all)
		}
	}
}

// TestIsDotGit has the names that git itself refuses.
func TestIsDotGit(t *testing.T) {
	for _, name := range []string{".git", ".GIT", ".Git ", ".git.", "git~1", "GIT~1", ".g\u200cit", ".git:x", ".git::$INDEX_ALLOCATION", `a\.git`, `.git\hooks`, `a\GIT~1\b`} {
		if !IsDotGit(name) {
			t.Errorf("%q is not taken for .git", name)
		}
	}
	for _, name := range []string{"git", ".gitignore", "a.git", ".git2", "git~2", `a\b`, ".gitmodules", ""} {
		if IsDotGit(name) {
			t.Errorf("%q is taken for .git", name)
		}
	}
}

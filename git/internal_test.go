package git

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

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

// TestIsDotGit has the names that git itself refuses, and those that ext4 and ZFS may take for .git.
func TestIsDotGit(t *testing.T) {
	for _, name := range []string{".git", ".GIT", ".Git ", ".git.", "git~1", "GIT~1", ".g\u200cit", ".g\ufe0fit", ".g\u034fit", ".\uff47it", ".git:x", ".git::$INDEX_ALLOCATION", `a\.git`, `.git\hooks`, `a\GIT~1\b`} {
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

// TestASCIINamesFoldAsAllNames checks that the way for ASCII names leads to the same as the one for all.
func TestASCIINamesFoldAsAllNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOf(rapid.RuneFrom(nil, &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0, Hi: unicode.MaxASCII, Stride: 1}}})).Draw(t, "name")
		before, _, _ := strings.Cut(name, ":")
		if got, want := FoldName(name), strings.TrimRight(foldUnicode(before), ". "); got != want {
			t.Errorf("%q folds to %q, want %q", name, got, want)
		}
	})
}

// TestMessagesKeepTheirText checks that trailers are appended, and that git finds them.
func TestMessagesKeepTheirText(t *testing.T) {
	own := []string{"Reviewed-by: R <r@example.com>", "Ctxfs-Context: ctx_a"}
	tail := strings.Join(own, "\n") + "\n"
	for text, want := range map[string]string{
		"Subject":                                             "Subject\n\n" + tail,
		"\n\n  Subject  \n\n":                                 "  Subject\n\n" + tail,
		"Fix\n\nhttps://x":                                    "Fix\n\nhttps://x\n\n" + tail,
		"Fix\n\nSee:\nhttps://x/y":                            "Fix\n\nSee:\nhttps://x/y\n\n" + tail,
		"Fix\n\n- a: b\n- c":                                  "Fix\n\n- a: b\n- c\n\n" + tail,
		"Fix\n\nKey:value":                                    "Fix\n\nKey:value\n\n" + tail,
		"Fix\n\nbody  two\n\n\nmore":                          "Fix\n\nbody  two\n\n\nmore\n\n" + tail,
		"Fix\n\nSigned-off-by: A <a@example.com>":             "Fix\n\nSigned-off-by: A <a@example.com>\n" + tail,
		"Fix\n\nIssue : 7\nNote: one\n  two":                  "Fix\n\nIssue : 7\nNote: one\n  two\n" + tail,
		"Fix\n\nwords\nSigned-off-by: A <a@example.com>":      "Fix\n\nwords\nSigned-off-by: A <a@example.com>\n" + tail,
		"Fix\n\n1\n2\n3\n4\nSigned-off-by: A <a@example.com>": "Fix\n\n1\n2\n3\n4\nSigned-off-by: A <a@example.com>\n\n" + tail,
		"Fix\n\nbody\n\nReviewed-by: R <r@example.com>\nAcked-by: B <b@x.org>": "Fix\n\nbody\n\nReviewed-by: R <r@example.com>\nAcked-by: B <b@x.org>\nCtxfs-Context: ctx_a\n",
		"key: value": "key: value\n\n" + tail,
		"Fix\r\n\r\nSigned-off-by: A <a@example.com>\r\n": "Fix\r\n\r\nSigned-off-by: A <a@example.com>\n" + tail,
		"日本語\n\n本文":                                       "日本語\n\n本文\n\n" + tail,
	} {
		got := string(Message{Text: text, Trailers: own}.Full())
		if got != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
		cmd := exec.CommandContext(t.Context(), "git", "interpret-trailers", "--parse", "--no-divider")
		cmd.Stdin = strings.NewReader(got)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range own {
			if !strings.Contains(string(out), line+"\n") {
				t.Errorf("git finds in %q the trailers %q", got, out)
			}
		}
	}
}

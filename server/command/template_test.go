package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// templates is a workspace with a repository and a template that extends another.
func templates(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	repo := filepath.Join(dir, "packages", "tools")
	for path, text := range map[string]string{
		"packages/tools/run.sh":      "echo hi\n",
		"base/context-template.yml":  "deps:\n  /tools: {repo: packages/tools}\n",
		"panel/context-template.yml": "extends: base\ndeps:\n  /more: {repo: packages/tools, ref: main}\n",
		"twice/context-template.yml": "extends: base\ndeps:\n  /tools/inner: {repo: packages/tools}\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", repo, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return dir, strings.TrimSpace(string(out))
}

func TestTemplateExplain(t *testing.T) {
	t.Parallel()
	dir, commit := templates(t)
	_, out, _, err := run(t, nil, "template", "explain", "--workspace", dir, "panel")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"/tools":`, `"/more":`, commit, "base/context-template.yml:2", "panel/context-template.yml:3"} {
		if !strings.Contains(out, want) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
	_, out, _, err = run(t, nil, "--json", "template", "explain", "--workspace", dir, "panel/context-template.yml")
	var got struct {
		Hash  string
		Chain []string
		Deps  []struct{ Path, Commit string }
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got.Hash) != 64 || len(got.Chain) != 2 || len(got.Deps) != 2 || got.Deps[0].Commit != commit {
		t.Errorf("%v: %s", err, out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("the workspace holds %v, %v", entries, err)
	}
}

func TestTemplateExplainRefuses(t *testing.T) {
	t.Parallel()
	dir, _ := templates(t)
	for args, want := range map[string]string{
		"twice":    "base/context-template.yml:2",
		"nope":     "nope",
		"../panel": "..",
		"panel --git-base file:///nowhere/at/all": "git base URL",
	} {
		code, out, _, err := run(t, nil, append([]string{"template", "explain", "--workspace", dir}, strings.Fields(args)...)...)
		if code != 1 || err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: exit %d, %v, %q; want %q", args, code, err, out, want)
		}
	}
	code, _, _, err := run(t, nil, "template", "explain", "--workspace", dir, "--git-base", "ftp://user:secret@a/", "panel")
	if code != 64 || err == nil || !strings.Contains(err.Error(), "ftp") || !strings.Contains(err.Error(), "--git-base") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad base URL: exit %d, %v", code, err)
	}
}

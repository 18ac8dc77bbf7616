package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
)

func TestParse(t *testing.T) {
	t.Parallel()
	at := func(line, column int) Position { return Position{Template: "t.yml", Line: line, Column: column} }
	for _, c := range []struct {
		name, yaml string
		want       *Template
	}{
		{"nothing", "", &Template{Name: "t.yml"}},
		{"a comment", "# later\n", &Template{Name: "t.yml"}},
		{"an empty mapping", "{}", &Template{Name: "t.yml"}},
		{"no deps", "deps: {}", &Template{Name: "t.yml"}},
		{"a parent", "extends: a/b\n", &Template{Name: "t.yml", Extends: "a/b", ExtendsAt: at(1, 10)}},
		{
			"deps", "deps:\n  /a:\n    repo: x\n  'b//c/':\n    ref: \"1234567\"\n    repo: https://h/y\n",
			&Template{Name: "t.yml", Deps: []Declaration{{"/a", "x", "HEAD", at(2, 3)}, {"/b/c", "https://h/y", "1234567", at(4, 3)}}},
		},
		{"the root", "deps: {/: {repo: .}}", &Template{Name: "t.yml", Deps: []Declaration{{"/", ".", "HEAD", at(1, 8)}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse("t.yml", []byte(c.yaml))
			must(t, err)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefused(t *testing.T) {
	t.Parallel()
	dep := func(s string) string { return "deps:\n  /a: {repo: r, " + s + "}\n" }
	repo := func(s string) string { return "deps:\n  /a: {repo: '" + s + "'}\n" }
	ref := func(s string) string { return dep("ref: '" + s + "'") }
	for _, c := range []struct{ name, yaml, says string }{
		{"unknown key", "extends: a\ndepends: {}\n", "t.yml:2:1: unknown key \"depends\"; the keys of a template are extends, deps"},
		{"unknown key of a dep", dep("branch: main"), "t.yml:2:17: unknown key \"branch\"; the keys of a dep are repo, ref"},
		{"twice", "extends: a\nextends: b\n", "t.yml:2:1: key \"extends\" is already at line 1"},
		{"path twice", "deps:\n  /a: {repo: r}\n  a/: {repo: r}\n", "t.yml:3:3: path /a is already at line 2"},
		{"same path twice", "deps:\n  /a: {repo: r}\n  /a: {repo: r}\n", "t.yml:3:3: key \"/a\" is already"},
		{"repo twice", dep("repo: s"), "t.yml:2:17: key \"repo\""},
		{"a list", "- a\n", "t.yml:1:1: a template must be a mapping, not a list"},
		{"text", "hello\n", "a template must be a mapping, not text"},
		{"several parents", "extends: [a, b]\n", "t.yml:1:10: extends must be the path of another template, not a list"},
		{"no parent", "extends:\n", "t.yml:1:9: extends must be the path of another template, not nothing"},
		{"empty parent", "extends: ''\n", "extends is empty"},
		{"deps of nothing", "deps:\n", "t.yml:1:6: deps must be a mapping, not nothing"},
		{"list of deps", "deps: [a]\n", "t.yml:1:7: deps must be a mapping, not a list"},
		{"short form", "deps:\n  /a: r\n", "t.yml:2:7: a dep must be a mapping, not text"},
		{"no repository", "deps:\n  /a: {ref: main}\n", "t.yml:2:3: dep /a names no repository; add repo: PATH"},
		{"number", dep("ref: 1234567"), "t.yml:2:22: ref must be a branch, a tag or a commit, not a number; put it in quotes: \"1234567\""},
		{"exponent", dep("ref: 12345e7"), "put it in quotes: \"12345e7\""},
		{"date", dep("ref: 2026-01-01"), "not a date"},
		{"bool", dep("ref: true"), "not true or false"},
		{"number as a key", "1: a\n", "t.yml:1:1: a key must be text, not a number"},
		{"mapping as a key", "{a: b}: c\n", "a key must be text, not a mapping"},
		{"alias", "deps:\n  /a: &x {repo: r}\n  /b: *x\n", "t.yml:2:7: a dep has an anchor"},
		{"alias of itself", "deps: &d\n  /a: *d\n", "t.yml:1:7: deps has an anchor"},
		{"merge key", "deps:\n  <<: {}\n", "not a merge key"},
		{"tag", "extends: !!str a\n", "t.yml:1:10: extends has a tag"},
		{"own tag", "extends: !x a\n", "has a tag"},
		{"two documents", "deps: {}\n---\ndeps: {}\n", "this is a second one"},
		{"no YAML", "deps: {\n", "t.yml:1: this is not YAML"},
		{"no YAML after a document", "deps: {}\n---\n{", "this is not YAML"},
		{"tabs", "deps:\n\t/a: b\n", "t.yml:2: this is not YAML"},
		{"path above", "deps:\n  /a/../b: {repo: r}\n", "t.yml:2:3: bad path \"/a/../b\": it must not have '..'"},
		{"private path", "deps:\n  /a/.GIT/x: {repo: r}\n", "git keeps its own data"},
		{"NTFS .git", "deps:\n  '/.git . ': {repo: r}\n", "git keeps its own data"},
		{"HFS .git", "deps:\n  \"/.g\\u200cit\": {repo: r}\n", "git keeps its own data"},
		{"our path", "deps:\n  /.ctxfs-tmp-1: {repo: r}\n", "ctxfs keeps its own data"},
		{"the state", "deps:\n  /.ctxfs/x: {repo: r}\n", "ctxfs keeps its own data"},
		{"the marker", "deps:\n  /.template-ready: {repo: r}\n", "ctxfs keeps its own data"},
		{"line break in a path", "deps:\n  \"/a\\nb\": {repo: r}\n", "control characters"},
		{"NUL in a path", "deps:\n  \"/a\\0b\": {repo: r}\n", "control characters"},
		{"empty path", "deps:\n  '': {repo: r}\n", "a key is empty"},
		{"long name", "deps:\n  /" + strings.Repeat("x", 256) + ": {repo: r}\n", "at most 255 bytes"},
		{"option for a ref", ref("--upload-pack=touch x"), "t.yml:2:22: bad ref \"--upload-pack=touch x\""},
		{"range", ref("a..b"), "bad ref"},
		{"expression", ref("main^{/x}"), "bad ref"},
		{"reflog", ref("main@{1}"), "bad ref"},
		{"ancestor", ref("main~1"), "bad ref"},
		{"file of a commit", ref("main:f"), "bad ref"},
		{"ref outside", ref("refs/../config"), "bad ref"},
		{"hidden ref", ref("a/.b"), "bad ref"},
		{"lock", ref("a.lock/b"), "bad ref"},
		{"empty ref", ref(""), "ref is empty"},
		{"ext transport", repo("ext::sh -c touch%20x"), "it names a transport"},
		{"ext scheme", repo("ext://x"), "is not one of file, http, https, ssh"},
		{"git scheme", repo("git://h/x"), "is not one of"},
		{"option for a repository", repo("--upload-pack=x"), "must not begin with '-'"},
		{"repository above", repo("../x"), "it must not have '..'"},
		{"repository in git's data", repo("x/.git/modules/y"), "\".git\" is private"},
		{"repository in a context", repo(".contexts/ctx_a"), "\".contexts\" is private"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse("t.yml", []byte(c.yaml))
			if fserr.CodeOf(err) != fserr.EINVAL {
				t.Fatalf("got %v, want EINVAL", err)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "t.yml:") {
				t.Errorf("the error %q does not say %q", err, c.says)
			}
		})
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	if _, err := parse("t.yml", []byte(strings.Repeat("#", maxFile+1))); fserr.CodeOf(err) != fserr.EFBIG {
		t.Errorf("a file too long is %v", err)
	}
	var b strings.Builder
	b.WriteString("deps:\n")
	for i := range MaxDeps + 1 {
		b.WriteString("  /" + strings.Repeat("x", i%200+1) + string(rune('a'+i/200)) + ": {repo: r}\n")
	}
	if _, err := parse("t.yml", []byte(b.String())); fserr.CodeOf(err) != fserr.EFBIG {
		t.Errorf("too many deps are %v", err)
	}
	if _, err := parse("t.yml", []byte(strings.Repeat("[", 20000))); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("deep nesting is %v", err)
	}
}

// FuzzParse looks for a template that is accepted though it breaks a rule, for a
// refusal without a place, and for a panic.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "{}", "extends: a\n", "deps:\n  /a:\n    repo: x\n    ref: main\n", "deps: {/: {repo: .}}", "deps: &a {/x: *a}",
		"<<: {deps: {}}", "--- \n...\n---\n", "deps: {\"/\\u200c.git\": {repo: r}}", "? {a: b}\n: c", "extends: !!binary aGk=",
		"deps:\n  /a: {repo: 'https://h/x', ref: \"refs/tags/v1\"}\n", "\xff\xfed\x00e\x00", "%YAML 1.2\n---\n", "a: |\n  b\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tpl, err := parse("t.yml", data)
		if err != nil {
			if !strings.Contains(err.Error(), "t.yml:") {
				t.Errorf("no place in %q", err)
			}
			return
		}
		for _, d := range tpl.Deps {
			if clean, err := cleanDepPath(d.Path); err != nil || clean != d.Path {
				t.Errorf("path %q: %q, %v", d.Path, clean, err)
			}
			if checkRepo(d.Repo) != nil || git.CheckRef(d.Ref) != nil {
				t.Errorf("accepted %+v", d)
			}
		}
	})
}

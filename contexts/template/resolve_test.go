package template

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestThreeTemplatesExtendOneAnother(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	tools, data, prompts := w.Repo("packages/tools", "run.sh=x"), w.Repo("packages/data", "d=1"), w.Repo("prompts", "p=1")
	w.template("templates/base", "deps:", "  /tools: {repo: packages/tools}")
	w.template("templates/middle", "extends: ../base", "deps:", "  data/:", "    repo: /packages/data", "    ref: main")
	w.template("panels/editor", "extends: templates/middle", "deps:", "  /a//prompts:", "    repo: prompts", "    ref: "+prompts)
	r := w.mustResolve("panels/editor")
	chain := []string{"panels/editor/" + FileName, "templates/middle/" + FileName, "templates/base/" + FileName}
	if diff := cmp.Diff(chain, r.Chain); diff != "" {
		t.Error(diff)
	}
	want := []Dep{
		{"/a/prompts", "prompts", prompts, "workspace:prompts", prompts, []Position{{Template: chain[0], Line: 3, Column: 3}}},
		{"/data", "/packages/data", "main", "workspace:packages/data", data, []Position{{Template: chain[1], Line: 3, Column: 3}}},
		{"/tools", "packages/tools", "HEAD", "workspace:packages/tools", tools, []Position{{Template: chain[2], Line: 2, Column: 3}}},
	}
	if diff := cmp.Diff(want, r.Deps); diff != "" {
		t.Error(diff)
	}
	explained := r.Explain()
	for _, s := range []string{r.Hash, chain[1] + ":3:3", tools, "workspace:packages/data # main"[:23]} {
		if !strings.Contains(explained, s) {
			t.Errorf("%q is not explained in\n%s", s, explained)
		}
	}
	again, err := parse("explained.yml", []byte(explained))
	must(t, err)
	if len(again.Deps) != 3 || again.Deps[1].Ref != data {
		t.Errorf("the explanation reads back as %+v", again.Deps)
	}
	b, err := w.build("panels/editor")
	must(t, err)
	got := files(t, b.Tree)
	wantFiles := map[string]string{
		"a": "d", "a/prompts": "d", "a/prompts/p": "-rw-r--r-- 1", "data": "d", "data/d": "-rw-r--r-- 1",
		"tools": "d", "tools/run.sh": "-rw-r--r-- x",
	}
	if diff := cmp.Diff(wantFiles, got); diff != "" {
		t.Error(diff)
	}
}

func TestMovedBranchHasAnotherHash(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	first := w.Repo("r", "f=1")
	w.template("t", "deps: {/r: {repo: r, ref: main}}")
	old, err := w.build("t")
	must(t, err)
	second := w.Commit("r", "f=2")
	moved, err := w.build("t")
	must(t, err)
	if old.Hash == moved.Hash || old.Deps[0].Commit != first || moved.Deps[0].Commit != second {
		t.Errorf("got %+v and %+v", old, moved)
	}
	if got := files(t, old.Tree)["r/f"]; got != "-rw-r--r-- 1" {
		t.Errorf("the old one changed: %s", got)
	}
	if got := files(t, moved.Tree)["r/f"]; got != "-rw-r--r-- 2" {
		t.Errorf("the new one has %s", got)
	}
	w.Git("r", nil, "reset", "-q", "--hard", first)
	back := w.mustResolve("t")
	if back.Hash != old.Hash {
		t.Error("the same commit has another hash")
	}
}

func TestSamePairTwice(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	commit := w.Repo("r", "f=1")
	w.template("base", "deps:", "  /r: {repo: r, ref: main}", "  /s: {repo: r}")
	w.template("t", "extends: base", "deps:", "  r: {repo: ./r, ref: "+commit[:10]+"}")
	w.template("plain", "deps:", "  /s: {repo: r}", "  /r: {repo: r}")
	r := w.mustResolve("t")
	if len(r.Deps) != 2 || len(r.Deps[0].From) != 2 || r.Deps[0].From[1].Template != "t/"+FileName {
		t.Errorf("got %+v", r.Deps)
	}
	if plain := w.mustResolve("plain"); plain.Hash != r.Hash {
		t.Error("what comes to the same has another hash")
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	w.Git("r", nil, "branch", "old")
	w.Commit("r", "f=2")
	w.Repo("s", "f=3")
	w.template("base", "deps:", "  /r: {repo: r}", "  /deep/er: {repo: s}")
	for _, c := range []struct {
		name, dep string
		says      []string
	}{
		{"another commit", "/r: {repo: r, ref: old}", []string{"path /r is r at ", "base/" + FileName + ":2:3", "t/" + FileName + ":3:3"}},
		{"another repository", "/r: {repo: s}", []string{"s at "}},
		{"below", "/r/x: {repo: s}", []string{"path /r (base/", "contains path /r/x (t/"}},
		{"above", "/deep: {repo: s}", []string{"path /deep (t/", "contains path /deep/er (base/"}},
		{"the root", "/: {repo: s}", []string{"path / ("}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.template("t", "extends: base", "deps:", "  "+c.dep)
			_, err := w.resolve("t")
			var conflict *ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("got %v, want a conflict", err)
			}
			w.RefusedAs(err, fserr.EINVAL, c.says...)
		})
	}
	w.template("t", "extends: base", "deps:", "  /rx: {repo: s}", "  /deep/e: {repo: s}")
	if _, err := w.resolve("t"); err != nil {
		t.Errorf("names that only begin alike: %v", err)
	}
}

func TestChainRefused(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	must(t, os.WriteFile(filepath.Join(w.State, "outside.yml"), []byte("deps: {}"), 0o644))
	must(t, os.Symlink(w.State, w.In("out")))
	w.template("a", "extends: ./../b")
	w.template("b", "", "extends: c")
	w.template("c", "extends: /a/"+FileName)
	w.template("self", "extends: ./"+FileName)
	w.template("gone", "extends: nowhere")
	w.template("leaves", "extends: ../../x")
	w.template("link", "extends: out/outside.yml")
	w.template(".contexts/ctx_p", "deps: {}")
	w.template("panels", "extends: .contexts/ctx_p")
	w.Write("notes.txt", "deps: {}")
	w.template("text", "extends: notes.txt")
	last := "deps: {}"
	for _, n := range strings.Split("abcdefghijklmnopq", "") {
		w.template("long/"+n, last)
		last = "extends: ../" + n
	}
	for _, c := range []struct {
		at   string
		code fserr.Code
		says []string
	}{
		{"a", fserr.EINVAL, []string{"c/" + FileName + ":1:10", "cycle: a/" + FileName + " -> b/" + FileName + " -> c/" + FileName + " -> a/" + FileName}},
		{"self", fserr.EINVAL, []string{"cycle: self/" + FileName + " -> self/" + FileName}},
		{"gone", fserr.ENOENT, []string{"gone/" + FileName + ":1:10", `"nowhere"`}},
		{"leaves", fserr.EACCES, []string{"out of the workspace"}},
		{"link", fserr.ENOENT, nil},
		{"panels", fserr.EACCES, []string{"among the contexts"}},
		{"text", fserr.EINVAL, []string{"notes.txt"}},
		{"long/q", fserr.EINVAL, []string{"more than 16"}},
		{"nothing", fserr.ENOENT, []string{`"nothing"`}},
		{"../x", fserr.EACCES, nil},
		{"", fserr.EINVAL, nil},
	} {
		t.Run(c.at, func(t *testing.T) {
			_, err := w.resolve(c.at)
			w.RefusedAs(err, c.code, c.says...)
		})
	}
	if r := w.mustResolve("long/p"); len(r.Chain) != MaxChain {
		t.Errorf("a chain of %d, want %d", len(r.Chain), MaxChain)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.template("panels/editor", "deps: {}")
	w.Write("panels/plain/index.ts", "")
	src := w.source()
	for id, want := range map[string]string{
		"panels/editor": "panels/editor/" + FileName, "panels/plain": "", "panels/gone": "", "shell:x": "", "": "", "panels/editor/" + FileName: "",
	} {
		name, found, err := Find(src, id)
		if err != nil || name != want || found != (want != "") {
			t.Errorf("%q: got %q %v %v, want %q", id, name, found, err, want)
		}
	}
	must(t, os.Symlink("../..", w.In("out")))
	must(t, os.Symlink("loop", w.In("loop")))
	if _, found, err := Find(src, "loop"); found || err != nil {
		t.Errorf("a loop of links: %v, %v", found, err)
	}
	w.template(".contexts/ctx_a", "deps: {}")
	for id, says := range map[string]string{"../x": "out of the workspace", "out/x": "denied", ".contexts/ctx_a": "among the contexts"} {
		_, _, err := Find(src, id)
		w.RefusedAs(err, fserr.EACCES, says, "context_id")
	}
}

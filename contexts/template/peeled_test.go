package template

import (
	"context"
	"fmt"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// TestUnmovedTemplateNeedsNoGit resolves again where there is no git.
func TestUnmovedTemplateNeedsNoGit(t *testing.T) {
	w := newWorkspace(t)
	w.repo("a", "f=1")
	w.gitIn("a", nil, "tag", "-a", "-m", "v1", "v1")
	w.repo("b", "f=1")
	w.template("t", "deps: {/a: {repo: a, ref: v1}, /b: {repo: b, ref: main}}")
	r := w.resolver()
	first, err := r.Resolve(context.Background(), "t")
	must(t, err)
	next := w.gitIn("b", nil, "commit-tree", "-m", "next", "HEAD^{tree}")
	t.Setenv("PATH", t.TempDir())
	again, err := r.Resolve(context.Background(), "t")
	if err != nil || again.Hash != first.Hash {
		t.Fatalf("resolved %+v, %v", again, err)
	}
	w.write("b/.git/refs/heads/main", next+"\n")
	_, err = r.Resolve(context.Background(), "t")
	w.refusedAs(err, fserr.EOPNOTSUPP, "has no git", "install git", "t/context-template.yml:1:32")
	// An abbreviation may come to mean another object, or two.
	w.template("t", "deps: {/a: {repo: a, ref: '"+next[:8]+"'}}")
	_, err = r.Resolve(context.Background(), "t")
	w.refusedAs(err, fserr.EOPNOTSUPP, "has no git")
	w.base = "https://localhost/x"
	w.template("t", "deps: {/a: {repo: elsewhere}}")
	_, err = w.resolver().Resolve(context.Background(), "t")
	w.refusedAs(err, fserr.EOPNOTSUPP, "has no git")
}

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

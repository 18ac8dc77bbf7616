package template

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestWaitsForWhoBuilds(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	w.template("t", "deps: {/r: {repo: r}}")
	r := w.mustResolve("t")
	first := w.builder()
	inside, goOn := make(chan struct{}), make(chan struct{})
	builds := 0
	first.onPhase = func(phase string) {
		if phase == "staged" {
			builds++
			close(inside)
			<-goOn
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := first.Build(context.Background(), r, nil); err != nil {
			t.Error(err)
		}
	})
	<-inside
	impatient, cancel := context.WithCancel(context.Background())
	group.Go(func() {
		defer close(goOn)
		_, err := w.builder().Build(impatient, r, func(Progress) { cancel() })
		if fserr.CodeOf(err) != fserr.ECANCELED {
			t.Errorf("who does not wait got %v, want ECANCELED", err)
		}
	})
	second := w.builder()
	second.onPhase = func(phase string) {
		if phase == "staged" {
			t.Error("it was built twice")
		}
	}
	if _, err := second.Build(context.Background(), r, nil); err != nil {
		t.Error(err)
	}
	group.Wait()
	if builds != 1 {
		t.Errorf("%d builds, want 1", builds)
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.twoRepos()
	r := w.mustResolve("t")
	for _, phase := range []string{"locked", "reading /a", "writing /b"} {
		ctx, cancel := context.WithCancel(context.Background())
		b := w.builder()
		b.onPhase = func(at string) {
			if at == phase {
				cancel()
			}
		}
		_, err := b.Build(ctx, r, nil)
		w.RefusedAs(err, fserr.ECANCELED)
		if left := w.staged(); len(left) != 0 {
			t.Errorf("cancelled at %s, staging holds %v", phase, left)
		}
		if ready, err := b.Ready(r.Hash); ready != nil || err != nil {
			t.Errorf("cancelled at %s, ready is %v, %v", phase, ready, err)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.twoRepos()
	var all []Progress
	built, err := w.builder().Build(context.Background(), w.mustResolve("t"), func(p Progress) { all = append(all, p) })
	must(t, err)
	last := all[len(all)-1]
	if diff := cmp.Diff(Progress{Dep: "/b", Deps: 2, DepsTotal: 2, Files: built.Files, Bytes: built.Bytes}, last); diff != "" {
		t.Error(diff)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Files < all[i-1].Files || all[i].Deps < all[i-1].Deps {
			t.Errorf("%+v comes after %+v", all[i], all[i-1])
		}
	}
	if len(all) < 6 {
		t.Errorf("told %d times of %d files", len(all), built.Files)
	}
}

func TestReadyAndList(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Repo("r", "f=1")
	w.template("t", "deps: {/r: {repo: r}}")
	b, r := w.builder(), w.mustResolve("t")
	if ready, err := b.Ready(r.Hash); ready != nil || err != nil {
		t.Errorf("before the build ready is %v, %v", ready, err)
	}
	built, err := b.Build(context.Background(), r, nil)
	must(t, err)
	for _, hash := range []string{r.Hash, r.Hash[:12]} {
		ready, err := b.Ready(hash)
		must(t, err)
		if diff := cmp.Diff(built, ready); diff != "" {
			t.Error(diff)
		}
	}
	if !IsLayer(built.Dir) || IsLayer(w.State) {
		t.Error("a layer is not told from another directory")
	}
	for _, bad := range []string{"", "..", strings.Repeat("A", 12), r.Hash[:13], "../" + r.Hash[:9]} {
		if _, err := b.Ready(bad); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("hash %q: %v, want EINVAL", bad, err)
		}
	}
	w.leftovers(built)
	all, err := b.List()
	must(t, err)
	if len(all) != 1 || all[0].Hash != r.Hash {
		t.Errorf("listed %+v", all)
	}
}

// leftovers puts beside a layer what is none.
func (w *workspace) leftovers(b *Built) {
	w.T.Helper()
	ready, err := os.ReadFile(filepath.Join(b.Dir, readyName))
	must(w.T, err)
	for name, content := range map[string]string{"0": "", "1": "{", "2": string(ready), "3": `{"format":2,"hash":"` + strings.Repeat("3", 64) + `"}`} {
		dir := filepath.Join(w.State, "layers", strings.Repeat(name, hashDigits))
		must(w.T, os.Mkdir(dir, 0o700))
		must(w.T, os.WriteFile(filepath.Join(dir, readyName), []byte(content), 0o600))
	}
	must(w.T, os.Mkdir(filepath.Join(w.State, "layers", "other"), 0o700))
	must(w.T, os.Mkdir(filepath.Join(w.State, "layers", strings.Repeat("4", hashDigits)), 0o700))
}

func TestHashesThatBeginAlike(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	short := strings.Repeat("a", 12)
	for _, rest := range []string{"b", "c"} {
		hash := short + strings.Repeat(rest, hashDigits-12)
		dir := filepath.Join(w.State, "layers", hash)
		must(t, os.Mkdir(dir, 0o700))
		must(t, markReady(dir, readyFile{Format: readyFormat, Hash: hash}))
	}
	_, err := w.builder().Ready(short)
	w.RefusedAs(err, fserr.EINVAL, short)
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	r := (&Resolved{Deps: []Dep{
		{Path: "/b", Repo: "x", Ref: "main", Source: "git:https://h/x", Commit: "22"}, {Path: "/a", Source: "workspace:y", Commit: "11"},
	}}).seal()
	want := "ctxfs-template 1\n/a\x00workspace:y\x0011\n/b\x00git:https://h/x\x0022\n"
	if got := string(r.Canonical()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Written down once: a change of this value loses what was built.
	if want := "0abdb8c3bb8ea2e18930658e848906bb4e58e089685f9cfaeb90ac46250c526a"; r.Hash != want {
		t.Errorf("the hash is %s, want %s", r.Hash, want)
	}
}

func TestResolvedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	r := (&Resolved{Deps: []Dep{{Path: "/a", Source: "workspace:y", Commit: "11", From: []Position{{Template: "t.yml", Line: 1}}}}}).seal()
	_, err := w.builder().Build(context.Background(), r, nil)
	w.RefusedAs(err, fserr.EINVAL, "t.yml:1: dep /a")
}

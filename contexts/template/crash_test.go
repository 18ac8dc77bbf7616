package template

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/killtest"
)

// The test binary is its own child: with childEnv naming a workspace and stateEnv
// where to build, it builds the template "t", and stops at the phase in stopEnv to be killed.
const (
	childEnv = "CTXFS_TEST_CHILD"
	stateEnv = "CTXFS_TEST_STATE"
	stopEnv  = "CTXFS_TEST_STOP"
)

func child() int {
	if err := childBuild(); err != nil {
		fmt.Println("child:", err)
		return 1
	}
	return 0
}

func childBuild() error {
	ctx, dir, state := context.Background(), os.Getenv(childEnv), os.Getenv(stateEnv)
	root, err := rootfs.Open(dir, rootfs.Options{FollowMounts: true})
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	in := func(name string) string { return filepath.Join(state, name) }
	r, err := NewResolver(seed.Source{Root: root, Dir: dir}, "", git.Options{Scratch: in("staging")})
	if err != nil {
		return err
	}
	resolved, err := r.Resolve(ctx, "t")
	if err != nil {
		return err
	}
	b := NewBuilder(BuildOptions{Layers: in("layers"), Staging: in("staging"), Locks: in("locks")})
	builds := 0
	b.onPhase = func(phase string) {
		if phase == "staged" {
			builds++
		}
		if phase == os.Getenv(stopEnv) {
			killtest.Stop(phase)
		}
	}
	_, err = b.Build(ctx, resolved, nil)
	fmt.Printf("builds=%d\n", builds)
	return err
}

func (w *workspace) child(stop string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+w.Dir, stateEnv+"="+w.State, stopEnv+"="+stop)
	return cmd
}

// killAt runs a child until it is at phase, and kills it there.
func (w *workspace) killAt(phase string) {
	w.T.Helper()
	killtest.At(w.T, w.child(phase), phase)
}

// buildPhases are all steps of a build that a kill may hit.
var buildPhases = []string{
	"locked", "cleaned", "staged", "reading /a", "writing /a", "reading /b", "writing /b", "written", "manifested", "filled", "renamed", "marked",
}

// twoRepos makes a template of two repositories, large enough to be killed amid each.
func (w *workspace) twoRepos() map[string]string {
	w.T.Helper()
	want := map[string]string{}
	for _, name := range []string{"a", "b"} {
		var content []string
		want[name] = "d"
		for i := range 2*progressEvery + 1 {
			file := fmt.Sprintf("f%d", i)
			content = append(content, file+"="+strings.Repeat(name, 100))
			want[name+"/"+file] = "-rw-r--r-- " + strings.Repeat(name, 100)
		}
		w.Repo(name, content...)
	}
	w.template("t", "deps: {/a: {repo: a}, /b: {repo: b}}")
	return want
}

func TestKillAtEveryPhase(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	want := w.twoRepos()
	for round, phases := range [][]string{buildPhases, buildPhases} {
		for _, phase := range phases {
			content := fmt.Sprint(round, phase)
			w.Commit("a", "round="+content) // another hash each time
			want["a/round"] = "-rw-r--r-- " + content
			w.killAt(phase)
			if round > 0 && (phase == "cleaned" || phase == "renamed") {
				w.killAt(phase) // the cleanup may be killed as well
			}
			w.afterKill(phase, want)
			if t.Failed() {
				t.Fatalf("round %d, killed at %s", round, phase)
			}
		}
	}
}

// afterKill checks that nothing unfinished is taken for ready, and that the next build succeeds.
func (w *workspace) afterKill(phase string, want map[string]string) {
	w.T.Helper()
	b, r := w.builder(), w.mustResolve("t")
	ready, err := b.Ready(r.Hash[:12])
	must(w.T, err)
	if (ready != nil) != (phase == "marked") {
		w.T.Errorf("after the kill ready is %+v", ready)
	}
	built, err := b.Build(context.Background(), r, nil)
	must(w.T, err)
	if diff := cmp.Diff(want, files(w.T, built.Tree)); diff != "" {
		w.T.Error(diff)
	}
	m, err := seed.ReadManifest(built.ManifestFile)
	must(w.T, err)
	if m.Files != built.Files || len(m.Entries) != len(want) {
		w.T.Errorf("the manifest has %d files and %d entries, built were %d", m.Files, len(m.Entries), built.Files)
	}
	if left := w.staged(); len(left) != 0 && phase != "marked" {
		w.T.Errorf("staging holds %v", left)
	}
	must(w.T, os.RemoveAll(filepath.Join(w.State, "staging", "template-"+r.Hash)))
}

func TestTwoProcessesBuildOnce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.twoRepos()
	a, b := w.child(""), w.child("")
	var outA, outB strings.Builder
	a.Stdout, b.Stdout = &outA, &outB
	must(t, a.Start())
	must(t, b.Start())
	errA, errB := a.Wait(), b.Wait()
	if errA != nil || errB != nil {
		t.Fatalf("%v, %v: %s%s", errA, errB, outA.String(), outB.String())
	}
	if n := strings.Count(outA.String()+outB.String(), "builds=1"); n != 1 {
		t.Errorf("%d processes built, want 1: %s%s", n, outA.String(), outB.String())
	}
}

package server

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestBuildOutlivesItsCaller has a first file call give up while the template is built.
func TestBuildOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.template("p", "deps: {/t: {repo: tools}}")
	h.serve()
	e, err := h.templates().ExplainTemplate(t.Context(), &ctxfsv1.ExplainTemplateRequest{Template: "p"})
	if err != nil {
		t.Fatal(err)
	}
	// Another process is building it.
	lock := flock.New(h.in(".contexts/.ctxfs/locks/template-" + e.GetTemplate().GetHash() + ".lock"))
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer func() { _ = lock.Close() }()
	asPanel := with(t, panelKey, "p")
	// clock: the call must end with this deadline, and may be as slow as it likes
	short, cancel := context.WithTimeout(asPanel, time.Second)
	defer cancel()
	_, err = h.tryRead(short, "/t/tools.txt")
	if err == nil {
		t.Fatal("the call did not wait for the build")
	}
	s, err := ctxfsv1.NewContextServiceClient(h.cc).EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{PanelId: "p"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[ctxfsv1.SeedPhase]bool{}
	for {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetReady() != nil {
			break
		}
		if phase := m.GetProgress().GetPhase(); !seen[phase] {
			seen[phase] = true
			if phase == ctxfsv1.SeedPhase_SEED_PHASE_BUILDING {
				if err := lock.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if seen[ctxfsv1.SeedPhase_SEED_PHASE_SCANNING] || seen[ctxfsv1.SeedPhase_SEED_PHASE_LAYERING] {
		t.Errorf("the workspace was copied: %v", seen)
	}
	if got, err := h.tryRead(asPanel, "/t/tools.txt"); err != nil || got != "tools" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestMoveEndsWhatThePanelHasOpen keeps a watch and a handle in the old context.
func TestMoveEndsWhatThePanelHasOpen(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	h.template("p", "deps: {/t: {repo: tools}}")
	h.serve()
	old := with(t, "authorization", bearerOf(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "p"}).GetToken()))
	fsc := ctxfsv1.NewFsServiceClient(h.cc)
	watch, err := fsc.Watch(old, &ctxfsv1.WatchRequest{Path: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil { // ready
		t.Fatal(err)
	}
	if _, err := fsc.Open(old, &ctxfsv1.OpenRequest{Path: "/t/tools.txt"}); err != nil {
		t.Fatal(err)
	}
	// A host that acts for the panel is in the same context.
	if got, err := h.tryRead(with(t, panelKey, "p"), "/t/tools.txt"); err != nil || got != "tools" {
		t.Fatalf("read %q, %v", got, err)
	}
	h.write("tools/tools.txt", "moved")
	h.commit("tools")
	if got, err := h.tryRead(with(t, panelKey, "p"), "/t/tools.txt"); err != nil || got != "tools" {
		t.Errorf("a host's call moved the panel: %q, %v", got, err)
	}
	moved := h.open(&ctxfsv1.OpenPanelRequest{PanelId: "p"})
	for err == nil {
		_, err = watch.Recv()
	}
	if errors.Is(err, io.EOF) {
		t.Errorf("the watch ended as if all were well")
	}
	if got, err := h.tryRead(with(t, panelKey, "p"), "/t/tools.txt"); err != nil || got != "moved" {
		t.Errorf("a host that acts for the panel reads %q, %v", got, err)
	}
	panels, err := ctxfsv1.NewPanelServiceClient(h.cc).ListPanels(t.Context(), &ctxfsv1.ListPanelsRequest{})
	if err != nil || len(panels.GetPanels()) != 1 || panels.GetPanels()[0].GetHandles() != 0 || panels.GetPanels()[0].GetContextId() != moved.GetContextId() {
		t.Errorf("panels %v, %v", panels, err)
	}
}

func TestGitBase(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, cfg)
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--bare", h.in("data"), filepath.Join(base, "shared", "lib.git")).CombinedOutput(); err != nil {
		t.Fatalf("clone: %v %s", err, out)
	}
	h.template("t", "deps: {/lib: {repo: shared/lib.git, ref: main}}")
	h.serve()
	_, err = h.tryOpen(&ctxfsv1.OpenPanelRequest{PanelId: "a", Template: "t"})
	wantError(t, err, codes.NotFound, "ENOENT", "git base URL")
	h.cfg.GitBase = "file://" + filepath.ToSlash(base)
	h.serve()
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "a", Template: "t"}), map[string]string{"/lib/data.txt": "data"})
	h.stop()
	h.r = nil
	cfg.GitBase = "file:///nowhere/at/all"
	if s, err := New(t.Context(), cfg, Deps{}); err == nil || !strings.Contains(err.Error(), "git base URL") {
		t.Errorf("a base that is not there: %v, %v", s, err)
	}
	if _, err := os.Stat(h.in(".contexts/.ctxfs/server.json")); err == nil {
		t.Error("a start that failed left server.json")
	}
}

// TestHostileRepositoryRunsNothing opens a panel of a repository whose configuration, attributes, hooks and filters name a program.
func TestHostileRepositoryRunsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, testConfig(t))
	dir := t.TempDir()
	sprung, program := filepath.Join(dir, "sprung"), filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+sprung+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.write("tools/.gitattributes", "* filter=evil diff=evil text eol=crlf ident export-subst\n")
	h.write("tools/tools.txt", "$Id$\n")
	h.commit("tools")
	config := "[core]\n\tfsmonitor = " + program + "\n\thooksPath = hooks\n\tsshCommand = " + program + "\n[filter \"evil\"]\n\tsmudge = " + program +
		"\n\tclean = " + program + "\n\trequired = true\n[uploadpack]\n\tpackObjectsHook = " + program + "\n[alias]\n\tcat-file = !" + program + "\n"
	f, err := os.OpenFile(h.in("tools/.git/config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(config); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction"} {
		if err := os.WriteFile(h.in("tools/.git/hooks/"+hook), []byte("#!/bin/sh\nexec "+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.careless("status")
	if err := os.Remove(sprung); err != nil {
		t.Fatalf("the trap is not armed: %v", err)
	}
	h.template("p", "deps: {/t: {repo: tools, ref: main}}")
	h.serve() // a start asks for the state of the workspace's repositories
	h.wants(h.open(&ctxfsv1.OpenPanelRequest{PanelId: "p"}), map[string]string{
		"/t/tools.txt": "$Id$\n", "/t/.gitattributes": "* filter=evil diff=evil text eol=crlf ident export-subst\n",
	})
	h.open(&ctxfsv1.OpenPanelRequest{PanelId: "w"}) // so does a copy of the workspace
	if _, err := os.Stat(sprung); err == nil {
		t.Error("the repository's program ran")
	}
}

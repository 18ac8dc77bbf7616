package attack

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// dotGits are names that some file system takes for ".git".
var dotGits = []string{".git", ".GIT", ".Git", "git~1", "GIT~1", ".git.", ".git ", ".git::$INDEX_ALLOCATION", ".g\u200cit", "\ufeff.git", ".git\u200d. "}

// hostileChange is a change that an agent hopes a reviewer to apply.
type hostileChange struct {
	name string
	// plant makes the change in the context, and what it needs in the workspace.
	plant func(w *world)
	// path is what the reviewer selects by name, "" for none that could be selected. sensitive says that it may be applied then.
	path      string
	sensitive bool
}

func hostileChanges() []hostileChange {
	var all []hostileChange
	for _, name := range dotGits {
		for _, p := range []string{name + "/config", "src/" + name, "src/" + name + "/hooks/post-commit"} {
			all = append(all, hostileChange{name: p, path: p, plant: func(w *world) { w.file(p, "evil") }})
		}
	}
	for _, p := range []string{
		".github/workflows/x.yml", ".gitlab-ci.yml", "src/.husky/pre-commit", ".githooks/x", ".gitattributes", ".gitmodules", ".envrc", ".vscode/tasks.json",
		"package.json", "src/Makefile", ".claude/settings.json", ".mcp.json", ".v\u017fcode/tasks.json", "src/.lfsconfig", ".prettierrc", "infra/main.tf",
	} {
		all = append(all, hostileChange{name: p, path: p, sensitive: true, plant: func(w *world) { w.file(p, "evil") }})
	}
	in := func(w *world, name string) string { return filepath.Join(w.dir, name) }
	node := func(mode uint32, dev int) func(w *world) {
		return func(w *world) { w.must(unix.Mknod(in(w, "evil"), mode, dev)) }
	}
	all = append(
		all,
		hostileChange{name: "setuid", path: "evil", plant: func(w *world) {
			w.file("evil", "evil")
			w.must(unix.Chmod(in(w, "evil"), 0o4755))
		}},
		hostileChange{name: "fifo", path: "evil", plant: node(unix.S_IFIFO|0o666, 0)},
		hostileChange{name: "socket", path: "evil", plant: node(unix.S_IFSOCK|0o666, 0)},
		hostileChange{name: "contexts", path: ".contexts/ctx_ab/evil", plant: func(w *world) { w.file(".contexts/ctx_ab/evil", "evil") }},
		hostileChange{name: "state", path: "src/.ctxfs/host.token", plant: func(w *world) { w.file("src/.ctxfs/host.token", "evil") }},
		hostileChange{name: "link out", path: "evil", sensitive: true, plant: func(w *world) { w.link("../outside/target", "evil") }},
		hostileChange{name: "link in the workspace", path: "way/evil", plant: func(w *world) {
			w.must(os.Symlink("../outside", w.in("ws", "way")))
			w.file("way/evil", "evil")
		}},
		hostileChange{name: "link in the workspace to .git", path: "way/evil", plant: func(w *world) {
			w.must(os.Symlink(".git", w.in("ws", "way")))
			w.file("way/evil", "evil")
		}},
		hostileChange{name: "link in place of the file", path: "way", plant: func(w *world) {
			w.must(os.Symlink("../outside/target", w.in("ws", "way")))
			w.file("way", "evil")
		}},
	)
	if os.Geteuid() != 0 {
		return all
	}
	return append(
		all,
		hostileChange{name: "device", path: "evil", plant: node(unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))},
		hostileChange{name: "mount in the workspace", path: "way/evil", plant: func(w *world) {
			w.must(os.Mkdir(w.in("ws", "way"), 0o755))
			w.must(unix.Mount(w.in("outside"), w.in("ws", "way"), "", unix.MS_BIND, ""))
			w.Cleanup(func() { _ = unix.Unmount(w.in("ws", "way"), unix.MNT_DETACH) }) // the case has unmounted it
			w.file("way/evil", "evil")
		}},
	)
}

// eachReviewed runs a test on contexts of each driver. How a comparison finds changes, and how Discard writes, depends on the driver.
func eachReviewed(t *testing.T, f func(t *testing.T, cfg config)) {
	for _, cfg := range configs(t) {
		if cfg.implementation == "openat2" {
			t.Run(cfg.driver, func(t *testing.T) {
				cfg.transport = "unary"
				f(t, cfg)
			})
		}
	}
}

// TestHostileChanges lets a reviewer approve everything at once, and then each hostile change by its name. Nothing may reach a place beside
// the workspace's files, and what runs programs only by its name.
func TestHostileChanges(t *testing.T) { eachReviewed(t, testHostileChanges) }

func testHostileChanges(t *testing.T, cfg config) {
	w := newWorld(t, cfg)
	guarded := []string{w.in("outside"), w.in("ws", ".git"), w.victim.dir, w.in("ws", ".contexts", ".ctxfs", "host.token")}
	for _, c := range hostileChanges() {
		w.clear()
		w.file("README.md", "# A workspace\n")
		w.file("src/main.go", "package main\n")
		c.plant(w)
		var before []snapshot
		for _, dir := range guarded {
			before = append(before, w.snapshotOf(dir))
		}
		ws := w.names()
		review := clientOf(w).Review(filepath.Base(w.dir))
		_, err := review.Apply(w.host, &ctxfsv1.ApplyRequest{Selection: client.SelectAll(), Approve: true})
		if names := w.names(); !slices.Equal(names, ws) {
			t.Errorf("%s: all brought %q into the workspace, which had %q (%v)", c.name, names, ws, err)
		}
		for _, p := range []string{c.path, filepath.Dir(c.path)} {
			if p == "." {
				continue
			}
			_, err = review.Apply(w.host, &ctxfsv1.ApplyRequest{Selection: client.SelectPaths("/" + p), Approve: true})
			if p == c.path && (err == nil) != c.sensitive {
				t.Errorf("%s: apply of %q: %v", c.name, p, err)
			}
			if names := w.names(); !c.sensitive && !slices.Equal(names, ws) {
				t.Errorf("%s: %q brought %q into the workspace, which had %q", c.name, p, names, ws)
			}
		}
		for i, dir := range guarded {
			for _, d := range before[i].diff(w.snapshotOf(dir)) {
				t.Errorf("%s: %s", c.name, d)
			}
		}
		w.forget(c.path)
	}
	w.report()
}

// names lists what the workspace holds, without .git and .contexts.
func (w *world) names() (out []string) {
	w.Helper()
	w.must(filepath.WalkDir(w.in("ws"), func(name string, d os.DirEntry, err error) error {
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".contexts") {
			return filepath.SkipDir
		}
		if d.Type()&os.ModeDir == 0 {
			out = append(out, name)
		}
		return err
	}))
	return out
}

// forget removes what a case has left in the workspace.
func (w *world) forget(path string) {
	w.Helper()
	_ = unix.Unmount(w.in("ws", "way"), unix.MNT_DETACH) // of the case that mounts
	w.must(errors.Join(os.RemoveAll(w.in("ws", "way")), os.RemoveAll(w.in("ws", path))))
}

func clientOf(w *world) *client.Client {
	w.Helper()
	c, err := client.Dial(w.host, client.WithAddress(w.server.Info().Addresses.Target()))
	w.must(err)
	w.Cleanup(func() { w.must(c.Close()) })
	return c
}

// TestPanelLearnsNothingFromReviews has a panel ask about the context of another one, the workspace, and what a reviewer alone may do.
func TestPanelLearnsNothingFromReviews(t *testing.T) { eachReviewed(t, testPanelLearnsNothing) }

func testPanelLearnsNothing(t *testing.T, cfg config) {
	w := newWorld(t, cfg)
	api, victim := ctxfsv1.NewReviewServiceClient(w.cc), filepath.Base(w.victim.dir)
	all := &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}
	w.must(os.WriteFile(filepath.Join(w.victim.dir, "README.md"), []byte(w.secret), 0o600))
	w.must(os.WriteFile(w.in("ws", "src", "main.go"), []byte("package "+w.secret+"\n"), 0o600))
	w.must(os.WriteFile(filepath.Join(w.dir, "README.md"), []byte("mine\n"), 0o600))
	applied, err := clientOf(w).Review(victim).Apply(w.host, &ctxfsv1.ApplyRequest{Selection: client.SelectPaths("/README.md"), Approve: true})
	w.must(err)
	w.before = w.snapshot()
	hunk := w.hunkOf(api, victim)
	ctx, cancel := context.WithTimeout(w.attacker.ctx, time.Minute) // a watch that is allowed does not end
	defer cancel()
	unary := func(what string, m proto.Message, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s is allowed: %v", what, m)
		} else {
			w.checkBytes(what, []byte(err.Error()))
		}
	}
	for _, id := range []string{victim, "", "../ctx_ab", "ctx_ab\x00", "ctx_none", "\x1b[2J"} {
		review, err := api.GetReview(ctx, &ctxfsv1.GetReviewRequest{ContextId: id})
		if id != "" {
			unary("GetReview", review, err)
			s, err := api.ListChanges(ctx, &ctxfsv1.ListChangesRequest{ContextId: id})
			w.drained("ListChanges", s, err, false)
			d, err := api.GetDiff(ctx, &ctxfsv1.GetDiffRequest{ContextId: id})
			w.drained("GetDiff", d, err, false)
			submitted, err := api.SubmitReview(ctx, &ctxfsv1.SubmitReviewRequest{ContextId: id})
			unary("SubmitReview", submitted, err)
			discarded, err := api.Discard(ctx, &ctxfsv1.DiscardRequest{ContextId: id, Selection: all})
			unary("Discard", discarded, err)
			journal, err := api.ListJournal(ctx, &ctxfsv1.ListJournalRequest{ContextId: id})
			unary("ListJournal", journal, err)
			watched, err := api.WatchReview(ctx, &ctxfsv1.WatchReviewRequest{ContextId: id})
			w.drained("WatchReview", watched, err, false)
		}
		decided, err := api.Decide(ctx, &ctxfsv1.DecideRequest{ContextId: id, Selection: all, Decision: ctxfsv1.Decision_DECISION_APPROVED})
		unary("Decide", decided, err)
		done, err := api.Apply(ctx, &ctxfsv1.ApplyRequest{ContextId: id, Selection: all, Approve: true})
		unary("Apply", done, err)
	}
	undone, err := api.Undo(ctx, &ctxfsv1.UndoRequest{JournalId: applied.GetJournalId()})
	unary("Undo of another's entry", undone, err)
	journal, err := api.ListJournal(ctx, &ctxfsv1.ListJournalRequest{})
	unary("ListJournal", journal, err)
	for _, version := range []ctxfsv1.Version{0, 1, 2, 3, 4} {
		for _, p := range []string{"/target", "../target", "/../ctx_ab/target", "/.git/config", "src/../../ctx_ab/README.md", "/src/main.go", "/\x1b]0;x\x07", "\xff\xfe", strings.Repeat("a/", 3000)} {
			for _, req := range []*ctxfsv1.ReadVersionRequest{{Path: strings.ToValidUTF8(p, "?"), Version: version}, {RawPath: []byte(p), Version: version}, {ContextId: victim, RawPath: []byte(p), Version: version}} {
				s, err := api.ReadVersion(ctx, req)
				w.drained("ReadVersion", s, err, true)
			}
		}
	}
	mine, err := api.ListChanges(ctx, &ctxfsv1.ListChangesRequest{})
	w.drained("the panel's own changes", mine, err, true)
	patches := [][]byte{
		[]byte("diff --git a/../ctx_ab/README.md b/../ctx_ab/README.md\n--- a/../ctx_ab/README.md\n+++ b/../ctx_ab/README.md\n@@ -1 +1 @@\n-x\n+y\n"),
		[]byte("diff --git a/README.md b/README.md\nGIT binary patch\nliteral 9223372036854775807\nAc$@\n\n"),
		[]byte("--- a/README.md\n+++ b/README.md\n@@ -1,2147483647 +1,2147483647 @@\n-x\n"),
		[]byte(strings.Repeat("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-x\n+y\n", 50_000)),
	}
	for _, patch := range patches {
		m, err := api.Discard(ctx, &ctxfsv1.DiscardRequest{Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Patch{Patch: patch}}})
		unary("Discard by a patch", m, err)
	}
	many := &ctxfsv1.SelectedChanges{}
	for range 20_000 {
		many.Changes = append(many.Changes, &ctxfsv1.SelectedChange{Path: "/none"})
	}
	for what, changes := range map[string]*ctxfsv1.SelectedChanges{
		"a huge selection": many, "another context's hunk": {Changes: []*ctxfsv1.SelectedChange{{Path: "/README.md", HunkIds: []string{hunk}}}},
		"a path with ..": {Changes: []*ctxfsv1.SelectedChange{{Path: "../ctx_ab/README.md"}}},
	} {
		m, err := api.Discard(ctx, &ctxfsv1.DiscardRequest{Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: changes}}})
		unary("Discard of "+what, m, err)
	}
	w.checkLog("reviews")
	w.checkVictim("reviews")
	own := "/.contexts/.ctxfs/review/" // what a comparison keeps
	for _, d := range w.before.diff(w.snapshot()) {
		if !strings.Contains(d, own) {
			t.Errorf("outside, %s", d)
		}
	}
	w.report()
}

// hunkOf returns the ID of a hunk of another context.
func (w *world) hunkOf(api ctxfsv1.ReviewServiceClient, id string) string {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.victim.dir, "src", "main.go"), []byte("package main // "+w.secret+"\n"), 0o600))
	w.before = w.snapshot()
	s, err := api.GetDiff(w.host, &ctxfsv1.GetDiffRequest{ContextId: id, Paths: []string{"/src/main.go"}})
	for err == nil {
		var m *ctxfsv1.GetDiffResponse
		if m, err = s.Recv(); m.GetHunk() != nil {
			return m.GetHunk().GetHunkId()
		}
	}
	w.Fatal(err)
	return ""
}

// drained receives a stream to its end, and checks what comes. If it may not succeed, it must fail.
func (w *world) drained(what string, s any, err error, may bool) {
	w.Helper()
	stream, _ := s.(grpc.ClientStream)
	for err == nil {
		m := emptyOf(s)
		if err = stream.RecvMsg(m); err == nil {
			w.checkReply(what, m)
		}
	}
	if errors.Is(err, io.EOF) && !may {
		w.Errorf("%s is allowed", what)
	}
	w.checkBytes(what, []byte(err.Error()))
}

// emptyOf returns an empty message of a stream's kind.
func emptyOf(s any) proto.Message {
	switch s.(type) {
	case grpc.ServerStreamingClient[ctxfsv1.ListChangesResponse]:
		return &ctxfsv1.ListChangesResponse{}
	case grpc.ServerStreamingClient[ctxfsv1.GetDiffResponse]:
		return &ctxfsv1.GetDiffResponse{}
	case grpc.ServerStreamingClient[ctxfsv1.WatchReviewResponse]:
		return &ctxfsv1.WatchReviewResponse{}
	}
	return &ctxfsv1.ReadVersionResponse{}
}

// TestReviewsRunNothing names a program wherever git takes one, in the workspace, in the context and in the environment, and then lists, merges, applies
// and undoes.
func TestReviewsRunNothing(t *testing.T) { eachReviewed(t, testReviewsRunNothing) }

func testReviewsRunNothing(t *testing.T, cfg config) {
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+ran+"'\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := hostileSettings(program)
	attributes := "* diff=evil merge=evil filter=evil text\n"
	home := t.TempDir()
	long := strings.Repeat("line\n", 30)
	cfg.prepare = func(w *world) { w.put("long", "first\n"+long+"last\n", 0o644) }
	w := newWorld(t, cfg)
	for name, text := range map[string]string{
		filepath.Join(home, "evil.config"): settings, filepath.Join(home, ".gitconfig"): settings, w.in("ws", ".gitattributes"): attributes, w.in("ws", ".git", "info", "attributes"): attributes,
		w.in("ws", ".git", "config"): settings + "[include]\n\tpath = " + home + "/evil.config\n", filepath.Join(w.dir, ".gitattributes"): attributes,
		filepath.Join(w.dir, ".git", "config"): settings, w.in("ws", "long"): "first\n" + long + "the user's\n", filepath.Join(w.dir, "long"): "the agent's\n" + long + "last\n",
	} {
		w.must(errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)))
	}
	w.must(exec.CommandContext(t.Context(), program).Run())
	if _, err := os.Stat(ran); err != nil {
		t.Fatalf("the program does not show that it runs: %v", err)
	}
	w.must(os.Remove(ran))
	for name, value := range map[string]string{
		"HOME": home, "GIT_CONFIG_GLOBAL": home + "/evil.config", "GIT_EXTERNAL_DIFF": program, "GIT_PAGER": program, "GIT_EDITOR": program, "GIT_ASKPASS": program,
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program, "GIT_EXEC_PATH": home, "GIT_TRACE": ran, "GIT_DIR": home,
	} {
		t.Setenv(name, value)
	}
	review := clientOf(w).Review(filepath.Base(w.dir))
	_, _, err := review.Patch(w.host, io.Discard, nil)
	w.must(err)
	applied, err := review.Apply(w.host, &ctxfsv1.ApplyRequest{Selection: client.SelectPaths("/long", "/.gitattributes"), Approve: true})
	w.must(err)
	if got, err := os.ReadFile(w.in("ws", "long")); err != nil || string(got) != "the agent's\n"+long+"the user's\n" {
		t.Errorf("the merge gave %q, %v", got, err)
	}
	_, err = clientOf(w).Undo(w.host, applied.GetJournalId(), false)
	w.must(err)
	_, err = review.Discard(w.host, &ctxfsv1.DiscardRequest{Selection: client.SelectPaths("/long")})
	w.must(err)
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program ran, or git got the environment of the server")
	}
}

// hostileSettings is a configuration of git that names a program wherever that is possible.
func hostileSettings(program string) string {
	var b strings.Builder
	for section, keys := range map[string][]string{
		"core": {"fsmonitor", "hooksPath", "pager", "editor", "sshCommand", "alternateRefsCommand"}, "diff": {"external"}, `diff "evil"`: {"command", "textconv"},
		`merge "evil"`: {"driver"}, `filter "evil"`: {"clean", "smudge", "process"}, "credential": {"helper"}, "gpg": {"program"}, "alias": {"merge-file"},
	} {
		b.WriteString("[" + section + "]\n")
		for _, key := range keys {
			b.WriteString("\t" + key + " = " + program + "\n")
		}
	}
	return b.String()
}

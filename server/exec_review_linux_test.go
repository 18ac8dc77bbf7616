package server

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// awaitOutput waits until a process has written a text to standard output.
func awaitOutput(t *testing.T, c ctxfsv1.ExecServiceClient, process, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := c.FollowOutput(ctx, &ctxfsv1.FollowOutputRequest{ProcessId: process, Follow: true})
	for out := ""; !strings.Contains(out, text); {
		if err != nil {
			t.Fatalf("waiting for %q: %v after %q", text, err, out)
		}
		var m *ctxfsv1.FollowOutputResponse
		m, err = stream.Recv()
		out += string(m.GetOutput().GetData())
	}
}

func selected(path string) *ctxfsv1.Selection {
	return &ctxfsv1.Selection{What: &ctxfsv1.Selection_Changes{Changes: &ctxfsv1.SelectedChanges{Changes: []*ctxfsv1.SelectedChange{{Path: path}}}}}
}

// TestReviewBesideDevServer lists, applies and snapshots what a panel changed while a command writes and another one waits.
func TestReviewBesideDevServer(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	var processes []string
	for _, script := range []string{"echo ready; while :; do echo $((n=n+1)) > log.new; mv log.new log; done", "echo ready; exec sleep 1000"} {
		p, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: inShell(script)})
		if err != nil {
			t.Fatal(err)
		}
		processes = append(processes, p.GetProcess().GetProcessId())
		awaitOutput(t, c, p.GetProcess().GetProcessId(), "ready")
	}
	panel := with(t, "ctxfs-panel", "a")
	files := ctxfsv1.NewFsServiceClient(h.cc)
	if _, err := files.WriteFile(panel, &ctxfsv1.WriteFileRequest{Path: "/app/app.txt", Content: &ctxfsv1.WriteFileRequest_Text{Text: "edited\n"}}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: "ctx_a"}); got["/app/app.txt"] == nil || got["/log"].GetUnstable() {
			t.Errorf("changes: %v", got)
		}
	}
	_, err := h.reviews().Apply(t.Context(), &ctxfsv1.ApplyRequest{ContextId: "ctx_a", Approve: true, Selection: selected("/app/app.txt")})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(h.cfg.Workspace, "app/app.txt")); err != nil || string(text) != "edited\n" {
		t.Errorf("the workspace has %q, %v", text, err)
	}
	if _, err := h.contexts().Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_a", Name: "beside"}); err != nil {
		t.Error(err)
	}
	for _, id := range processes {
		p, err := c.GetProcess(t.Context(), &ctxfsv1.GetProcessRequest{ProcessId: id})
		if err != nil || p.GetProcess().GetExit() != nil {
			t.Errorf("the command has ended: %v, %v", p, err)
		}
	}
}

// makeMany makes 700 files. changeMany changes 300 of them, removes 200, moves 100, and adds 300: of 1,000 paths the content is another one.
const (
	makeMany   = "mkdir -p many/a many/b && for i in $(seq 700); do echo before $i > many/a/$i; done"
	changeMany = "for i in $(seq 300); do echo after $i > many/a/$i; echo new $i > many/b/$i; done; for i in $(seq 301 500); do rm many/a/$i; done; " +
		"for i in $(seq 501 600); do mv many/a/$i many/b/moved-$i; done"
)

// TestCheckpointedCommandIsUndone runs a command that changes 1,000 files while a panel writes in all ways, lists what the command changed, and
// takes it back.
func TestCheckpointedCommandIsUndone(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	panel, files := with(t, "ctxfs-panel", "a"), ctxfsv1.NewFsServiceClient(h.cc)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		_, err := files.WriteFile(panel, &ctxfsv1.WriteFileRequest{Path: path, Content: &ctxfsv1.WriteFileRequest_Text{Text: text}})
		must(err)
	}
	for _, p := range []string{"/both", "/open", "/moved", "/removed", "/later"} {
		write(p, "before\n")
	}
	if r, err := run(t.Context(), c, inShell(makeMany)); err != nil || r.exited.GetExit().GetCode() != 0 {
		t.Fatalf("making files: %+v, %v", r, err)
	}
	opened, err := files.Open(panel, &ctxfsv1.OpenRequest{Path: "/open", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}})
	must(err)
	before := treeOf(t, h.folder("ctx_a"))

	cmd := inShell("echo ready; read line; echo command > made; echo command > app/app.txt; echo command > both; rm later; " + changeMany + "; exit 3")
	cmd.Checkpoint, cmd.OpenStdin = true, true
	started, err := c.Start(t.Context(), &ctxfsv1.StartRequest{Command: cmd})
	must(err)
	id := started.GetProcess().GetProcessId()
	awaitOutput(t, c, id, "ready")
	write("/both", "panel\n")
	write("/new", "panel\n")
	_, err = files.Write(panel, &ctxfsv1.WriteRequest{Fd: opened.GetFd(), Content: &ctxfsv1.WriteRequest_Text{Text: "panel"}})
	must(err)
	_, err = files.Rename(panel, &ctxfsv1.RenameRequest{Path: "/moved", Dest: "/target"})
	must(err)
	_, err = files.Unlink(panel, &ctxfsv1.UnlinkRequest{Path: "/removed"})
	must(err)
	_, err = c.SendInput(t.Context(), &ctxfsv1.SendInputRequest{ProcessId: id, Data: []byte("\n")})
	must(err)
	ended, err := c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: id})
	must(err)
	exit := ended.GetProcess().GetExit()
	if want := []string{"/both", "/moved", "/new", "/open", "/removed", "/target"}; !slices.Equal(exit.GetLeftOut(), want) || exit.GetCode() != 3 || exit.GetCheckpointError() != "" {
		t.Fatalf("the exit is %v, want %q left out", exit, want)
	}

	did, _ := h.changes(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: "ctx_a", JournalId: exit.GetJournalId()})
	many := 0
	maps.DeleteFunc(did, func(path string, _ *ctxfsv1.Change) bool {
		if !strings.HasPrefix(path, "/many/") {
			return false
		}
		many++
		return true
	})
	if got, want := slices.Sorted(maps.Keys(did)), []string{"/app/app.txt", "/later", "/made"}; !slices.Equal(got, want) || many != 1000 {
		t.Errorf("the command changed %q and %d of many, want %q and 1000", got, many, want)
	}
	log, err := h.reviews().ListJournal(t.Context(), &ctxfsv1.ListJournalRequest{ContextId: "ctx_a"})
	if err != nil || len(log.GetEntries()) != 1 || log.GetEntries()[0].GetKind() != ctxfsv1.JournalKind_JOURNAL_KIND_EXEC || !strings.HasPrefix(log.GetEntries()[0].GetCommand(), "sh -c echo ready") {
		t.Errorf("the journal has %v, %v", log, err)
	}
	_, err = h.reviews().Undo(t.Context(), &ctxfsv1.UndoRequest{JournalId: exit.GetJournalId()})
	must(err)
	want := maps.Clone(before)
	maps.Copy(want, map[string]string{"new": "panel\n", "target": "before\n", "both": "command\n"})
	want["open"] = "panel" + before["open"][len("panel"):]
	delete(want, "moved")
	delete(want, "removed")
	if got := treeOf(t, h.folder("ctx_a")); !maps.Equal(got, want) {
		t.Errorf("after the undo: %q, want %q", got, want)
	}
	missing, err := h.reviews().ListChanges(t.Context(), &ctxfsv1.ListChangesRequest{ContextId: "ctx_a", JournalId: 99})
	must(err)
	if _, err := missing.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("an entry that is not there: %v", err)
	}
}

// TestPathsLeftOutAreBounded has a panel change many files with long paths while a command with a checkpoint runs. The command's exit is known at
// once, with its journal entry.
func TestPathsLeftOutAreBounded(t *testing.T) {
	t.Parallel()
	const files = 120
	h, c := execHouse(t)
	panel, fs := with(t, "ctxfs-panel", "a"), ctxfsv1.NewFsServiceClient(h.cc)
	long := strings.Repeat("/"+strings.Repeat("d", 200), 6)
	if r, err := run(t.Context(), c, inShell("mkdir -p ."+long)); err != nil || r.exited.GetExit().GetCode() != 0 {
		t.Fatalf("making directories: %+v, %v", r, err)
	}
	cmd := inShell("echo ready; read line; echo command > made")
	cmd.Checkpoint, cmd.OpenStdin = true, true
	id := startIn(t, c, cmd)
	awaitOutput(t, c, id, "ready")
	for i := range files {
		path := fmt.Sprintf("%s/%s-%d", long, strings.Repeat("f", 200), i)
		if _, err := fs.WriteFile(panel, &ctxfsv1.WriteFileRequest{Path: path, Content: &ctxfsv1.WriteFileRequest_Text{Text: "panel"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.SendInput(t.Context(), &ctxfsv1.SendInputRequest{ProcessId: id, Data: []byte("\n")}); err != nil {
		t.Fatal(err)
	}
	ended, err := c.Wait(t.Context(), &ctxfsv1.WaitRequest{ProcessId: id})
	exit := ended.GetProcess().GetExit()
	if err != nil || exit.GetJournalId() == 0 || exit.GetCheckpointError() != "" {
		t.Fatalf("got %v, %v", exit, err)
	}
	size := 0
	for _, p := range exit.GetLeftOut() {
		size += len(p)
	}
	if n := len(exit.GetLeftOut()); n == 0 || n+int(exit.GetMoreLeftOut()) != files || size > 17<<10 {
		t.Errorf("%d paths of %d bytes are left out, and %d more; want %d in all", n, size, exit.GetMoreLeftOut(), files)
	}
}

func TestLimitsOverGRPC(t *testing.T) {
	t.Parallel()
	h, c := execHouse(t)
	cmd := inShell("yes")
	cmd.Limits = &ctxfsv1.ExecLimits{OutputBytes: 1 << 20, TmpBytes: 1 << 20, MemoryBytes: 1 << 30}
	r, err := run(t.Context(), c, cmd)
	if err != nil || r.exited.GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_OUTPUT {
		t.Fatalf("got %v, %v", r.exited, err)
	}
	enforced := map[string]*ctxfsv1.EnforcedLimit{}
	for _, l := range r.started.GetLimits() {
		enforced[l.GetName()] = l
	}
	if enforced["output_bytes"].GetEnforcedBy() != "server" || enforced["tmp_bytes"].GetValue() != 1<<20 || enforced["memory_bytes"].GetValue() != 1<<30 {
		t.Errorf("the limits are %v", enforced)
	}
	h.stop()
	h.cfg.ContextMaxBytes = 4 << 20
	h.serve()
	r, err = run(t.Context(), ctxfsv1.NewExecServiceClient(h.cc), inShell("head -c 20M /dev/zero > f; sleep 100"))
	if err != nil || r.exited.GetExit().GetReason() != ctxfsv1.ExitReason_EXIT_REASON_QUOTA {
		t.Errorf("got %v, %v", r, err)
	}
}

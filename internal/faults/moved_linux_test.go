package faults

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/server"
)

// backups are ways to put a workspace elsewhere, as shell commands with the folders $FROM and $TO.
var backups = []struct {
	name, command string
	// bare says that it does not keep the extended attributes that overlayfs needs.
	bare bool
}{
	{"cp -a", `cp -a "$FROM/." "$TO"`, false},
	{"tar with xattrs", `tar -C "$FROM" --xattrs --xattrs-include='*' -cf - . | tar -C "$TO" --xattrs --xattrs-include='*' -xpf -`, false},
	{"tar", `tar -C "$FROM" -cf - . | tar -C "$TO" -xpf -`, true},
}

// TestRestoredBackup serves a copy of a workspace: contexts and snapshots hold what they held. A copy without the
// extended attributes that overlayfs needs is refused, until the operator takes it as it is.
func TestRestoredBackup(t *testing.T) {
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		for _, b := range backups {
			t.Run(driver+", "+b.name, func(t *testing.T) {
				namespacestest.Mounting(t)
				cfg := settings(t)
				cfg.Driver = driver
				if _, err := server.ChooseDriver(t.Context(), driver, cfg.Workspace); err != nil {
					t.Skipf("not tested: %v", err)
				}
				p := beginWith(t, cfg)
				edit(t, p)
				want := tree(t, p.host.Context("ctx_panels~writer"))
				p.stop()
				cfg.Workspace = restored(t, cfg.Workspace, b.command)
				if b.bare && driver == server.DriverOverlay {
					takesWhatLostItsAttributes(t, cfg)
					return
				}
				p = serve(t, cfg)
				f := p.host.Context("ctx_panels~writer")
				wantTree(t, f, want)
				must(t, f.WriteFile("app/src/after", []byte(kept), 0o644))
				must(t, f.WriteFile("kept", []byte("changed"), 0o644))
				_, err := p.host.Restore(t.Context(), "ctx_panels~writer", "then", client.DiscardChanges)
				must(t, err)
				wantTree(t, f, want)
				_, err = p.host.Fork(t.Context(), "ctx_panels~writer", "ctx_fork")
				must(t, err)
				wantTree(t, p.host.Context("ctx_fork"), want)
				must(t, p.panel("panels/later").WriteFile("kept", []byte(kept), 0o644))
			})
		}
	}
}

// edit changes a context in every way that a backup may lose, and keeps a snapshot of it.
func edit(t *testing.T, p *play) {
	t.Helper()
	f := p.panel("panels/writer")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	must(t, f.WriteFile("app/README.md", []byte("changed"), 0o644))
	must(t, f.Rename("app/src", "app/moved"))
	must(t, f.Mkdir("app/src", 0o755))
	must(t, f.WriteFile("app/src/other", []byte("in the place of another"), 0o644))
	_, err := p.host.Snapshot(t.Context(), "ctx_panels~writer", "then")
	must(t, err)
}

// restored makes a copy of a workspace and returns its folder.
func restored(t *testing.T, from, command string) string {
	t.Helper()
	to, err := os.MkdirTemp("", "restored")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(to)) })
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), "FROM="+from, "TO="+to)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return to
}

// takesWhatLostItsAttributes serves a copy that lost them, repairs it, and serves it again.
func takesWhatLostItsAttributes(t *testing.T, cfg server.Config) {
	t.Helper()
	l, err := contexts.NewLayout(cfg.Workspace, "")
	must(t, err)
	lost := []string{"ctx_panels~bystander", "ctx_panels~writer", "snapshot then of ctx_panels~writer"}
	if got := server.LostStates(l); !slices.Equal(got, lost) {
		t.Errorf("doctor finds %q, want %q", got, lost)
	}
	p := serve(t, cfg)
	_, err = p.host.Context("ctx_panels~writer").ReadFile("kept")
	wantCode(t, "read", err, fserr.EIO)
	if err == nil || !strings.Contains(err.Error(), "extended attributes") {
		t.Errorf("read says %v", err)
	}
	p.stop()
	r, err := server.Repair(context.Background(), cfg, server.Deps{Log: zap.NewNop(), Version: "0.0.0-test"})
	must(t, err)
	if !slices.Equal(r.Accepted, lost) {
		t.Errorf("the repair took %q, want %q", r.Accepted, lost)
	}
	if got := server.LostStates(l); len(got) > 0 {
		t.Errorf("after the repair doctor finds %q", got)
	}
	p = serve(t, cfg)
	f := p.host.Context("ctx_panels~writer")
	wantFile(t, f, "kept", kept)
	wantFile(t, f, "app/README.md", "changed")
	wantFile(t, f, "app/src/other", "in the place of another")
	_, err = p.host.Restore(t.Context(), "ctx_panels~writer", "then", client.DiscardChanges)
	must(t, err)
	wantFile(t, f, "kept", kept)
}

// tree reads all files of a context.
func tree(t *testing.T, f *client.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := f.List(".", client.ListOptions{Recursive: true})
	must(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			name := strings.TrimPrefix(e.Path(), "/")
			data, err := f.ReadFile(name)
			must(t, err)
			out[name] = string(data)
		}
	}
	return out
}

func wantTree(t *testing.T, f *client.FS, want map[string]string) {
	t.Helper()
	got := tree(t, f)
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s holds %q, want %q", name, got[name], content)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d: %v", len(got), len(want), got)
	}
}

// TestWorkspaceMovesToAnotherDisk is a move that gives all files other inode numbers, while the contexts stay in the workspace.
func TestWorkspaceMovesToAnotherDisk(t *testing.T) {
	namespacestest.Mounting(t)
	d := plainExt4(t)
	needsOverlay(t, d)
	cfg := settings(t)
	cfg.Driver = server.DriverOverlay
	p := beginWith(t, cfg)
	edit(t, p)
	want := tree(t, p.host.Context("ctx_panels~writer"))
	p.stop()
	to := filepath.Join(d.at, "ws")
	out, err := exec.CommandContext(t.Context(), "mv", cfg.Workspace, to).CombinedOutput()
	if err != nil {
		t.Fatalf("mv: %v\n%s", err, out)
	}
	cfg.Workspace = to
	p = serve(t, cfg)
	wantTree(t, p.host.Context("ctx_panels~writer"), want)
}

package review

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDiscardInReadOnlyDirectories runs as a user without privileges, whom modes bind.
func TestDiscardInReadOnlyDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		unprivileged(t)
		return
	}
	w := newWorld(t, files{"dir/edited": "1\n", "dir/deleted": "1\n", "dir/read-only": "1\n", "dir/mode": "1\n", "top": "1\n"})
	remove(t, w.in(id), "dir/deleted")
	write(t, w.in(id), files{"dir/edited": "2\n", "dir/read-only": "2\n", "dir/added": "2\n", "dir/sub/added": "2\n", "dir/link": "-> top"})
	must(t, os.Chmod(w.in(id)+"/dir/read-only", 0o444))
	must(t, os.Chmod(w.in(id)+"/dir/sub", 0o555))
	must(t, os.Chmod(w.in(id)+"/dir", 0o555))
	_, err := w.reviews.Discard(t.Context(), id, Selection{All: true}, "", "host")
	must(t, err)
	if l := w.changes(Query{}); len(l.Changes) != 0 {
		t.Errorf("%d changes are left, the first of %s", len(l.Changes), l.Changes[0].Path)
	}
	st, err := os.Stat(w.in(id) + "/dir")
	must(t, err)
	if st.Mode().Perm() != 0o555 {
		t.Errorf("the directory has mode %v", st.Mode())
	}
	must(t, os.Chmod(w.in(id)+"/dir", 0o755))

	// Another name of the file keeps its content and its mode.
	file, other := w.in(id)+"/dir/read-only", w.in(id)+"/other-name"
	must(t, errors.Join(os.Chmod(file, 0o644), os.Link(file, other)))
	must(t, os.WriteFile(file, []byte("3\n"), 0o600))
	must(t, errors.Join(os.Chmod(file, 0o444), os.Chmod(w.in(id)+"/dir", 0o555)))
	_, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "dir/read-only"}}}, "", "host")
	must(t, err)
	got := read(t, w.in(id))
	if mode := modesOf(t, w.in(id))["other-name"]; got["dir/read-only"] != "1\n" || got["other-name"] != "3\n" || mode != "-r--r--r--" {
		t.Errorf("the file is %q, its other name %q with mode %s", got["dir/read-only"], got["other-name"], mode)
	}
	must(t, os.Chmod(w.in(id)+"/dir", 0o755))

	// A removed name leaves the mode of the file at the other one.
	base := w.in(id) + "/top"
	must(t, errors.Join(os.Link(base, w.in(id)+"/dir/new"), os.Chmod(base, 0o444), os.Chmod(w.in(id)+"/dir", 0o555)))
	_, err = w.reviews.Discard(t.Context(), id, Selection{Changes: []Selected{{Path: "dir/new"}}}, "", "host")
	must(t, err)
	if mode := modesOf(t, w.in(id))["top"]; mode != "-r--r--r--" {
		t.Errorf("after the discard of the new name the file has mode %s", mode)
	}
	must(t, os.Chmod(w.in(id)+"/dir", 0o755))
}

// TestStartKeepsAnUnreadableSave has a program that saves a file while an apply replaces it, with a mode that hides it from the server. The server
// is killed, or the apply fails.
func TestStartKeepsAnUnreadableSave(t *testing.T) {
	if os.Geteuid() == 0 {
		unprivileged(t)
		return
	}
	for _, kill := range []bool{false, true} {
		w := newWorld(t, files{"a": "base\n", "b": "base\n"})
		write(t, w.in(id), files{"a": "panel\n", "b": "panel\n", "new": "panel\n"})
		w.decide(Approved, Selection{All: true})
		open, err := os.OpenFile(w.in("workspace")+"/b", os.O_WRONLY, 0) // so that the apply fails
		must(t, err)
		killed := errors.New("killed")
		w.at("all taken", func() {
			for _, name := range []string{"a", "new"} {
				write(t, w.in("workspace"), files{name: "saved\n"})
				must(t, os.Chmod(w.in("workspace")+"/"+name, 0o200))
			}
			if kill {
				panic(killed)
			}
		})
		func() {
			defer func() {
				if got := recover(); kill != (got != nil) {
					t.Errorf("killed %t: the apply ended with %v", kill, got)
				}
			}()
			_, err := w.reviews.Apply(t.Context(), ApplyRequest{Context: id})
			wantReason(t, err, Conflicting)
		}()
		must(t, open.Close())
		must(t, w.reviews.Close())
		w.open()
		for _, name := range []string{"a", "new"} {
			must(t, os.Chmod(w.in("workspace")+"/"+name, 0o600))
		}
		same(t, "the workspace", read(t, w.in("workspace")), files{"a": "saved\n", "b": "base\n", "new": "saved\n"})
		if left := reserved(t, w.in("workspace")); len(left) > 0 {
			t.Errorf("temporary names are left: %q", left)
		}
	}
}

// unprivileged runs the test of this name as a user without privileges.
func unprivileged(t *testing.T) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "review-unprivileged-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(tmp)) })
	binary := filepath.Join(tmp, "test")
	self, err := os.ReadFile("/proc/self/exe")
	must(t, errors.Join(err, os.WriteFile(binary, self, 0o755), os.Chmod(tmp, 0o777)))
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = tmp, []string{"TMPDIR=" + tmp, "HOME=" + tmp, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("without privileges: %v\n%s", err, out)
	}
}

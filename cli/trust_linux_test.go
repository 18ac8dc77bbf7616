package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// TestCommandsBelieveNoServerOfAnotherUser has root run commands in a workspace of another user, who listens at the socket that server.json
// names, has a link to a file of root's as the token, and names a process of root's as the server.
func TestCommandsBelieveNoServerOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	ws := t.TempDir()
	contexts := filepath.Join(ws, ".contexts")
	state := filepath.Join(contexts, ".ctxfs")
	secret := filepath.Join(t.TempDir(), "shadow")
	socket := filepath.Join(state, "ctxfs.sock")
	must(t, os.MkdirAll(state, 0o700), os.WriteFile(secret, []byte("root:SECRET"), 0o600), os.Symlink(secret, filepath.Join(state, "host.token")))
	record := `{"pid":1,"socket":"` + socket + `","token_file":"host.token","audit_log":"` + secret + `"}`
	must(t, os.WriteFile(filepath.Join(state, "server.json"), []byte(record), 0o600))
	l, err := net.Listen("unix", socket)
	must(t, err)
	accepted := make(chan bool, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err == nil
	}()
	for _, path := range []string{ws, contexts, state, filepath.Join(state, "server.json"), socket} {
		must(t, os.Lchown(path, 1000, 1000))
	}
	s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_CONTEXT": "ctx_x"}}
	for _, args := range [][]string{
		{"status"}, {"health"}, {"stop"}, {"audit"}, {"console", "--print"}, {"gc"}, {"open", "ctx_x"}, {"ls", "/"}, {"path", "ctx_x"}, {"panel", "list"}, {"mcp"},
		{"apply", "ctx_x", "--all"}, {"call", "ctxfs.v1.ContextService/ListContexts", "{}"}, {"--trust-dir", ws, "status"},
	} {
		code, out, errs := s.run(args...)
		if code != 1 || !strings.Contains(errs, "belongs to uid 1000, not to you (uid 0), so it is not believed unless --trust-dir or CTXFS_TRUST_DIR names "+contexts) || strings.Contains(out+errs, "SECRET") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
	for _, args := range [][]string{{"__complete", "cat", "/"}, {"__complete", "panel", "close", ""}, {"help"}} {
		if _, out, errs := s.run(args...); strings.Contains(out+errs, "SECRET") {
			t.Errorf("%v: %q, %q", args, out, errs)
		}
	}
	if code, out, errs := s.run("--trust-dir", contexts, "status"); code != 1 || !strings.Contains(errs, "host.token is not a regular file") {
		t.Errorf("a trusted directory: exit %d, %q, %q", code, out, errs)
	}
	must(t, l.Close())
	if <-accepted {
		t.Error("a command connected to the other user's server")
	}
}

// TestServerOfAnotherUserThatIsTrusted names the contexts directory of a server whose state belongs to another user.
func TestServerOfAnotherUserThatIsTrusted(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	contexts := filepath.Join(ws, ".contexts")
	for _, name := range []string{"", ".ctxfs", ".ctxfs/server.json", ".ctxfs/host.token"} {
		must(t, os.Chown(filepath.Join(contexts, name), 1000, 1000))
	}
	s := &shell{t: t, dir: filepath.Join(ws, "src")}
	if code, _, errs := s.run("status"); code != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
	s.ok("--trust-dir", contexts, "status")
	s.ok("--address", filepath.Join(contexts, ".ctxfs", "ctxfs.sock"), "health")
	s.env = map[string]string{"CTXFS_TRUST_DIR": contexts}
	s.ok("status")
}

// TestWhatWasSeenIsTheUsersOwn has root's HOME be that of another user, as under sudo, who has put links there.
func TestWhatWasSeenIsTheUsersOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	s := serve(t)
	s.stdin = "x\n"
	s.ok("put", "-", "/a")
	for name, links := range map[string]func(home, elsewhere string){
		"another's home": func(home, _ string) { must(t, os.Lchown(home, 1000, 1000)) },
		"another's directory": func(home, _ string) {
			must(t, os.MkdirAll(home+"/.local/state", 0o700), os.Lchown(home+"/.local", 1000, 1000))
		},
		"another's link": func(home, elsewhere string) {
			must(t, os.MkdirAll(home+"/.local/state/ctxfs", 0o700), os.Symlink(elsewhere, home+"/.local/state/ctxfs/seen"), os.Lchown(home+"/.local/state/ctxfs/seen", 1000, 1000))
		},
	} {
		elsewhere := t.TempDir()
		s.home = t.TempDir()
		links(s.home, elsewhere)
		code, _, errs := s.run("diff", "panels/test")
		if code != 0 || !strings.Contains(errs, "belongs to uid 1000, not to you (uid 0)") {
			t.Errorf("%s: exit %d, %q", name, code, errs)
		}
		if code, _, errs := s.run("approve", "panels/test", "--all"); code != 1 || !strings.Contains(errs, "belongs to uid 1000") {
			t.Errorf("%s: approve: exit %d, %q", name, code, errs)
		}
		if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
			t.Errorf("%s: wrote %v, %v", name, entries, err)
		}
	}
	s.home = t.TempDir()
	s.ok("diff", "panels/test")
	s.ok("approve", "panels/test", "--all")
}

// TestAuditReadsOnlyAPlainFile has something else in the place of the audit log.
func TestAuditReadsOnlyAPlainFile(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	servertest.Start(t, ws, func(c *server.Config) { c.AuditLog = path })
	s := &shell{t: t, dir: ws}
	for is, put := range map[string]func() error{
		"a FIFO": func() error { return unix.Mkfifo(path, 0o600) },
		"a link": func() error { return os.Symlink(filepath.Join(ws, "README.md"), path) },
	} {
		must(t, os.Remove(path), put())
		code, out, errs := s.run("audit")
		if code != 1 || !strings.Contains(errs, "is not the file that ctxfs wrote ("+is+")") {
			t.Errorf("%s: exit %d, %q, %q", is, code, out, errs)
		}
	}
}

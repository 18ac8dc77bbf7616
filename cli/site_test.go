package cli_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// visit returns what a browser gets of a page of the server at addr.
func visit(t *testing.T, addr, page string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}}
	resp, err := (&http.Client{Transport: transport}).Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestSitesFromTheShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir()+":"+gitDir(t)) // without a browser
	ws := servertest.Workspace(t)
	r := servertest.Run(t, ws, func(c *server.Config) { c.Gateway = "127.0.0.1:0" }, server.Deps{})
	s := &shell{t: t, dir: ws, env: map[string]string{}}
	code, out, errs := s.run("open", "panels/test", "src/main.go", "--browser")
	page := strings.TrimSpace(out)
	if code != 0 || !strings.HasPrefix(page, "http://") || !strings.HasSuffix(page, "/src/main.go") || !strings.Contains(errs, "no browser could be started") {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	addr := r.Info().Addresses.Gateway
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"status"}, "gateway    " + addr + "\n"}, {[]string{"status", "--json"}, `"gateway": "` + addr + `"`}} {
		if code, out, _ := s.run(c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, %q", c.args, code, out)
		}
	}
	if status, body := visit(t, addr, page); status != http.StatusOK || body != "package main\n" {
		t.Errorf("%s: %d %q", page, status, body)
	}
	code, out, _ = s.run("open", "ctx_panels~test", "--sandbox", "--policy", "strict")
	if code != 0 || !strings.Contains(out, "http://files.localhost:") {
		t.Errorf("--sandbox: exit %d, %q", code, out)
	}
	code, out, _ = s.run("sites", "panels/test")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 3 || !strings.Contains(lines[1], "panels/test") || !strings.Contains(lines[2], "sandbox") || strings.Contains(out, strings.Split(page, ".")[0][len("http://"):]) {
		t.Fatalf("exit %d, %q", code, out)
	}
	id := strings.Fields(lines[1])[0]
	if code, out, _ = s.run("sites", "--close", id); code != 0 || out != id+" closed\n" {
		t.Errorf("close: exit %d, %q", code, out)
	}
	if status, _ := visit(t, addr, page); status != http.StatusNotFound {
		t.Errorf("the closed site: %d", status)
	}
	if code, _, errs = s.run("sites", "--close", id); code != 1 || !strings.Contains(errs, "'ctxfs sites' lists") {
		t.Errorf("close again: exit %d, %q", code, errs)
	}
	testSnapshotSite(t, s, addr)
	if code, _, errs = s.run("open", "panels/test", "--policy", "none"); code != 1 || !strings.Contains(errs, "--policy") {
		t.Errorf("--policy none: exit %d, %q", code, errs)
	}
}

// testSnapshotSite opens a site of a snapshot.
func testSnapshotSite(t *testing.T, s *shell, addr string) {
	t.Helper()
	s.ok("snapshot", "create", "panels/test", "before")
	page := strings.TrimSpace(s.ok("open", "panels/test", "src/main.go", "--snapshot", "before"))
	s.ok("--panel", "panels/test", "rm", "src/main.go")
	if status, body := visit(t, addr, page); status != http.StatusOK || body != "package main\n" {
		t.Errorf("the site of a snapshot: %d %q", status, body)
	}
	if got := s.ok("sites"); !strings.Contains(got, "SNAPSHOT") || !strings.Contains(got, "before") {
		t.Errorf("sites prints %q", got)
	}
	if code, _, errs := s.run("open", "panels/test", "--snapshot", "nope"); code != 1 || !strings.Contains(errs, `no snapshot "nope"`) || !strings.Contains(errs, "'ctxfs snapshot list' lists them") {
		t.Errorf("a snapshot that is missing: exit %d, %q", code, errs)
	}
}

// gitDir returns the folder that has git.
func gitDir(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("git")
	dir := t.TempDir()
	if err == nil {
		err = os.Symlink(program, filepath.Join(dir, "git"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSitesNeedTheirAddress(t *testing.T) {
	s := serve(t)
	if code, _, errs := s.run("open", "panels/test"); code != 1 || !strings.Contains(errs, "--gateway") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

package cli_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

func TestConsoleFromTheShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir()+":"+gitDir(t)) // without a browser
	ws := servertest.Workspace(t)
	r := servertest.Run(t, ws, func(c *server.Config) { c.HTTP = "127.0.0.1:0" }, server.Deps{Console: fstest.MapFS{"index.html": {}}})
	s := &shell{t: t, dir: ws, env: map[string]string{}}
	page := "http://" + r.Info().Addresses.HTTP + "/console/#code="
	code, out, errs := s.run("console")
	if code != 0 || !strings.HasPrefix(out, page) || strings.Count(out, "\n") != 1 || !strings.Contains(errs, "no browser could be started") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if code, again, errs := s.run("console", "--print"); code != 0 || !strings.HasPrefix(again, page) || again == out || errs != "" {
		t.Errorf("--print: exit %d, %q, %q", code, again, errs)
	}
	if code, out, _ := s.run("console", "--json", "--print"); code != 0 || !strings.Contains(out, `"url": "`+page) || !strings.Contains(out, `"expires": "`) {
		t.Errorf("--json: exit %d, %q", code, out)
	}
	if code, out, _ := s.run("console", "--end"); code != 0 || out != "consoles ended: 0\n" {
		t.Errorf("--end: exit %d, %q", code, out)
	}
	if code, _, _ := s.run("console", "--end", "--print"); code == 0 {
		t.Error("--end --print: exit 0")
	}
}

func TestConsoleNeedsHTTP(t *testing.T) {
	s := serve(t)
	if code, _, errs := s.run("console"); code != 1 || !strings.Contains(errs, "ctxfs serve --http") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

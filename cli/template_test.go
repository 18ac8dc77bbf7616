package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/cli"
)

func TestTemplatesFromTheShell(t *testing.T) {
	s := serve(t)
	if err := os.WriteFile(filepath.Join(s.dir, "context-template.yml"), []byte("deps: {/ws: {repo: .}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.ok("template", "build"); !strings.Contains(got, "context-template.yml") || !strings.Contains(got, "built in") {
		t.Errorf("template build: %s", got)
	}
	if got := s.ok("template", "build", "context-template.yml"); !strings.Contains(got, "was there") {
		t.Errorf("template build again: %s", got)
	}
	if got := s.ok("panel", "open", "--template", ".", "p"); !strings.Contains(got, "safe_tpl_") {
		t.Errorf("panel open: %s", got)
	}
	if got := s.ok("template", "list"); !strings.Contains(got, "context-template.yml") || len(strings.Fields(got)) < 12 {
		t.Errorf("template list: %s", got)
	}
	if got := s.ok("--json", "template", "list"); !strings.Contains(got, `"contexts":1`) && !strings.Contains(got, `"contexts": 1`) {
		t.Errorf("template list: %s", got)
	}
	if got := s.ok("panel", "open", "--unsafe", "tool"); !strings.Contains(got, "unsafe_noctx_tool") {
		t.Errorf("panel open: %s", got)
	}
	if code, _, errs := s.run("template", "build", "nope"); code != 1 || !strings.Contains(errs, "nope") {
		t.Errorf("template build nope: exit %d, %s", code, errs)
	}
}

// TestCommandsOfAGroupComeTogether gives Root a group that it has, and one that it has not.
func TestCommandsOfAGroupComeTogether(t *testing.T) {
	have, other := &cobra.Command{Use: "template"}, &cobra.Command{Use: "other"}
	have.AddCommand(&cobra.Command{Use: "explain", Run: func(*cobra.Command, []string) {}})
	root := cli.Root(cli.Env{}, have, other)
	for _, path := range [][]string{{"template", "explain"}, {"template", "build"}, {"other"}} {
		if cmd, _, err := root.Find(path); err != nil || cmd.Name() != path[len(path)-1] {
			t.Errorf("%v is %v, %v", path, cmd.Name(), err)
		}
	}
	n := 0
	for _, c := range root.Commands() {
		if c.Name() == "template" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d commands are called template", n)
	}
}

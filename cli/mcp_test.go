package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

// TestMCPOnStdinAndStdout starts the program as an agent does, and ends it in both ways.
func TestMCPOnStdinAndStdout(t *testing.T) {
	t.Parallel()
	ws := servertest.Workspace(t)
	servertest.Start(t, ws, nil)
	for name, end := range map[string]func(stdin io.Closer, p *os.Process) error{
		"the end of stdin": func(stdin io.Closer, _ *os.Process) error { return stdin.Close() },
		"SIGTERM":          func(_ io.Closer, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "mcp", "--panel", "panels/agent")
		cmd.Dir, cmd.Env = ws, append(os.Environ(), programEnv+"=1")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		must(t, err)
		stdout, err := cmd.StdoutPipe()
		must(t, err, cmd.Start())
		session, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: stdout, Writer: stdin}, nil)
		must(t, err)
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "read_text_file", Arguments: map[string]any{"path": "/README.md"}})
		must(t, err)
		if text := r.Content[0].(*sdk.TextContent).Text; text != "# A workspace\n" {
			t.Errorf("README.md is %q", text)
		}
		must(t, end(stdin, cmd.Process))
		_ = session.Wait() // it ends with the program
		code := 0
		if name == "SIGTERM" {
			code = 143
		}
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != code {
			t.Errorf("after %s: %s, %s", name, cmd.ProcessState, errs.String())
		}
	}
}

// TestMCPAnswersBeforeItEnds sends calls, and ends standard input at once.
func TestMCPAnswersBeforeItEnds(t *testing.T) {
	s := serve(t)
	s.stdin = `{"jsonrpc":"2.0","id":"one","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_text_file","arguments":{"path":"/README.md"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"grep","arguments":{"pattern":"package"}}}
`
	out := s.ok("mcp")
	for _, want := range []string{`"id":"one"`, `"id":2`, `"# A workspace\n"`, `"id":3`, "/src/main.go:1:package main"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing in %s", want, out)
		}
	}
}

func TestMCPNeedsAServerAndFiles(t *testing.T) {
	s := serve(t)
	delete(s.env, "CTXFS_PANEL")
	if code, out, errs := s.run("mcp"); code != 2 || out != "" || !strings.Contains(errs, "--panel") {
		t.Errorf("without a panel: exit %d, %q, %q", code, out, errs)
	}
	s.dir = t.TempDir()
	if code, out, errs := s.run("mcp", "--panel", "panels/a"); code == 0 || out != "" || !strings.Contains(errs, "ctxfs serve") {
		t.Errorf("without a server: exit %d, %q, %q", code, out, errs)
	}
}

// TestMCPInstallPrintsSettings reads the settings of each agent as the agent does.
func TestMCPInstallPrintsSettings(t *testing.T) {
	s := serve(t)
	program, err := os.Executable()
	must(t, err)
	for agent, object := range map[string]string{
		"claude-code": "mcpServers", "claude-desktop": "mcpServers", "cursor": "mcpServers", "gemini": "mcpServers", "vscode": "servers", "zed": "context_servers",
	} {
		code, out, errs := s.run("mcp", "install", agent, "--panel", "panels/a b")
		var got map[string]map[string]struct {
			Command string
			Args    []string
		}
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || !strings.HasPrefix(errs, "add this to ") {
			t.Errorf("%s: exit %d, %v, %q", agent, code, err, errs)
		}
		server := got[object]["ctxfs"]
		if want := []string{"mcp", "--panel", "panels/a b", "--address"}; server.Command != program || len(server.Args) != 5 || !slices.Equal(server.Args[:4], want) || !strings.HasPrefix(server.Args[4], "unix:///") {
			t.Errorf("%s: %v", agent, server)
		}
	}
	if _, out, _ := s.run("mcp", "install", "codex", "-c", "ctx_x"); !strings.HasPrefix(out, "[mcp_servers.ctxfs]\ncommand = \"/") || !strings.Contains(out, `args = ["mcp","--context","ctx_x","--address","unix:///`) {
		t.Errorf("codex: %s", out)
	}
	delete(s.env, "CTXFS_PANEL")
	if code, out, errs := s.run("mcp", "install", "codex"); code != 2 || out != "" || !strings.Contains(errs, "--panel") {
		t.Errorf("without a panel: exit %d, %q, %q", code, out, errs)
	}
	if code, out, errs := s.run("mcp", "install", "curser"); code != 2 || out != "" || !strings.Contains(errs, "did you mean cursor?") {
		t.Errorf("an unknown agent: exit %d, %q, %q", code, out, errs)
	}
}

package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/cli"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
	"github.com/ctxfs/ctxfs/server/command"
)

// shapes are the types of docs/reference/cli-json.md, by the command or the type's name.
type shapes map[string]string

func readShapes(t *testing.T) (commands, types shapes) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "docs", "reference", "cli-json.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands, types = shapes{}, shapes{}
	_, results, _ := strings.Cut(string(data), "## Results")
	for line := range strings.Lines(strings.Split(results, "```")[1]) {
		line = strings.TrimSpace(line)
		if name, shape, ok := strings.Cut(line, " = "); ok {
			types[name] = shape
		} else if name, shape, ok := strings.Cut(line, "  "); ok {
			commands[name] = strings.TrimSpace(shape)
		}
	}
	return commands, types
}

// check compares a value with a type such as "{a: [string], b: time?} | Context".
func (s shapes) check(shape string, v any) error {
	var errs []error
	for _, one := range split(shape, '|') {
		err := s.checkOne(strings.TrimSpace(one), v)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s shapes) checkOne(shape string, v any) error {
	if nullable, ok := strings.CutSuffix(shape, "?"); ok {
		if v == nil {
			return nil
		}
		shape = nullable
	}
	if named, ok := s[shape]; ok {
		return s.check(named, v)
	}
	ok := false
	switch v := v.(type) {
	case string:
		_, err := time.Parse(time.RFC3339Nano, v)
		ok = shape == "string" || shape == "time" && err == nil
	case float64:
		ok = shape == "number"
	case bool:
		ok = shape == "boolean"
	case []any:
		if ok = strings.HasPrefix(shape, "["); ok {
			for _, x := range v {
				if err := s.check(shape[1:len(shape)-1], x); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		if strings.HasPrefix(shape, "{") {
			return s.checkObject(shape, v)
		}
	}
	if !ok && shape != "any" {
		return fmt.Errorf("%v is no %s", v, shape)
	}
	return nil
}

func (s shapes) checkObject(shape string, v map[string]any) error {
	if of, ok := strings.CutPrefix(shape, "{string: "); ok { // any keys
		for key, x := range v {
			if err := s.check(strings.TrimSuffix(of, "}"), x); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	}
	want := map[string]string{}
	for _, member := range split(shape[1:len(shape)-1], ',') {
		key, of, _ := strings.Cut(strings.TrimSpace(member), ": ")
		want[key] = of
	}
	for key, x := range v {
		of, ok := want[key]
		if !ok {
			return fmt.Errorf("the key %q is not documented", key)
		}
		if err := s.check(of, x); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		return fmt.Errorf("keys are missing: %v", want)
	}
	return nil
}

// split splits at a separator outside of brackets.
func split(text string, sep rune) (parts []string) {
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '{' || r == '[':
			depth++
		case r == '}' || r == ']':
			depth--
		case r == sep && depth == 0:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}

// jsonCommands are command lines whose output is checked, in this order; a command may come twice.
var jsonCommands = []string{
	"ls -a", "ls", "mkdir -p d/e", "ln -s e d/link", "cp README.md d/copy", "mv d/copy d/moved", "ls -r", "tree", "stat README.md", "stat -L d/link", "put LOCAL d/up", "edit README.md --lines 1-0 --new x", "get d LOCAL",
	"grep package", "grep -A 1 package", "grep -l package", "grep --count package", "glob **", "watch -n 1 d", "rm -r d/seen", "feed -n 1 d", "feed --no-follow", "rm -r d", "batch LOCAL/steps.json", "audit",
	"panel open a", "panel open a --export", "panel list", "context list", "context list --sizes", "context info a", "--panel a context info", "context create ctx_b", "context create c", "path a",
	"label a owner=ada", "panel list", "context list --label owner", "log --label owner",
	"context fork a ctx_fork", "snapshot create a s", "snapshot list a", "snapshot restore a s --discard-changes", "snapshot delete a s", "panel close a",
	"context export ctx_fork LOCAL/a.tar", "context import ctx_imported LOCAL/a.tar", "export -o LOCAL/b.zip", "import b -i LOCAL/b.zip", "context delete ctx_b ctx_fork --discard-changes",
	"ln -s x l", "rm README.md", "changes json", "submit json -t title", "reject json l -m no", "approve json --all", "apply json --dry-run --commit -m message --author A<a@example.com>",
	"git repositories", "git branches", "git status", "git stage -m message --author A<a@example.com>", "git staged", "git show STAGED", "panel open json --git-push", "git push STAGED --expected COMMIT --dry-run", "git discard STAGED",
	"apply json --commit -m message --author A<a@example.com>", "log",
	"undo 1", "discard json l", workspaceEdit, "rebase json --on-conflict record", "conflicts json", "resolve json README.md", "git pull / --conflict theirs", "ln -s x gone", "approve json gone --unseen", "rm gone", "changes json", "reject json gone", "ps -a", "exec-profiles",
	"zones explain --zones LOCAL/zones.yml", "panel open zoned --zones LOCAL/zones.yml", "zones list zoned --measure", "zones resolve zoned /cache", "zones clear zoned /cache",
	"open json", "sites", "console --end", "gc --dry-run", "seed plan", "template build", "template list", "template explain", "health", "wait", "status", "version", "try",
	"doctor", "config", "metadata copy --workspace LOCAL --from LOCAL/empty.db --to LOCAL/copy.db",
}

// stagedID finds the ID in what git stage prints.
var stagedID = regexp.MustCompile(`"id": "([a-z2-7]{26})",\s+"commit": "([0-9a-f]+)"`)

// workspaceEdit stands for an edit of README.md in the workspace, whose context does not have it any more.
const workspaceEdit = "(edit)"

func TestJSONIsAsDocumented(t *testing.T) {
	t.Parallel()
	commands, types := readShapes(t)
	ws := servertest.Workspace(t)
	if err := os.WriteFile(filepath.Join(ws, "context-template.yml"), []byte("deps: {/ws: {repo: .}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	local := t.TempDir()
	servertest.Start(t, ws, func(c *server.Config) { c.AuditLog, c.Gateway = filepath.Join(t.TempDir(), "audit"), "127.0.0.1:0" })
	t.Cleanup(func() { _ = os.RemoveAll(local) })
	zoned := []byte("mode: sandboxed\nzones: {/workspace: {from: repositories}, /cache: {commit: never}}\n")
	if err := os.WriteFile(filepath.Join(local, "zones.yml"), zoned, 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []byte(`[{"writeFile": {"path": "batched", "text": "x"}}]`)
	if err := os.WriteFile(filepath.Join(local, "steps.json"), steps, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(local, "empty.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	staged, commit := "", ""                                                      // the latest staged commit
	checked := map[string]bool{"serve": true, "stop": true, "explain-exec": true} // below, and with commands
	for _, line := range jsonCommands {
		if line == workspaceEdit {
			if err := os.WriteFile(filepath.Join(ws, "README.md"), []byte("edited\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		args := strings.Fields(strings.NewReplacer("LOCAL", local, "STAGED", staged, "COMMIT", commit).Replace(line))
		code, out, errs := jsonOf(t, ws, local, args...)
		if code != 0 {
			t.Errorf("%s: exit %d, %s", line, code, errs)
			continue
		}
		if m := stagedID.FindStringSubmatch(out); strings.HasPrefix(line, "git stage ") && m != nil {
			staged, commit = m[1], m[2]
		}
		checked[checkCommand(t, commands, types, line, out)] = true
	}
	for name, shape := range commands {
		if !checked[name] && shape != "no result" {
			t.Errorf("%s is documented, and not checked", name)
		}
	}
	for _, name := range leaves(cli.Root(cli.Env{}, command.Commands(command.Env{})...), "") {
		if _, ok := commands[name]; !ok {
			t.Errorf("%s is not in docs/reference/cli-json.md", name)
		}
	}
}

// jsonOf runs a command; watch and feed see their own change.
func jsonOf(t *testing.T, ws, home string, args ...string) (code int, out, errs string) {
	t.Helper()
	if slices.Contains(args, "watch") || slices.Contains(args, "feed") && !slices.Contains(args, "--no-follow") {
		s := &shell{t: t, dir: ws, env: map[string]string{"CTXFS_PANEL": "json"}}
		var text strings.Builder
		done := false
		root := cli.Root(cli.Env{Stdin: strings.NewReader(""), Stdout: writer(func(p []byte) {
			text.Write(p)
			if !done {
				done = true
				s.ok("mkdir", "/d/seen")
			}
		}), Stderr: os.Stderr, Dir: ws, Getenv: s.getenv})
		return cli.Run(t.Context(), root, append([]string{"--json"}, args...)), text.String(), ""
	}
	if !slices.Contains(args, "--panel") {
		args = append([]string{"--panel", "json"}, args...)
	}
	args = append([]string{"--json"}, args...)
	for _, own := range []string{"doctor", "config", "explain", "metadata"} { // these work in the working directory
		if slices.Contains(args, own) {
			return ctxfs(t, ws, args...)
		}
	}
	return (&shell{t: t, dir: ws, home: home}).run(args...)
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// checkCommand checks what a command line printed, and returns the command's name.
func checkCommand(t *testing.T, commands, types shapes, line, out string) string {
	t.Helper()
	words := strings.Fields(regexp.MustCompile(`--panel \S+ `).ReplaceAllString(line, ""))
	name := words[0]
	if _, ok := commands[name]; !ok && len(words) > 1 {
		name += " " + words[1]
	}
	shape, lines := strings.CutPrefix(commands[name], "lines of ")
	dec := json.NewDecoder(strings.NewReader(out))
	n := 0
	for ; ; n++ {
		var v any
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s printed no JSON: %v\n%s", line, err, out)
			return name
		}
		if err := types.check(shape, v); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if n == 0 || n > 1 && !lines || lines && strings.Count(out, "\n") != n {
		t.Errorf("%s printed %d values, want %q:\n%s", line, n, commands[name], out)
	}
	return name
}

// leaves names the commands that do something.
func leaves(cmd *cobra.Command, path string) (names []string) {
	for _, c := range cmd.Commands() {
		name := strings.TrimSpace(path + " " + c.Name())
		if c.HasSubCommands() {
			names = append(names, leaves(c, name)...)
		} else if c.IsAvailableCommand() {
			names = append(names, name)
		}
	}
	return names
}

func TestServeAndStopInJSON(t *testing.T) {
	t.Parallel()
	commands, types := readShapes(t)
	ws := servertest.Workspace(t)
	for _, line := range []string{"serve --detach", "stop"} {
		code, out, errs := ctxfs(t, ws, append([]string{"--json"}, strings.Fields(line)...)...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s", line, code, errs)
		}
		checkCommand(t, commands, types, line, out)
	}
}

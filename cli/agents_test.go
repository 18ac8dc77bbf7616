package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/internal/servertest"
)

// agentTool is a program that coding agents use in a folder, and a script of it.
type agentTool struct {
	name string
	// needs are the programs of the script; the row is skipped, and names it, when one is missing.
	needs []string
	// script runs in the context's folder, with $WS for the workspace, under "set -e".
	script string
	// want is what the script prints; "" means anything.
	want string
}

// agentTools is also docs/how-to/agents-tools.md: a row here that teaches something has a row there.
var agentTools = []agentTool{
	{"ripgrep searches", []string{"rg"}, "rg --no-line-number --sort path needle; rg --files | sort", "README.md:a needle\nsrc/a.js:console.log(\"needle\")\nREADME.md\ngo.mod\nmain.go\npackage.json\nsrc/a.js\nsrc/b.ts\ntsconfig.json\n"},
	{"ripgrep obeys the seeded .gitignore", []string{"rg"}, "echo needle >x.log; rg -l --sort path needle", "README.md\nsrc/a.js\n"},
	{"ripgrep in the workspace skips contexts", []string{"rg"}, "cd $WS; rg -l --sort path needle", "README.md\nsrc/a.js\n"},
	{"fd finds", []string{"fd|fdfind"}, "$FD --extension js; cd $WS; $FD a.js", "src/a.js\nsrc/a.js\n"},
	{"git finds no repository", []string{"git"}, "git status 2>&1 || true", "not a git repository"},
	{"git cannot reset the workspace", []string{"git"}, "cd src; for c in 'reset --hard' 'clean -fdx' 'add -A' 'stash'; do git $c 2>/dev/null && exit 1; done; true", ""},
	{"git in the workspace sees no contexts", []string{"git"}, "cd $WS; git status --porcelain", "\n"},
	{"git init gives a repository of its own", []string{"git"}, "git init -q -b main; git add -A; git -c user.name=t -c user.email=t@example.com commit -qm base; echo x >>README.md; git diff --stat; git rev-parse --show-toplevel", "1 file changed"},
	{"git clone", []string{"git"}, "git clone -q $WS copy; git -C copy log --format=%s", "first\n"},
	{"diff of two files", []string{"diff"}, "diff -u src/a.js src/b.ts || test $? = 1", "+const b: number = 1;"},
	{"patch", []string{"patch"}, "printf -- '--- a/README.md\\n+++ b/README.md\\n@@ -1 +1 @@\\n-a needle\\n+two\\n' | patch -p1 >/dev/null; cat README.md", "two\n"},
	{"node runs a script and its tests", []string{"node"}, "node src/a.js; node --test src >/dev/null; echo tested", "needle\ntested\n"},
	{"node finds the workspace's modules", []string{"node"}, "node -e 'console.log(require.resolve(\"dep\"))'", "/node_modules/dep/"},
	{"node watches a folder", []string{"node"}, `node -e 'const fs = require("fs"); const w = fs.watch(".", (_, name) => { console.log(name); w.close() }); setImmediate(() => fs.writeFileSync("seen.txt", "x"))'`, "seen.txt\n"},
	{"npm runs a script", []string{"npm"}, "npm run --silent hi; npm prefix --silent", "needle\n"},
	{"npm installs into the context", []string{"npm"}, "mkdir lib; echo '{\"name\":\"lib\",\"version\":\"1.0.0\"}' >lib/package.json; npm install --silent --offline --no-audit --no-fund ./lib; ls node_modules", "lib\n"},
	{"pnpm runs a script", []string{"pnpm"}, "pnpm run --silent hi", "needle\n"},
	{"tsc", []string{"tsc"}, "tsc -p . && echo checked", "checked\n"},
	{"eslint", []string{"eslint"}, "echo 'var unused = 1' >src/c.js; echo 'export default [{rules: {\"no-unused-vars\": \"error\"}}]' >eslint.config.mjs; eslint src || true", "no-unused-vars"},
	{"prettier", []string{"prettier"}, "prettier --log-level error --write src; cat src/b.ts", "const b: number = 1;\n"},
	{"go builds", []string{"go"}, "go vet . && go build -o app . && ./app 2>&1; go env GOMOD", "hi\n"},
	{"cargo", []string{"cargo"}, "cargo init -q --vcs none --name x --lib . && cargo check -q --offline && cargo locate-project --message-format plain", "ctx_"},
	{"python venv", []string{"python3"}, "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'", "/v\n"},
	{"make", []string{"make"}, "printf 'all:\\n\\t@echo made\\n' >Makefile; make", "made\n"},
	{"sqlite with a write-ahead log", []string{"sqlite3"}, "sqlite3 x.db 'pragma journal_mode=wal; create table t(a); insert into t values (7); select a from t'", "wal\n7\n"},
	{"find", []string{"find"}, "find . -name '*.js'; find . -name ctxfs.db", "./src/a.js\n"},
	{"tar there and back", []string{"tar"}, "tar -cf ../../t.tar . && mkdir t && tar -xf ../../t.tar -C t && rm ../../t.tar && diff -r src t/src && echo same", "same\n"},
	{"rsync there and back", []string{"rsync"}, "mkdir t && rsync -a src/ t/ && rsync -ani src/ t/ && echo same", "same\n"},
	{"sed in place", []string{"sed"}, "sed -i s/needle/pin/ README.md && cat README.md", "a pin\n"},
	{"flock", []string{"flock"}, "flock lock echo locked", "locked\n"},
	{"links, pipes and times", []string{"ln", "mkfifo", "touch"}, "ln -s src link && ln README.md hard && mkfifo p && touch -d @7 README.md && ls link && stat -c %Y hard", "7\n"},
	{"direnv", []string{"direnv"}, "echo 'export A=in' >.envrc && HOME=$PWD direnv allow && HOME=$PWD direnv exec . sh -c 'echo $A' 2>/dev/null", "in\n"},
	{"inotifywait", []string{"inotifywait"}, "inotifywait -q -t 20 -e create --format %f . >out 2>&1 & p=$!; while kill -0 $p 2>/dev/null; do rm -f new; : >new; done; cat out", "new\n"},
}

// TestAgentsToolsWorkInAContext runs each program in a context of its own. None may change the workspace.
func TestAgentsToolsWorkInAContext(t *testing.T) {
	t.Parallel()
	ws := agentsWorkspace(t)
	servertest.Start(t, ws, nil)
	s := &shell{t: t, dir: ws, env: map[string]string{}}
	before := tree(t, ws)
	t.Run("tools", func(t *testing.T) {
		for i, tool := range agentTools {
			panel := "agent-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			s.run("--panel", panel, "ls")
			t.Run(tool.name, func(t *testing.T) {
				t.Parallel()
				tool.run(t, ws, filepath.Join(ws, ".contexts", "ctx_"+panel))
			})
		}
	})
	if after := tree(t, ws); after != before {
		t.Errorf("the workspace was\n%s\nand is\n%s", before, after)
	}
}

func (a agentTool) run(t *testing.T, ws, folder string) {
	t.Helper()
	clientBin, err := filepath.Abs("../client/ts/node_modules/.bin") // has tsc where the npm client was built
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"WS=" + ws, "FD=fd"}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "PATH=") {
			e += string(filepath.ListSeparator) + clientBin
		}
		if !strings.HasPrefix(e, "GIT_") && !strings.HasPrefix(e, "CTXFS_") {
			env = append(env, e)
		}
	}
	for _, names := range a.needs {
		found := ""
		for name := range strings.SplitSeq(names, "|") {
			_, err := exec.LookPath(name)
			if err == nil && name == "cargo" { // rustup puts programs into PATH that do nothing without a toolchain in the home directory
				err = exec.CommandContext(t.Context(), name, "--version").Run()
			}
			_, own := os.Stat(filepath.Join(clientBin, name))
			if found == "" && (err == nil || own == nil) {
				found = name
			}
		}
		if found == "" {
			t.Skipf("not run: %s is not installed", strings.ReplaceAll(names, "|", " or "))
		}
		if found == "fdfind" {
			env = append(env, "FD=fdfind")
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-ec", a.script)
	cmd.Dir, cmd.Env = folder, env
	out, err := cmd.CombinedOutput()
	if got := string(out) + "\n"; err != nil || !strings.Contains(got, a.want) || a.want == "\n" && got != "\n" {
		t.Errorf("%s: %v\n%swant %q", a.script, err, out, a.want)
	}
}

// agentsWorkspace is a repository with something for each program.
func agentsWorkspace(t *testing.T) string {
	t.Helper()
	ws := t.TempDir()
	for name, content := range map[string]string{
		"README.md": "a needle\n", ".gitignore": "node_modules/\n*.log\n", "src/a.js": "console.log(\"needle\")\n", "src/b.ts": "const b: number = 1;\n",
		"package.json":  `{"name": "app", "version": "1.0.0", "scripts": {"hi": "node src/a.js"}}` + "\n",
		"tsconfig.json": `{"compilerOptions": {"noEmit": true, "strict": true}, "include": ["src"]}` + "\n",
		"go.mod":        "module example.com/app\n\ngo 1.24\n", "main.go": "package main\n\nfunc main() { println(\"hi\") }\n",
		"node_modules/dep/index.js": "module.exports = 1\n",
	} {
		path := filepath.Join(ws, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Git(t, ws, "init", "-q", "-b", "main")
	servertest.Git(t, ws, "add", ".")
	servertest.Git(t, ws, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first")
	return ws
}

// tree lists a workspace's files with their content, without its contexts, and git's view of them.
func tree(t *testing.T, ws string) string {
	t.Helper()
	script := `find . -path ./.contexts -prune -o -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 cksum; git rev-parse HEAD; git status --porcelain`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = ws
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

package attack

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// put makes a file of the workspace, whatever its mode.
func (w *world) put(name, content string, mode uint32) {
	w.Helper()
	path := w.in("ws", name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(content), 0o644))
	w.must(unix.Chmod(path, mode))
}

// hostileWorkspace has what a repository that somebody cloned could have, and more.
func hostileWorkspace(w *world) {
	for name, target := range map[string]string{
		"leak": "../outside/target", "leaks": "../outside", "absolute": w.alias + "/outside", "up": "..", "git": ".git", "state": ".contexts/.ctxfs",
		"dangling": "../outside/fresh", "src/chain": "../leaks", "nested/.git": "../../outside",
		"nested/.gitignore": "../../outside/target", "proc": "/proc/self/root" + w.alias, "\xff": "../outside/target",
	} {
		w.must(os.MkdirAll(filepath.Dir(w.in("ws", name)), 0o755))
		w.must(os.Symlink(target, w.in("ws", name)))
	}
	w.put("setuid", "x", 0o6755)
	w.put("nested/setgid", "x", 0o2755)
	w.put("sub/.git", "gitdir: "+w.alias+"/outside\n", 0o644)
	w.put("sub/file", "x", 0o644)
	w.put("new\nline", "x", 0o644)
	w.put(".ctxfs-tmp-0123", "content "+w.secret, 0o644)
	w.must(unix.Chmod(w.in("ws", "src"), 0o2777))
	w.must(unix.Mkfifo(w.in("ws", "fifo"), 0o666))
	w.must(unix.Mkfifo(w.in("ws", "src", "fifo"), 0o666))
	if os.Geteuid() == 0 {
		w.must(unix.Mknod(w.in("ws", "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	}
}

// TestHostileSeed seeds contexts from such a workspace, by both drivers.
func TestHostileSeed(t *testing.T) {
	for _, cfg := range configs(t) {
		t.Run(cfg.String(), func(t *testing.T) {
			cfg.prepare = hostileWorkspace
			w := newWorld(t, cfg)
			defer w.finish()
			w.checkSeeded(w.dir)
			for _, path := range []string{"/", "/leaks", "/src", "/nested", "/proc"} {
				for _, q := range requests(t, path, 0o755) {
					if readers[q.name()] {
						w.try(q, path, strings.Contains("/leaks /proc", path) && path != "/" && !onLinks[q.name()])
					}
				}
			}
		})
	}
}

// checkSeeded looks at what a context was made of.
func (w *world) checkSeeded(dir string) {
	w.Helper()
	count := 0
	w.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		count++
		info, err := d.Info()
		if err != nil {
			return err
		}
		if m := info.Mode(); m&(os.ModeSetuid|os.ModeSetgid) != 0 || m&(os.ModeNamedPipe|os.ModeSocket|os.ModeDevice) != 0 {
			w.Errorf("%s was seeded as %s", strings.TrimPrefix(path, w.base), m)
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			w.must(err)
			w.checkBytes("the seeded "+d.Name(), data)
		}
		return nil
	}))
	if count < 3 {
		w.Errorf("only %d entries were seeded", count)
	}
}

// TestSeedingRaces swaps a directory of the workspace for a link, while contexts are seeded from it.
func TestSeedingRaces(t *testing.T) {
	w := newWorld(t, config{driver: "copy", implementation: "openat2", transport: "unary", prepare: func(w *world) {
		w.must(fillDir(w.in("ws", "r", "x")))
		w.must(os.Symlink("../../outside", w.in("ws", "r", "y")))
	}})
	for _, name := range []string{"in", "sub", "target", "name-" + w.secret} {
		w.must(os.RemoveAll(w.in("ws", name))) // what is in the workspace is for all contexts
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = swap(w.in("ws")) // both are there
			}
		}
	}()
	ps, begun := ctxfsv1.NewPanelServiceClient(w.cc), time.Now()
	before, base := w.snapshotOf(w.in("outside")), w.resources()
	var seeded []string
	for n := 0; n < 3 || time.Since(begun) < attackTime(); n++ { // clock: how long the attack lasts
		resp, err := ps.OpenPanel(w.host, &ctxfsv1.OpenPanelRequest{PanelId: fmt.Sprintf("seed%d", n)})
		w.checkSeeding("a seeding", before, base)
		if err != nil {
			t.Logf("refused: %v", err)
			continue
		}
		seeded = append(seeded, w.in("ws", ".contexts", resp.GetContextId()))
	}
	close(stop)
	<-done
	if len(seeded) == 0 {
		t.Error("nothing was seeded")
	}
	for _, dir := range seeded {
		w.checkSeeded(dir)
	}
	w.report()
}

// checkSeeding is what is checked after every seeding, of whose contexts there are ever more.
func (w *world) checkSeeding(what string, outside snapshot, base resources) {
	w.checkLog(what)
	for _, d := range outside.diff(w.snapshotOf(w.in("outside"))) {
		w.leak("%s: outside, %s", what, d)
	}
	w.checkVictim(what)
	w.checkHeld(what, base)
}

// repo is a repository whose trees are made by hand, as git would not make them.
type repo struct {
	w   *world
	dir string
}

func (w *world) repo(name string) repo {
	w.must(os.MkdirAll(w.in("ws", name), 0o755))
	r := repo{w, w.in("ws", name)}
	r.git("", "init", "-q", "-b", "main")
	return r
}

func (r repo) git(stdin string, args ...string) string {
	r.w.Helper()
	cmd := exec.CommandContext(r.w.Context(), "git", append([]string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	r.w.must(err)
	return strings.TrimSpace(string(out))
}

func (r repo) blob(content string) string { return r.git(content, "hash-object", "-w", "--stdin") }

// tree makes one of mode, name and object, three strings each.
func (r repo) tree(entries ...string) string {
	var b strings.Builder
	for i := 0; i < len(entries); i += 3 {
		id, err := hex.DecodeString(entries[i+2])
		r.w.must(err)
		b.WriteString(entries[i] + " " + entries[i+1] + "\x00" + string(id))
	}
	return r.git(b.String(), "hash-object", "-t", "tree", "-w", "--stdin", "--literally")
}

func (r repo) commit(tree string) {
	r.git("", "update-ref", "refs/heads/main", r.git("", "commit-tree", "-m", "x", tree))
}

// hostileRepos are what templates name: in each the file could end up outside.
func hostileRepos(w *world) (names []string) {
	in := func(name string, make func(r repo) string) {
		r := w.repo("repos/" + name)
		r.commit(make(r))
		names = append(names, name)
	}
	file := func(r repo) string { return r.tree("100644", "target", r.blob("overwritten")) }
	named := func(mode, name string) func(r repo) string {
		return func(r repo) string { return r.tree(mode, name, r.blob("overwritten")) }
	}
	in("link", func(r repo) string { return r.tree("120000", "l", r.blob("../../../../outside")) })
	in("twice", func(r repo) string {
		return r.tree("120000", "l", r.blob("../../../../../../outside"), "40000", "l", file(r))
	})
	in("twice-reversed", func(r repo) string {
		return r.tree("40000", "l", file(r), "120000", "l", r.blob("../../../../../../outside"))
	})
	in("case", func(r repo) string { return r.tree("120000", "L", r.blob("../outside"), "40000", "l", file(r)) })
	in("dotdot", func(r repo) string { return r.tree("40000", "..", file(r)) })
	in("dot", func(r repo) string { return r.tree("40000", ".", file(r)) })
	in("empty", func(r repo) string { return r.tree("40000", "", file(r)) })
	in("git", func(r repo) string { return r.tree("40000", ".git", file(r)) })
	in("git-case", func(r repo) string { return r.tree("40000", ".GIT", file(r)) })
	in("slash", named("100644", "../../../../../outside/target"))
	in("absolute", named("100644", w.alias+"/outside/target"))
	in("setuid", named("104755", "f"))
	in("odd-mode", named("177777", "f"))
	in("reserved", named("100644", ".ctxfs-tmp-x"))
	in("long", named("100644", strings.Repeat("n", 300)))
	return names
}

// TestHostileTemplates builds templates of such repositories, and such as point outside themselves.
func TestHostileTemplates(t *testing.T) {
	var deps []string
	w := newWorld(t, config{driver: "copy", implementation: "openat2", transport: "unary", prepare: func(w *world) {
		for _, name := range hostileRepos(w) {
			deps = append(deps, "deps: {/r: {repo: repos/"+name+", ref: main}}")
		}
	}})
	deps = append(deps,
		"deps: {/r: {repo: repos/link, ref: main}, /r/l: {repo: repos/reserved, ref: main}}",
		"deps: {/r: {repo: repos/link, ref: main}, /r/l/x: {repo: repos/link, ref: main}}",
		"deps: {/../x: {repo: repos/link}}", "deps: {/r/../../x: {repo: repos/link}}", "deps: {/.ctxfs-tmp-x: {repo: repos/link}}", "deps: {/.git: {repo: repos/link}}",
		"deps: {/r: {repo: ../outside}}", "deps: {/r: {repo: "+w.alias+"/outside}}", "deps: {/r: {repo: 'file://"+w.alias+"/outside'}}",
		"deps: {/r: {repo: 'ext::sh -c touch% "+w.alias+"/outside/fresh'}}", "deps: {/r: {repo: '--upload-pack=touch "+w.alias+"/outside/fresh'}}",
		"deps: {/r: {repo: repos/link, ref: '--output="+w.alias+"/outside/fresh'}}", "extends: ../../outside", "extends: "+w.alias+"/outside", "extends: ../outside/target",
		"deps: &a {/x: *a}", strings.Repeat("[", 10000),
	)
	w.must(os.Symlink("../../outside/target", w.in("ws", "leak.yml")))
	before, base, ts := w.snapshotOf(w.in("outside")), w.resources(), ctxfsv1.NewPanelServiceClient(w.cc)
	built := 0
	for i, text := range deps {
		dir := fmt.Sprintf("t%d", i)
		w.put(dir+"/context-template.yml", text+"\n", 0o644)
		resp, err := ts.OpenPanel(w.host, &ctxfsv1.OpenPanelRequest{PanelId: "panel" + dir, Template: dir})
		w.checkSeeding(text[:min(len(text), 60)], before, base)
		if err != nil {
			w.checkBytes("the error of "+dir, []byte(strings.ReplaceAll(err.Error(), w.alias, "")))
		} else {
			built++
			t.Logf("built: %s", text)
			w.checkSeeded(w.in("ws", ".contexts", resp.GetContextId()))
		}
	}
	for _, path := range []string{"../outside", w.alias + "/outside/target", "leak.yml", "..", "../outside/target", "/etc/passwd"} {
		_, err := ts.OpenPanel(w.host, &ctxfsv1.OpenPanelRequest{PanelId: "p", Template: path})
		if err == nil || strings.Contains(err.Error(), w.secret) {
			t.Errorf("the template %s: %v", path, err)
		}
		w.checkSeeding("the template "+path, before, base)
	}
	if built == 0 {
		t.Error("nothing was built: the templates fail for another reason than being hostile")
	}
	w.report()
}

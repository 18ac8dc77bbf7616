package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestWhatSensitiveLinksLeadToIsSensitive has files that a program finds under a sensitive name, through a link.
func TestWhatSensitiveLinksLeadToIsSensitive(t *testing.T) {
	t.Parallel()
	const hook, workflow, script = SensitiveHook, SensitiveWorkflow, SensitiveScript
	for name, c := range map[string]struct {
		base, agent files
		removed     []string
		// want are the reasons of each change.
		want map[Path]string
	}{
		"a directory": {
			files{".vscode": "-> tools/vs", "tools/vs/tasks.json": "{}", "tools/x": "x"}, files{"tools/vs/tasks.json": "evil", "tools/vs/new/a": "a", "tools/x": "y"}, nil,
			map[Path]string{"tools/vs/tasks.json": hook, "tools/vs/new/a": hook, "tools/x": ""},
		},
		"a link of the context": {nil, files{".vscode": "-> ./tools//vs/", "tools/vs/tasks.json": "evil", "tools/x": "y"}, nil, map[Path]string{".vscode": hook, "tools/vs/tasks.json": hook, "tools/x": ""}},
		"a link that the context removes": {
			files{"app/.VSCode": "-> ../tools/vs", "tools/vs/tasks.json": "{}"}, files{"tools/vs/tasks.json": "evil"}, []string{"app/.VSCode"}, map[Path]string{"app/.VSCode": hook, "tools/vs/tasks.json": hook},
		},
		"a file that is removed": {files{".vscode": "-> vs", "vs/tasks.json": "{}"}, nil, []string{"vs/tasks.json"}, map[Path]string{"vs/tasks.json": hook}},
		"a directory of which some names are sensitive": {
			files{".changeset": "-> gh", "gradle": "-> g"}, files{"gh/config.json": "{}", "gh/other.md": "x", "g/wrapper/w.jar": "x", "g/other": "x"}, nil,
			map[Path]string{"gh/config.json": script, "gh/other.md": "", "g/wrapper/w.jar": script, "g/other": ""},
		},
		"a file":                         {files{"CLAUDE.md": "-> docs/agents.txt", "docs/agents.txt": "be good"}, files{"docs/agents.txt": "be evil", "docs/other.txt": "x"}, nil, map[Path]string{"docs/agents.txt": hook, "docs/other.txt": ""}},
		"a file with a directory's name": {files{"build": "-> out", "out/a": "a"}, files{"out/a": "b"}, nil, map[Path]string{"out/a": ""}},
		"a link to a link": {
			files{".vscode": "-> current", "current": "-> tools/vs", "tools/vs/a": "a"}, files{"tools/vs/a": "b", "current": "-> other", "other/a": "evil"}, nil,
			map[Path]string{"tools/vs/a": hook, "current": hook, "other/a": hook},
		},
		"a link above the target": {files{".vscode": "-> tools/vs", "tools": "-> build/tools"}, files{"build/tools/vs/a": "b", "build/tools/x": "y"}, nil, map[Path]string{"build/tools/vs/a": hook, "build/tools/x": ""}},
		"a directory above the target that becomes a link": {
			files{".vscode": "-> tools/vs", "tools/vs/a": "a"}, files{"tools": "-> other", "other/vs/a": "evil"}, []string{"tools/vs/a"},
			map[Path]string{"tools": hook + " " + script, "tools/vs/a": hook, "other/vs/a": hook}, // tools/bazel has a rule of its own
		},
		"a link in the target": {
			files{".vscode": "-> tools/vs", "tools/vs/tasks.json": "-> ../../shared/t.json", ".github": "-> gh", "gh/workflows": "-> ../flows"}, files{"shared/t.json": "evil", "shared/x": "x", "flows/ci.yml": "x"}, nil,
			map[Path]string{"shared/t.json": hook, "shared/x": "", "flows/ci.yml": workflow},
		},
		"a link in the target that leads back": {
			files{".vscode": "-> tools/vs", "tools/vs/up": "-> ..", "tools/vs/root": "-> ../.."}, files{"tools/x": "x", "plain": "x", "tools/vs/a": "a"}, nil, map[Path]string{"tools/x": "", "plain": "", "tools/vs/a": hook},
		},
		"a link to a directory above itself": {files{"app/.vscode": "-> ."}, files{"app/tasks.json": "x", "x": "x"}, nil, map[Path]string{"app/tasks.json": hook, "x": ""}},
		"an absolute link":                   {files{".vscode": "-> WORKSPACE/tools/vs", ".cargo": "-> /etc"}, files{"tools/vs/a": "a", "etc/a": "a"}, nil, map[Path]string{"tools/vs/a": hook, "etc/a": ""}},
		"links that lead nowhere": {
			files{".vscode": "-> .vscode", ".idea": "-> loop", "loop": "-> .idea", ".zed": "-> ../../x", ".husky": "-> none"}, files{"x": "x", "none2": "x"}, nil, map[Path]string{"x": "", "none2": ""},
		},
		"a link of another case beside the target": {
			files{".vscode": "-> tools/vs", "TOOLS": "-> decoy", "tools/vs/a": "a"}, files{"tools/vs/a": "evil"}, nil, map[Path]string{"tools/vs/a": hook},
		},
		"another link of the name": {files{"lib": "-> tools/vs"}, files{"tools/vs/a": "a"}, nil, map[Path]string{"tools/vs/a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, files{"keep": "x"})
			for p, text := range c.base {
				c.base[p] = strings.Replace(text, "WORKSPACE", w.in("workspace"), 1)
			}
			for _, dir := range []string{"workspace", "layer", id} {
				write(t, w.in(dir), c.base)
			}
			var err error
			w.manifest, err = manifestOf(w.in("layer"))
			must(t, err)
			remove(t, w.in(id), c.removed...)
			write(t, w.in(id), c.agent)
			for _, paths := range [][]Path{nil, {"tools", "other", "build", "shared", "flows", "docs", "vs", "gh", "g", "app", "x", "etc", "out", "plain", "none2", "current", ".vscode"}} {
				got := map[Path]string{}
				for _, ch := range w.changes(Query{Paths: paths, Links: true}).Changes {
					got[ch.Path] = strings.Join(ch.Sensitive, " ")
				}
				for p, want := range c.want {
					if is, ok := got[p]; !ok || is != want {
						t.Errorf("%s is sensitive as %q, want %q (a change: %t)", p, is, want, ok)
					}
				}
			}
		})
	}
}

// TestSelectionsLeaveOutWhatSensitiveLinksLeadTo selects everything and a directory. The link may have been applied before.
func TestSelectionsLeaveOutWhatSensitiveLinksLeadTo(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for _, dir := range []Path{"", "tools"} {
			t.Run(fmt.Sprintf("%q, applied %t", dir, applied), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, files{"f": "f\n"})
				write(t, w.in(id), files{".vscode": "-> tools/vs"})
				if applied {
					w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: ".vscode"}}}, Approve: true})
				}
				before := read(t, w.in("workspace"))
				write(t, w.in(id), files{"tools/vs/tasks.json": "evil\n", "tools/x": "x\n"})
				e := w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: dir}}}, Approve: true})
				before["tools/x"] = "x\n"
				same(t, "the workspace", read(t, w.in("workspace")), before)
				if !slices.Contains(e.LeftOut, LeftOut{"tools/vs/tasks.json", SensitiveHook, 0}) {
					t.Errorf("it left out %v", e.LeftOut)
				}
				w.apply(ApplyRequest{Selection: &Selection{Changes: []Selected{{Path: "tools/vs/tasks.json"}}}, Approve: true})
				before["tools/vs/tasks.json"] = "evil\n"
				same(t, "the workspace", read(t, w.in("workspace")), before)
			})
		}
	}
}

// TestEachLinkIsReadOnce has chains of links, to which many sensitive links lead, and directories with links that lead to one another.
func TestEachLinkIsReadOnce(t *testing.T) {
	t.Parallel()
	const many = 200
	for name, links := range map[string]func(i int) files{
		"a chain": func(i int) files {
			return files{fmt.Sprintf("d%d/.vscode", i): fmt.Sprintf("../chain%d", i%30), fmt.Sprintf("chain%d", i%30): fmt.Sprintf("chain%d", i%30+1)}
		},
		"a loop": func(i int) files {
			return files{fmt.Sprintf("d%d/.vscode", i): fmt.Sprintf("../loop%d", i), fmt.Sprintf("loop%d", i): fmt.Sprintf("loop%d", (i+1)%many)}
		},
		"directories": func(i int) files {
			return files{fmt.Sprintf("d%d/next", i): fmt.Sprintf("../d%d", (i+1)%many), "d0/.github": "../d1", "d0/gradle": "../d2", "d0/.husky": "../d3"}
		},
	} {
		reads, all := map[Path]int{}, map[Path]opener{}
		for i := range many {
			for p, target := range links(i) {
				all[Path(p)] = func() (io.ReadCloser, error) {
					reads[Path(p)]++
					return io.NopCloser(strings.NewReader(target)), nil
				}
			}
		}
		view := func() *linkView { return &linkView{links: all, targets: map[Path]string{}, at: map[Path]lead{}} }
		must(t, view().follow(t.Context()))
		for p, n := range reads {
			if n > 1 {
				t.Errorf("%s: %s was read %d times", name, p, n)
			}
		}
		if len(reads) != len(all) {
			t.Errorf("%s: %d of %d links were read", name, len(reads), len(all))
		}
		clear(reads)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := view().follow(ctx); !errors.Is(err, context.Canceled) || len(reads) > 0 {
			t.Errorf("%s: without a caller: %v, and %d links were read", name, err, len(reads))
		}
	}
}

// TestRulesFitIntoSets checks the lists that nameSet has places for.
func TestRulesFitIntoSets(t *testing.T) {
	t.Parallel()
	for _, rule := range SensitiveRules {
		if !slices.Contains(ruleReasons, rule.Reason) {
			t.Errorf("%s is not in ruleReasons", rule.Reason)
		}
	}
	if len(nameBeginnings) > 64 {
		t.Errorf("nameBeginnings has %d names", len(nameBeginnings))
	}
}

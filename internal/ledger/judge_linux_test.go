package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/server"
)

// base is a small lane; its files were found on disk, or are a model of that.
func base() tree {
	return tree{
		"d": dir(0o755), "d/x": file("xx", 0o644), "d/s": dir(0o755), "d/s/z": file("zz", 0o644), "f": file("old content", 0o644),
	}
}

// onDisk gives the files of a tree inodes.
func onDisk(t tree) tree {
	out, next := tree{}, uint64(1000)
	for p, n := range t {
		next++
		if n.id == 0 {
			n.id = next
		}
		out[p] = n
	}
	return out
}

// TestLedgerTellsWhatMayBe shows that the ledger finds what a kill must not leave, and takes what it may.
func TestLedgerTellsWhatMayBe(t *testing.T) {
	sent, unsent := errors.New("broken"), &client.TransportError{}
	written := &step{name: "w", after: base().rewritten("f", "new"), partly: inPlace("f", "new", 0)}
	replaced := &step{name: "a", after: base().rewritten("f", "new")}
	moved := &step{name: "mv", after: base().moved("d", "e")}
	removed := &step{name: "rm", after: base().without("d"), partly: fewer("d")}
	copied := base().with("c", dir(0o755)).with("c/x", file("xx", 0o644)).with("c/s", dir(0o755)).with("c/s/z", file("zz", 0o644))
	copying := &step{name: "cp", after: copied, partly: more("c", copied)}
	linked := base().changed("f", func(n *node) { n.id = 7 })
	linked["g"] = linked["f"]
	for _, c := range []struct {
		name   string
		flight *step
		err    error
		got    tree
		want   verdict // "" when it must be found to be wrong
	}{
		{"done", written, sent, base().rewritten("f", "new"), happened},
		{"not done", written, sent, base(), nothing},
		{"not sent and done", written, unsent, base().rewritten("f", "new"), ""},
		{"new bytes before old ones", written, sent, base().rewritten("f", "neword content"[:0]+"ne"+"d content"), partly},
		{"not cut yet", written, sent, base().rewritten("f", "new content"), partly},
		{"old bytes before new ones", written, sent, base().rewritten("f", "olw"), ""},
		{"empty", written, sent, base().rewritten("f", ""), ""},
		{"half of what is atomic", replaced, sent, base().rewritten("f", "new content"), ""},
		{"gone instead", replaced, sent, base().without("f"), ""},
		{"another file changed", written, sent, base().rewritten("f", "new").rewritten("d/x", "y"), ""},
		{"moved", moved, sent, base().moved("d", "e"), happened},
		{"moved and still there", moved, sent, base().with("e", dir(0o755)), ""},
		{"some removed", removed, sent, base().without("d/s"), partly},
		{"a child without its parent", removed, sent, tree{"d": dir(0o755), "d/s/z": file("zz", 0o644), "f": file("old content", 0o644)}, ""},
		{"removed elsewhere", removed, sent, base().without("d").without("f"), ""},
		{"some copied", copying, sent, base().with("c", dir(0o700)).with("c/x", file("x", 0o600)), partly},
		{"copied wrongly", copying, sent, base().with("c", dir(0o700)).with("c/x", file("y", 0o600)), ""},
		{"nothing in flight and the same", nil, nil, base(), nothing},
		{"an acknowledged write lost", nil, nil, base().rewritten("f", "older"), ""},
		{"a mode lost", nil, nil, base().with("f", file("old content", 0o600)), ""},
		{"a name too many", nil, nil, base().with("n", file("", 0o600)), ""},
		{"a link that became a copy", &step{name: "ln", after: linked}, sent, base().with("g", file("old content", 0o644)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lane{state: base(), flight: c.flight, err: c.err}
			got, err := l.settle(onDisk(c.got))
			if c.flight == nil && err == nil {
				got = nothing
			}
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// TestStateIsLookedAt shows that what is half made is found.
func TestStateIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(l contexts.Layout) string
	}{
		{"staged", func(l contexts.Layout) string { return filepath.Join(l.Staging, "context-1") }},
		{"a layer without a manifest", func(l contexts.Layout) string { return filepath.Join(l.Layers, "aa", "tree") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorkspace(t, []string{"a"})
			must(t, w.layout.Make("0.1.0"))
			must(t, w.checkState())
			must(t, os.MkdirAll(c.make(w.layout), 0o755))
			w.sweepTime = 0 // no server runs that would remove it
			if err := w.checkState(); err == nil {
				t.Error("it was not found")
			}
		})
	}
	w := newWorkspace(t, []string{"a"})
	w.write(t, ".contexts/ctx_a/.ctxfs-tmp-1", "")
	if _, err := w.folder("ctx_a"); err == nil {
		t.Error("a reserved name was not found")
	}
	if err := w.checkGone(nil); err == nil {
		t.Error("a context of nobody was not found")
	}
}

// TestHostLedgerTells shows that the host's ledger finds what is lost.
func TestHostLedgerTells(t *testing.T) {
	now := world{
		contexts: map[string]held{"ctx_h0": {round: "1", mark: "m", snapshots: map[string]held{"s": {}}}},
		tokens:   map[string]bool{"t": true}, templates: map[string]bool{"templates/0": true},
	}
	for _, c := range []struct {
		name   string
		change func(w world)
	}{
		{"a context", func(w world) { delete(w.contexts, "ctx_h0") }},
		{"a mark", func(w world) { w.contexts["ctx_h0"] = held{round: "1", snapshots: map[string]held{"s": {}}} }},
		{"a snapshot", func(w world) { delete(w.contexts["ctx_h0"].snapshots, "s") }},
		{"a deletion", func(w world) { w.contexts["ctx_h1"] = held{} }},
		{"a token", func(w world) { w.tokens["t"] = false }},
		{"a template", func(w world) { clear(w.templates) }},
		{"a template's removal", func(w world) { w.templates["templates/1"] = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := now.clone()
			if d := now.differs(seen); d != "" {
				t.Errorf("nothing changed, and %s", d)
			}
			if c.change(seen); now.differs(seen) == "" {
				t.Error("it was not found")
			}
		})
	}
}

// TestRises shows that a soak finds what grows.
func TestRises(t *testing.T) {
	flat, rising := soakLife{}, soakLife{}
	for i := range 30 {
		m := sample{memory: 40, descriptors: 30, goroutines: 50}
		flat.samples = append(flat.samples, m)
		m.memory, m.descriptors, m.goroutines = m.memory+float64(2*i), m.descriptors+float64(4*i), m.goroutines+float64(5*i)
		rising.samples = append(rising.samples, m)
	}
	if got := flat.rises(); len(got) != 0 {
		t.Errorf("what is flat: %v", got)
	}
	if got := rising.rises(); len(got) != len(quantities) {
		t.Errorf("what rises: %v", got)
	}
}

// TestNamesOfOneFileAreOneInTheModel links a file of the layer, whose names show two inode numbers with overlay-userns. The ledger continues
// from such a tree after a rename of a directory that a kill cut short: it must know that a chmod of one name changes the other.
func TestNamesOfOneFileAreOneInTheModel(t *testing.T) {
	if !namespacestest.Inside() {
		database, err := pgtest.Reachable()
		must(t, err)
		namespacestest.Run(t, "^TestNamesOfOneFileAreOneInTheModel$", database)
		return
	}
	l := newLoad(t, server.DriverUserNS, 1, 1)
	p, err := start(l.w.dir, l.driver)
	must(t, err)
	c, err := p.dial(t.Context())
	must(t, err)
	must(t, l.settle(t.Context(), c))
	lane := l.panels[0].lanes[0]
	must(t, lane.fsys.Link(lane.at("d0/y"), lane.at("f2")))
	got, err := l.w.folder(l.panels[0].contextID())
	must(t, err)
	now := got.below(lane.name).asModel().changed("f2", func(n *node) { n.perm = 0o600 })
	if now["d0/y"].perm != 0o600 {
		t.Errorf("the ledger takes two names of a file for two files: %v, %v", now["f2"], now["d0/y"])
	}
	must(t, c.Close())
	must(t, p.end(syscall.SIGTERM))
}

package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ctxfs/ctxfs/client"
)

// marker is the file whose content distinguishes the states of a context.
const marker = "keep/marker"

// held is what a context of the host holds.
type held struct {
	// round is what the workspace was when it was made, mark what the marker says, label the value of its label; "" when there is none.
	round, mark, label string
	// snapshots are what it held, by name.
	snapshots map[string]held
}

// world is the ledger of a host: its contexts by ID, the labels of its panels, their tokens with whether they hold, and which templates are
// built, by folder.
type world struct {
	contexts  map[string]held
	labels    map[string]string
	tokens    map[string]bool
	templates map[string]bool
}

func newWorld() world {
	return world{contexts: map[string]held{}, labels: map[string]string{}, tokens: map[string]bool{}, templates: map[string]bool{}}
}

func (w world) clone() world {
	c := world{contexts: map[string]held{}, labels: maps.Clone(w.labels), tokens: maps.Clone(w.tokens), templates: maps.Clone(w.templates)}
	for id, h := range w.contexts {
		h.snapshots = maps.Clone(h.snapshots)
		c.contexts[id] = h
	}
	return c
}

// ids are those of the contexts for which ok holds, sorted.
func (w world) ids(ok func(id string, h held) bool) []string {
	var out []string
	for id, h := range w.contexts {
		if ok == nil || ok(id, h) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// hostStep is one call of a host.
type hostStep struct {
	name  string
	do    func() error
	after world
	// partly, which may be nil, makes of what is seen what there is then, where an operation may happen in part.
	partly func(seen world) world
}

// host does one operation on whole contexts after the other, as a lane does on files.
type host struct {
	ctx          context.Context
	rng          *rand.Rand
	c            *client.Client
	round        string
	state        world
	flight       *hostStep
	err          error
	acknowledged map[string]int
	serial       int
	// panels are the open ones, with their tokens.
	panels map[string][]string
	// flights counts what was in flight at a kill.
	flights map[string]int
}

func newHost(seed uint64) *host {
	return &host{
		rng:   rand.New(rand.NewPCG(seed, 7)),
		state: newWorld(), panels: map[string][]string{}, flights: map[string]int{}, acknowledged: map[string]int{},
	}
}

func (h *host) work(stop *atomic.Bool, pause func()) {
	for !stop.Load() {
		h.once(h.choose())
		if h.err != nil {
			return
		}
		pause()
	}
}

// choose picks any call, or half of the time the one that was in flight least often.
func (h *host) choose() hostOperation {
	all := h.operations()
	if h.rng.IntN(4) > 0 { // what takes much longer would leave no time to the others
		all = slices.DeleteFunc(all, func(o hostOperation) bool { return o.name == "buildTemplate" || o.name == hostReads })
	}
	o := all[h.rng.IntN(len(all))]
	for range 6 * h.rng.IntN(2) {
		if other := all[h.rng.IntN(len(all))]; h.flights[other.name] < h.flights[o.name] {
			o = other
		}
	}
	return o
}

// once does an operation, if that is possible now.
func (h *host) once(o hostOperation) {
	s := o.plan()
	if s == nil {
		return
	}
	s.name = cmp.Or(s.name, o.name)
	h.flight = s
	if h.err = s.do(); h.err != nil {
		return
	}
	h.state, h.flight = s.after, nil
	if s.name != hostReads {
		h.acknowledged[s.name]++
	}
}

// hostOperation plans what a host may do next: one call, nil when it is not possible now.
type hostOperation struct {
	name string
	plan func() *hostStep
}

func (h *host) operations() []hostOperation {
	return []hostOperation{
		{"ensureContext", h.ensure}, {"writeFile by the host", h.mark}, {"fork", h.fork}, {"snapshot", h.snapshot}, {"restore", h.restore},
		{"deleteSnapshot", h.deleteSnapshot}, {"deleteContext", h.deleteContext}, {"collectGarbage", h.collect},
		{"label", h.label}, {"label a panel", h.labelPanel}, {"openPanel", h.openPanel}, {"renewToken", h.renewToken}, {"closePanel", h.closePanel}, {"buildTemplate", h.buildTemplate}, {hostReads, h.reads},
	}
}

// maxContexts bounds the host's contexts.
const maxContexts = 6

// freeID returns an ID of the host for which no context exists; "" if there are enough contexts.
func (h *host) freeID() string {
	for i := range maxContexts {
		id := fmt.Sprintf("ctx_h%d", i)
		if _, there := h.state.contexts[id]; !there {
			return id
		}
	}
	return ""
}

// some is a random context for which ok holds; "" when there is none.
func (h *host) some(ok func(id string, c held) bool) string {
	all := h.state.ids(ok)
	if len(all) == 0 {
		return ""
	}
	return all[h.rng.IntN(len(all))]
}

// step plans a call on a context, whose ID may be "" (then there is nothing to do).
func (h *host) step(id string, change func(w world), do func() error) *hostStep {
	if id == "" {
		return nil
	}
	after := h.state.clone()
	change(after)
	return &hostStep{after: after, do: do}
}

func (h *host) ensure() *hostStep {
	id := h.freeID()
	return h.step(id, func(w world) { w.contexts[id] = h.fresh() }, func() error {
		_, err := h.c.EnsureContext(h.ctx, id, nil)
		return err
	})
}

func (h *host) fresh() held { return held{round: h.round, snapshots: map[string]held{}} }

func (h *host) mark() *hostStep {
	id := h.some(nil)
	h.serial++
	mark := fmt.Sprintf("mark %d", h.serial)
	return h.step(id, func(w world) {
		c := w.contexts[id]
		c.mark = mark
		w.contexts[id] = c
	}, func() error { return h.c.Context(id).With(h.ctx).WriteFileAtomic(marker, []byte(mark), 0o644) })
}

// labelKey is the label that the host sets.
const labelKey = "serial"

func (h *host) label() *hostStep {
	id := h.some(nil)
	h.serial++
	value := fmt.Sprint(h.serial)
	return h.step(id, func(w world) {
		c := w.contexts[id]
		c.label = value
		w.contexts[id] = c
	}, func() error {
		_, err := h.c.SetLabels(h.ctx, id, map[string]string{labelKey: value})
		return err
	})
}

func (h *host) fork() *hostStep {
	from, to := h.some(nil), h.freeID()
	if from == "" {
		return nil
	}
	return h.step(to, func(w world) {
		c := w.contexts[from]
		c.snapshots = map[string]held{}
		w.contexts[to] = c
	}, func() error {
		_, err := h.c.Fork(h.ctx, from, to)
		return err
	})
}

func (h *host) snapshot() *hostStep {
	id := h.some(func(_ string, c held) bool { return len(c.snapshots) < 3 })
	h.serial++
	name := fmt.Sprintf("s%d", h.serial)
	return h.step(id, func(w world) {
		c := w.contexts[id]
		kept := c
		kept.snapshots = nil
		c.snapshots[name] = kept
	}, func() error {
		_, err := h.c.Snapshot(h.ctx, id, name)
		return err
	})
}

// kept is a context with a snapshot, and that one's name.
func (h *host) kept() (id, name string) {
	id = h.some(func(_ string, c held) bool { return len(c.snapshots) > 0 })
	if id == "" {
		return "", ""
	}
	names := slices.Sorted(maps.Keys(h.state.contexts[id].snapshots))
	return id, names[h.rng.IntN(len(names))]
}

func (h *host) restore() *hostStep {
	id, name := h.kept()
	return h.step(id, func(w world) {
		c := w.contexts[id]
		c.round, c.mark = c.snapshots[name].round, c.snapshots[name].mark
		w.contexts[id] = c
	}, func() error {
		_, err := h.c.Restore(h.ctx, id, name, client.DiscardChanges)
		return err
	})
}

func (h *host) deleteSnapshot() *hostStep {
	id, name := h.kept()
	return h.step(id, func(w world) { delete(w.contexts[id].snapshots, name) },
		func() error { return h.c.DeleteSnapshot(h.ctx, id, name) })
}

func (h *host) deleteContext() *hostStep {
	if len(h.state.contexts) < 3 {
		return nil
	}
	id := h.some(func(id string, _ held) bool { return strings.HasPrefix(id, "ctx_h") })
	return h.step(id, func(w world) { delete(w.contexts, id) }, func() error {
		_, err := h.c.DeleteContext(h.ctx, id, client.DiscardChanges)
		return err
	})
}

package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/server"
)

// panel is one with its ledger.
type panel struct {
	id string
	// seeded is what its context was made of, nil until then.
	seeded tree
	lanes  []*lane
	opened *client.Panel
}

// load is a workspace with panels and a host at work on it, through the lives of many servers.
type load struct {
	t       testing.TB
	w       *workspace
	driver  string
	panels  []*panel
	host    *host
	chooser *chooser
	rng     *rand.Rand
	// pause is between two operations of a worker; it ends early when ended closes.
	pause time.Duration
	tally tally
	// database is killed too; nil unless the records are in PostgreSQL.
	database *pgtest.Server
	// outage, if the database is killed in this life, is called before the server's end.
	outage func()
	// done counts what lanes had acknowledged.
	done atomic.Int64
}

// tally is what the summary says.
type tally struct {
	kills, stops, lost, databases int
	// acknowledged counts calls by name, flight those in flight at a kill by what became of them.
	acknowledged map[string]int
	flight       map[string]outcomes
}

// outcomes counts what became of calls in flight.
type outcomes map[verdict]int

func (o outcomes) sum() (n int) {
	for _, v := range o {
		n += v
	}
	return n
}

func newTally() tally { return tally{acknowledged: map[string]int{}, flight: map[string]outcomes{}} }

// saw counts a call in flight.
func (t *tally) saw(name string, v verdict, n int) {
	if t.flight[name] == nil {
		t.flight[name] = outcomes{}
	}
	t.flight[name][v] += n
}

// newLoad has so many panels at work, each in so many lanes.
func newLoad(t testing.TB, driver string, panels, lanes int) *load {
	t.Helper()
	if driver == server.DriverOverlay {
		namespacestest.Mounting(t)
	}
	var names []string
	for i := range lanes {
		names = append(names, string(rune('a'+i)))
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("driver %s, seed %d", driver, seed)
	l := &load{
		t: t, w: newWorkspace(t, names), driver: driver, chooser: newChooser(), host: newHost(seed), rng: rand.New(rand.NewPCG(seed, 1)),
		tally: newTally(),
	}
	for i := range panels {
		p := &panel{id: fmt.Sprintf("panels/p%d", i)}
		for j, name := range names {
			p.lanes = append(p.lanes, &lane{name: name, rng: rand.New(rand.NewPCG(seed, uint64(100+10*i+j))), choose: l.chooser.choose, acknowledged: map[string]int{}, done: &l.done})
		}
		l.panels = append(l.panels, p)
	}
	return l
}

// life is that of one server: it must show what the ledgers say, then it is worked with for some time, and ended by sig.
// watch, which may be nil, is called meanwhile.
func (l *load) life(length time.Duration, sig os.Signal, watch func(ctx context.Context, p *process)) {
	l.t.Helper()
	l.host.round = fmt.Sprintf("round %d\n", l.tally.kills+l.tally.stops)
	l.w.round(l.t, l.tally.kills+l.tally.stops)
	p, err := start(l.w.dir, l.driver)
	must(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := l.w.checkState(); err != nil {
		l.fail(p, err)
	}
	c, err := p.dial(ctx)
	must(l.t, errors.Join(err, l.brief(err, p)))
	defer func() { must(l.t, c.Close()) }()
	if err := l.settle(ctx, c); err != nil {
		l.fail(p, err)
	}
	if length > 0 && !l.t.Failed() {
		l.work(ctx, cancel, p, length, sig, watch)
	} else {
		must(l.t, p.end(sig))
	}
	if sig == syscall.SIGTERM {
		l.tally.stops++
	} else {
		l.tally.kills++
	}
}

// brief ends a server that cannot be dialed.
func (l *load) brief(err error, p *process) error {
	if err == nil {
		return nil
	}
	return errors.Join(errors.New(p.tail()), p.end(os.Kill))
}

func (l *load) fail(p *process, err error) {
	l.t.Helper()
	l.tally.lost++
	l.t.Errorf("after %d kills: %v\nthe servers' log: %s", l.tally.kills, err, p.tail())
}

// settle compares all that a server shows with the ledgers.
func (l *load) settle(ctx context.Context, c *client.Client) error {
	content, err := l.w.content()
	if err != nil {
		return err
	}
	var name string
	if l.host.flight != nil {
		name = l.host.flight.name
	}
	v, err := l.host.settle(ctx, c)
	errs := []error{err, l.w.resolveTemplates(ctx, c)}
	l.count(name, v)
	expected := map[string]bool{}
	for id, h := range l.host.state.contexts {
		expected[id] = true
		errs = append(errs, l.sameFolder(id, h.want(content)))
	}
	for _, p := range l.panels {
		errs = append(errs, l.settlePanel(ctx, c, p, content))
		expected[p.contextID()] = true
	}
	return errors.Join(append(errs, l.w.checkGone(expected))...)
}

func (p *panel) contextID() string { return "ctx_" + strings.ReplaceAll(p.id, "/", "~") }

func (l *load) sameFolder(id string, want tree) error {
	got, err := l.w.folder(id)
	if d := differ(want, got); err == nil && d != "" {
		err = fmt.Errorf("context %s is not complete: %s", id, d)
	}
	return err
}

func (l *load) settlePanel(ctx context.Context, c *client.Client, p *panel, content tree) (err error) {
	if p.opened, err = c.OpenPanel(ctx, p.id); err != nil {
		return err
	}
	// The first access removes what the kill left of atomic writes, which the scan would find.
	if _, err := p.opened.FS().With(ctx).Stat("."); err != nil {
		return err
	}
	got, err := l.w.folder(p.opened.ContextID())
	errs := []error{err}
	if p.seeded == nil {
		p.seeded = content
		for _, lane := range p.lanes {
			lane.state = content.below(lane.name)
		}
	}
	rest, want := got, p.seeded
	for _, lane := range p.lanes {
		var name string
		if lane.flight != nil {
			name = lane.flight.shown()
		}
		v, err := lane.settle(got.below(lane.name))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, %s: %w", p.id, lane.name, err))
		}
		if l.count(name, v); v != "" {
			l.chooser.saw(lane.doing)
		}
		lane.attach(ctx, c, p.opened)
		rest, want = rest.without(lane.name), want.without(lane.name)
	}
	if d := differ(want, rest); d != "" {
		errs = append(errs, fmt.Errorf("%s: what nobody changed: %s", p.id, d))
	}
	return errors.Join(errs...)
}

func (l *load) count(name string, v verdict) {
	if v != "" {
		l.tally.saw(name, v, 1)
	}
}

// lateness is how long calls may take to fail once the server is gone.
const lateness = time.Minute

// work has all workers at work until the server is ended.
func (l *load) work(ctx context.Context, cancel func(), p *process, length time.Duration, sig os.Signal, watch func(context.Context, *process)) {
	var ending atomic.Bool
	var wg, watching sync.WaitGroup
	ended := make(chan struct{})
	pause := l.pauser(ended)
	early := make(chan error, 1+len(l.panels)*len(l.panels[0].lanes))
	worker := func(work func() error) {
		wg.Go(func() {
			if err := work(); err != nil && (!ending.Load() || answered(err, sig)) {
				early <- err
			}
		})
	}
	worker(func() error {
		l.host.work(&ending, pause)
		return l.excused(named(l.host.err, l.host.flight == nil, "the host"))
	})
	for _, panel := range l.panels {
		for _, lane := range panel.lanes {
			worker(func() error {
				lane.work(&ending, pause)
				return named(lane.err, lane.flight == nil, panel.id+", "+lane.name)
			})
		}
	}
	if watch != nil {
		watchCtx, stop := context.WithCancel(ctx)
		watching.Go(func() { watch(watchCtx, p) })
		l.await(length, early)
		stop()
		watching.Wait()
	} else {
		l.await(length, early)
	}
	ending.Store(true)
	close(ended)
	if l.outage != nil {
		l.outage()
	}
	must(l.t, p.end(sig))
	late := time.AfterFunc(lateness, cancel)
	wg.Wait()
	if !late.Stop() {
		l.t.Errorf("calls went on for %v after the server had ended", lateness)
	}
	close(early)
	for err := range early {
		l.fail(p, err)
	}
	l.tallyAcknowledged()
}

// named says whose an error is.
func named(err error, idle bool, who string) error {
	if err == nil || idle {
		return err
	}
	return fmt.Errorf("%s: %w", who, err)
}

// answered reports whether an error shows that the server answered wrongly. Wrong content always does. With os.Kill, an error
// reply does too: a server that is killed has no reason to send one.
func answered(err error, sig os.Signal) bool {
	var e *fserr.Error
	var t *client.TransportError
	var w *wrongRead
	return errors.As(err, &w) || sig == os.Kill && errors.As(err, &e) && !errors.As(err, &t)
}

// await returns at the end of the server's life, or when a worker failed.
func (l *load) await(length time.Duration, early chan error) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case err := <-early:
		early <- err
	}
}

// pauser is what workers do between operations: nothing, or a pause of a random length.
func (l *load) pauser(ended <-chan struct{}) func() {
	if l.pause == 0 {
		return func() {}
	}
	return func() {
		timer := time.NewTimer(rand.N(2 * l.pause))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ended:
		}
	}
}

func (l *load) tallyAcknowledged() {
	sum := maps.Clone(l.host.acknowledged)
	for _, p := range l.panels {
		for _, lane := range p.lanes {
			addAll(sum, lane.acknowledged)
		}
	}
	l.tally.acknowledged = sum
}

func addAll[K comparable](sum, more map[K]int) {
	for k, n := range more {
		sum[k] += n
	}
}

// last starts a server once more and ends it in order: then nothing is staged or mounted.
func (l *load) last() {
	l.t.Helper()
	l.life(0, syscall.SIGTERM, nil)
	entries, err := os.ReadDir(l.w.layout.Staging)
	must(l.t, err)
	if len(entries) != 1 {
		l.t.Errorf("after an orderly stop staging holds %v", entries)
	}
	must(l.t, l.w.checkLeft())
	if mounts, err := l.w.mounts(); err != nil || len(mounts) > 0 {
		l.t.Errorf("after an orderly stop %v are mounted, %v", mounts, err)
	}
}

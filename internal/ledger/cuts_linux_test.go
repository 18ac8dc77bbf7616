package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

const (
	// cutsEnv is how often the power is cut under each load on each disk, cutSeedEnv the seed of the disks.
	cutsEnv    = "CTXFS_CUTS"
	cutSeedEnv = "CTXFS_CUT_SEED"
	// fewCuts are those of an ordinary run of the tests.
	fewCuts = 5
	// blocks is the size of a disk of blocks, in bytes.
	blocks = 160 << 20
)

// cutDisks are the disks that the power of is cut, by the driver that runs there. overlayfs takes no FUSE file system as its upper directory.
var cutDisks = []struct {
	name, driver string
	// long says that an ordinary run of the tests leaves it out.
	long bool
	make func(t testing.TB, seed uint64) *powercut.Disk
}{
	{"copy", server.DriverCopy, false, powercut.New},
	{"copy on blocks", server.DriverCopy, true, func(t testing.TB, seed uint64) *powercut.Disk { return powercut.NewBlocks(t, seed, blocks) }},
	{"overlay on blocks", server.DriverOverlay, false, func(t testing.TB, seed uint64) *powercut.Disk { return powercut.NewBlocks(t, seed, blocks) }},
}

// onCutDisks runs a test on each disk, with the number of cuts.
func onCutDisks(t *testing.T, test func(t *testing.T, driver string, seed uint64, cuts int, disk *powercut.Disk)) {
	if os.Getenv(pgtest.Env) == "postgres" {
		t.Skip("not tested: the records are in a PostgreSQL, which is not on the disk")
	}
	cuts := fewCuts
	if n, err := strconv.Atoi(os.Getenv(cutsEnv)); err == nil {
		cuts = n
	}
	seed, err := strconv.ParseUint(os.Getenv(cutSeedEnv), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	for _, d := range cutDisks {
		if d.long && cuts <= fewCuts {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			if d.driver == server.DriverOverlay {
				if why := server.OverlayRefusal(t.Context(), t.TempDir()); why != "" {
					t.Skipf("not tested: %s", why)
				}
			}
			t.Logf("seed %d", seed)
			test(t, d.driver, seed, cuts, d.make(t, seed))
		})
	}
}

// cutLoad is a workspace on a disk whose power is cut, with a host and panels at work on it.
type cutLoad struct {
	t       testing.TB
	disk    *powercut.Disk
	driver  string
	w       *workspace
	rng     *rand.Rand
	host    *host
	panels  []*panel
	keepers []*keeper
	cuts    int
	flight  map[string]int
}

// TestCuts cuts the power under load: what a server acknowledged as being on the disk is there afterwards, nothing is half made, and the next server
// starts by itself. It takes some seconds for each disk: each cut starts a server.
func TestCuts(t *testing.T) {
	onCutDisks(t, func(t *testing.T, driver string, seed uint64, cuts int, disk *powercut.Disk) {
		l := &cutLoad{
			t: t, disk: disk, driver: driver, w: newWorkspaceAt(t, disk.At, []string{"a"}), rng: rand.New(rand.NewPCG(seed, 5)),
			host: newHost(seed), flight: map[string]int{},
		}
		for i := range 3 {
			p := &panel{id: fmt.Sprintf("panels/p%d", i)}
			l.panels = append(l.panels, p)
			l.keepers = append(l.keepers, newKeeper("a", rand.New(rand.NewPCG(seed, uint64(200+i)))))
		}
		for l.cuts < cuts && !t.Failed() {
			l.life()
		}
		l.summary()
	})
}

// life starts a server on what the cut before left, compares, works, and cuts the power. One in eight servers is cut while it starts.
func (l *cutLoad) life() {
	l.t.Helper()
	l.host.round = fmt.Sprintf("round %d\n", l.cuts)
	l.w.round(l.t, l.cuts)
	l.disk.Settle()
	defer func() { l.cuts++ }()
	if l.rng.IntN(8) == 0 {
		l.stillborn()
		return
	}
	p, err := start(l.w.dir, l.driver)
	if err != nil {
		l.t.Errorf("after %d cuts: %v", l.cuts, err)
		return
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), lifeTime)
	defer cancel()
	c, err := p.dial(ctx)
	must(l.t, err)
	defer func() { must(l.t, c.Close()) }()
	if err := l.settle(ctx, c); err != nil {
		l.t.Errorf("after %d cuts: %v\nthe servers' log: %s", l.cuts, err, p.tail())
	}
	if l.cuts%4 == 1 && !l.t.Failed() { // on a slow disk a build takes longer than most servers live
		l.host.once(hostOperation{"buildTemplate", l.host.buildTemplate})
		must(l.t, l.host.err)
	}
	if l.cuts%4 == 3 && !l.t.Failed() { // a later call would flush what the collection should have
		for _, o := range []hostOperation{{"buildTemplate", l.host.buildTemplate}, {"collectGarbage", l.host.collect}} {
			l.host.once(o)
			must(l.t, l.host.err)
		}
		l.disk.Cut()
		must(l.t, p.end(os.Kill))
		l.disk.Resume()
		return
	}
	l.work(p)
}

// stillborn cuts the power while a server starts.
func (l *cutLoad) stillborn() {
	l.t.Helper()
	p, err := launch(l.w.dir, l.driver)
	must(l.t, err)
	timer := time.NewTimer(time.Duration(l.rng.Int64N(int64(400 * time.Millisecond))))
	defer timer.Stop()
	<-timer.C
	l.disk.Cut()
	must(l.t, p.end(os.Kill))
	l.disk.Resume()
}

// settle compares what a server shows with what was acknowledged.
func (l *cutLoad) settle(ctx context.Context, c *client.Client) error {
	errs := []error{l.w.checkState()}
	content, err := l.w.content()
	if err != nil {
		return err
	}
	if s := l.host.flight; s != nil {
		l.flight[s.name]++
	}
	_, err = l.host.settle(ctx, c)
	errs = append(errs, err, l.w.resolveTemplates(ctx, c))
	expected := map[string]bool{}
	for id, h := range l.host.state.contexts {
		expected[id] = true
		got, err := l.w.folder(id)
		if d := differ(h.want(content), got); err == nil && d != "" {
			err = fmt.Errorf("context %s is not complete: %s", id, d)
		}
		errs = append(errs, err)
	}
	for i, p := range l.panels {
		expected[p.contextID()] = true
		if err := l.settlePanel(ctx, c, p, l.keepers[i], content); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.id, err))
		}
	}
	return errors.Join(append(errs, l.w.checkGone(expected))...)
}

func (l *cutLoad) settlePanel(ctx context.Context, c *client.Client, p *panel, k *keeper, content tree) (err error) {
	if p.opened, err = c.OpenPanel(ctx, p.id); err != nil {
		return err
	}
	if _, err := p.opened.FS().With(ctx).Stat("."); err != nil {
		return err
	}
	got, err := l.w.folder(p.opened.ContextID())
	if p.seeded == nil {
		p.seeded = content
	}
	k.attach(ctx, c, p.opened)
	if d := differ(p.seeded.without(k.dir), got.without(k.dir)); d != "" {
		err = errors.Join(err, fmt.Errorf("what nobody changed: %s", d))
	}
	return errors.Join(err, k.settle())
}

// work has all at work until the power is cut.
func (l *cutLoad) work(p *process) {
	l.t.Helper()
	var ending atomic.Bool
	var wg sync.WaitGroup
	early := make(chan error, 1+len(l.keepers))
	worker := func(work func() error) {
		wg.Go(func() {
			if err := work(); err != nil && !ending.Load() {
				early <- err
			}
		})
	}
	if !l.t.Failed() {
		worker(func() error {
			l.host.work(&ending, func() {})
			return l.host.err
		})
		for _, k := range l.keepers {
			worker(func() error {
				k.work(&ending)
				return k.err
			})
		}
	}
	timer := time.NewTimer(time.Duration(l.rng.Int64N(int64(time.Second))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case err := <-early:
		early <- err
	}
	ending.Store(true)
	l.disk.Cut()
	must(l.t, p.end(os.Kill))
	wg.Wait()
	close(early)
	for err := range early {
		l.t.Errorf("before cut %d: %v\nthe server's log: %s", l.cuts, err, p.tail())
	}
	l.disk.Resume()
}

func (l *cutLoad) summary() {
	sum := newTally()
	addAll(sum.acknowledged, l.host.acknowledged)
	for _, k := range l.keepers {
		addAll(sum.acknowledged, k.acknowledged)
		addAll(l.flight, k.inFlight)
	}
	fmt.Printf("ledger: %s: %d cuts; acknowledged %v, in flight %v\n", l.t.Name(), l.cuts, sum.acknowledged, l.flight)
}

// TestReviewCuts cuts the power while a host applies, commits, rebases, resolves, undoes, discards, decides on, submits and stages what a context changed. It takes some
// seconds for each disk, since each cut starts a server.
func TestReviewCuts(t *testing.T) {
	onCutDisks(t, func(t *testing.T, driver string, _ uint64, cuts int, disk *powercut.Disk) {
		r := newReviewed(t, driver, newWorkspaceAt(t, disk.At, nil))
		for n := 0; n < cuts && !t.Failed(); n++ {
			r.cut(n, disk)
		}
		fmt.Printf("ledger: %s: %d cuts; acknowledged %v, in flight %v\n", t.Name(), cuts, r.done, r.flight)
	})
}

// cut starts a server, checks what the cut before left, works, and cuts the power.
func (r *reviewed) cut(n int, disk *powercut.Disk) {
	r.t.Helper()
	disk.Settle()
	p, err := start(r.dir, r.driver)
	if err != nil {
		r.t.Errorf("after %d cuts: %v", n, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), lifeTime)
	defer cancel()
	c, err := p.dial(ctx)
	must(r.t, err)
	defer func() { must(r.t, c.Close()) }()
	if n == 0 {
		r.diverge(ctx, c)
	}
	if _, err := c.Context(reviewedID).With(ctx).Stat("."); err != nil { // the settling looks into its folder
		r.t.Errorf("after %d cuts: %v", n, err)
	}
	err = errors.Join(r.keptContents(), r.kept(ctx, c), r.keptSubmission(ctx, c), r.keptStaged(ctx, c), r.settle(ctx, c))
	if err != nil {
		r.t.Errorf("after %d cuts: %v\nthe server's log: %s", n, err, p.tail())
	}
	disk.Settle() // the user's own commands in the repository flush nothing
	if r.t.Failed() {
		must(r.t, p.end(os.Kill))
		return
	}
	var off atomic.Bool
	cut := make(chan error, 1)
	cutNow := sync.OnceFunc(func() {
		off.Store(true)
		disk.Cut()
		cut <- p.end(os.Kill)
	})
	timer := time.AfterFunc(time.Duration(r.rng.Int64N(int64(1500*time.Millisecond))), cutNow)
	defer timer.Stop()
	err = r.workUntil(ctx, c, &off, cutNow)
	must(r.t, errors.Join(<-cut, err))
	disk.Resume()
}

// workUntil reviews until the power is off, and remembers the latest entry of the journal that was acknowledged. It cuts the power itself right after
// one in eight calls, before a later call flushes what that one should have.
func (r *reviewed) workUntil(ctx context.Context, c *client.Client, off *atomic.Bool, cut func()) error {
	for {
		all := []func(context.Context, *client.Client) (string, error){r.once, r.once, r.once, r.decide, r.submit, r.stage}
		name, err := all[r.rng.IntN(len(all))](ctx, c)
		switch {
		case err != nil && off.Load():
			r.flight[name]++
			return nil
		case refusedConflict(err): // as the Rebase was asked to
			continue
		case err != nil:
			return fmt.Errorf("%s: %w; the workspace has %v, the context %v", name, err, slices.Sorted(maps.Keys(r.tree(r.dir))), slices.Sorted(maps.Keys(r.tree(r.folder()))))
		}
		r.done[name]++
		if _, newest, err := r.live(ctx, c); err == nil {
			r.newest = newest
		}
		if r.rng.IntN(8) == 0 {
			cut()
			return nil
		}
	}
}

func refusedConflict(err error) bool {
	var refused *client.ReviewError
	return errors.As(err, &refused) && refused.Reason == client.ReasonConflict
}

// decidedFile is a change that the host decides on, and that nothing else concerns.
const decidedFile = "/lib/own"

// decide approves or rejects a change, with a remark.
func (r *reviewed) decide(ctx context.Context, c *client.Client) (name string, err error) {
	r.deciding = fmt.Sprintf("%016x", r.rng.Uint64())
	_, err = c.Review(reviewedID).Decide(ctx, &ctxfsv1.DecideRequest{
		Selection: client.SelectPaths(decidedFile), Decision: []ctxfsv1.Decision{ctxfsv1.Decision_DECISION_APPROVED, ctxfsv1.Decision_DECISION_REJECTED}[r.rng.IntN(2)],
		Comment: r.deciding,
	})
	if err == nil {
		r.decided = r.deciding
	}
	return "decide", err
}

// submit submits the review, with a title that no other submission has.
func (r *reviewed) submit(ctx context.Context, c *client.Client) (name string, err error) {
	r.submitting = fmt.Sprintf("%016x", r.rng.Uint64())
	if _, err = c.Review(reviewedID).Submit(ctx, r.submitting, ""); err == nil {
		r.submitted = r.submitting
	}
	return "submit", err
}

// maxStaged is how many staged commits there are at most. The server permits 100.
const maxStaged = 8

// stage stages a commit of a change that nothing else concerns. If there are many, it discards one.
func (r *reviewed) stage(ctx context.Context, c *client.Client) (name string, err error) {
	g := c.Git(reviewedID)
	if len(r.staged) >= maxStaged {
		for r.discarding = range r.staged {
			break
		}
		if err = g.Discard(ctx, r.discarding); err == nil {
			delete(r.staged, r.discarding)
		}
		return "discard staged", err
	}
	made, err := g.Stage(ctx, &ctxfsv1.StageRequest{Files: []string{decidedFile}, Branch: "staged", Message: fmt.Sprintf("%016x", r.rng.Uint64())})
	if err == nil {
		r.staged[made.GetId()] = made.GetCommit()
	}
	return "stage", err
}

// keptStaged checks that the staged commits that were acknowledged are there, and that each that is there is whole.
func (r *reviewed) keptStaged(ctx context.Context, c *client.Client) error {
	list, err := c.Git(reviewedID).Staged(ctx, false)
	errs, there := []error{err}, map[string]string{}
	for _, s := range list {
		whole, err := c.Git(reviewedID).Show(ctx, s.GetId())
		if files := whole.GetFiles(); err == nil && (len(files) != 1 || files[0].GetPath() != decidedFile || whole.GetDamaged() != "") {
			err = fmt.Errorf("staged commit %s is not whole: %v", s.GetId(), whole)
		}
		errs = append(errs, err)
		there[s.GetId()] = s.GetCommit()
	}
	for id, commit := range r.staged {
		if there[id] != commit && (id != r.discarding || there[id] != "") {
			errs = append(errs, fmt.Errorf("staged commit %s is lost: the commit is %q, not %q", id, there[id], commit))
		}
	}
	r.staged, r.discarding = there, "" // one that was in flight may be there
	return errors.Join(errs...)
}

// keptSubmission checks that the latest submission is there, and that the context can be compared with it.
func (r *reviewed) keptSubmission(ctx context.Context, c *client.Client) error {
	got, err := c.Review(reviewedID).Get(ctx)
	if err != nil {
		return err
	}
	if now := got.GetTitle(); now != r.submitted && now != r.submitting {
		return fmt.Errorf("a submission is lost: the title is %q, not %q", now, r.submitted)
	}
	if r.submitted = got.GetTitle(); r.submitted == "" {
		return nil
	}
	against := &ctxfsv1.Against{What: &ctxfsv1.Against_Revision{Revision: got.GetSubmittedRevision()}}
	_, _, err = c.Review(reviewedID).Patch(ctx, io.Discard, &ctxfsv1.GetDiffRequest{Against: against})
	if err != nil {
		return fmt.Errorf("the revision that was submitted: %w", err)
	}
	return nil
}

// kept checks that the journal and the review have what was acknowledged.
func (r *reviewed) kept(ctx context.Context, c *client.Client) error {
	_, newest, err := r.live(ctx, c)
	if err == nil && newest < r.newest {
		err = fmt.Errorf("entry %d of the journal was acknowledged; the latest is %d", r.newest, newest)
	}
	changes, _, lerr := c.Review(reviewedID).Changes(ctx, &ctxfsv1.ListChangesRequest{})
	err = errors.Join(err, lerr)
	for _, change := range changes {
		if now := change.GetComment(); change.GetPath() == decidedFile && now != r.decided && now != r.deciding {
			err = errors.Join(err, fmt.Errorf("a decision is lost: the remark is %q, not %q", now, r.decided))
		} else if change.GetPath() == decidedFile {
			r.decided = now
		}
	}
	return err
}

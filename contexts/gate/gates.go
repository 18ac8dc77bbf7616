package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/keyed"
	"github.com/ctxfs/ctxfs/metadata"
)

// drainTime is the default of Config.DrainTime.
const drainTime = 10 * time.Second

// Seedings knows which contexts this process is making.
type Seedings interface {
	// Busy fails with EAGAIN if this process is making the context.
	Busy(id catalog.ID) error
}

// Config of New. Catalog, Life, Seedings and LayerTree are required.
type Config struct {
	Catalog  *catalog.Catalog
	Life     *Life
	Seedings Seedings
	// LayerTree returns the path of a layer's tree.
	LayerTree func(digest string) string
	// Quota bounds each context.
	Quota Quota
	// OpenRoot opens a context's folder with Root; nil means rootfs.Open.
	OpenRoot func(dir string, opts rootfs.Options) (rootfs.Root, error)
	Root     rootfs.Options
	// Zones says where direct zones may be.
	Zones zones.Places
	// DrainTime bounds how long Take and Frozen wait for the operations inside a context; 0 means 10 s.
	DrainTime time.Duration
	// PauseTime bounds how long Frozen keeps users paused; 0 means 30 s.
	PauseTime time.Duration
	// CloseTime bounds how long Close waits for the operations inside contexts.
	CloseTime time.Duration
}

// Gates are the contexts that are open in this process.
type Gates struct {
	cfg    Config
	cat    *catalog.Catalog
	life   *Life
	Mounts *Mounts
	// Views are the snapshots that are open.
	Views Views
	// Looks are the calls that look at whole contexts.
	Looks Looks
	marks *marks

	table
	// opened has when Opened was called last, by context.
	opened sync.Map
	// opening has a lock per context, for what is not the hot path: finding, mounting and opening it. See Opening.
	opening keyed.Locks
	// batches has a lock per context for the batches of this process.
	batches keyed.Locks
	notes   notes
}

// New returns a table without gates.
func New(ctx context.Context, cfg Config) (*Gates, error) {
	if cfg.OpenRoot == nil {
		cfg.OpenRoot = rootfs.Open
	}
	if cfg.DrainTime == 0 {
		cfg.DrainTime = drainTime
	}
	if cfg.PauseTime == 0 {
		cfg.PauseTime = pauseTime
	}
	m, err := openMarks(ctx, cfg.Catalog)
	if err != nil {
		return nil, err
	}
	return &Gates{
		cfg: cfg, cat: cfg.Catalog, life: cfg.Life, Mounts: newMounts(cfg.Catalog, cfg.LayerTree), marks: m,
		table: table{floor: map[catalog.ID]uint64{}},
	}, nil
}

// Acquire opens the gate of a context that is ready. After the first time it costs a map look-up.
func (t *Gates) Acquire(ctx context.Context, id catalog.ID, use Use) (*Access, error) {
	g, closing, err := t.enter(ctx, id, use)
	if err != nil {
		return nil, err
	}
	a := NewAccess(g.root, g.generation, g.leaving[use])
	a.closing, a.account, a.gate, a.id, a.ctx = closing, g.account, g, id, ctx
	return a, nil
}

// enter admits the caller, which must leave; closing is as of Access.Closing.
func (t *Gates) enter(ctx context.Context, id catalog.ID, use Use) (g *gate, closing context.Context, err error) {
	for {
		g, err := t.gate(ctx, id, t.openGate)
		if err != nil {
			return nil, nil, err
		}
		now := t.cat.Now()
		if g.due(now) && !t.stillThere(id, g) {
			t.replaced(id, g)
			continue
		}
		if g.use(ctx) {
			t.noteUse(id, g, now)
		}
		closing, wait := g.enter(use)
		if closing != nil {
			return g, closing, nil
		}
		if err := g.await(ctx, id, wait); err != nil {
			return nil, nil, err
		}
	}
}

func (t *Gates) stillThere(id catalog.ID, g *gate) bool {
	st, err := os.Lstat(t.cat.Layout.Folder(id))
	return err == nil && os.SameFile(st, g.folder) && g.sameDirs()
}

// replaced retires a gate whose folder another program removed, replaced or unmounted. It asks the operations inside to end,
// and closes the handles when they have: a mount that is in use cannot be made again. The next access waits for that, at most
// DrainTime, and gets a new generation.
func (t *Gates) replaced(id catalog.ID, g *gate) {
	ctx, ended, err := t.life.Begin(context.Background(), id)
	if err != nil {
		return // the server is stopping
	}
	idle, ok := g.close()
	if !ok {
		ended()
		return
	}
	retire := func() {
		t.drop(id, g)
		g.retire()
	}
	select {
	case <-idle:
		t.evict(id, g)
		retire()
		ended()
		return
	default:
	}
	go func() {
		defer ended()
		if err := g.drain(ctx, id, Read, idle, t.cfg.DrainTime); err == nil {
			t.evict(id, g)
			retire()
			return
		}
		t.cat.Events.Taken(id)
		retire()
		select {
		case <-idle:
			g.closeRoot()
		case <-ctx.Done(): // the process ends with the operations that use the root
		}
	}()
}

// evict closes what is open of a context whose gate is closed and has no users.
func (t *Gates) evict(id catalog.ID, g *gate) {
	g.closeRoot()
	t.cat.Events.Taken(id)
}

// gate returns a context's gate. If there is none it calls begin with the context's record, and the context locked by Opening.
func (t *Gates) gate(ctx context.Context, id catalog.ID, begin func(context.Context, metadata.Context) (*gate, error)) (*gate, error) {
	if g := t.known(id); g != nil {
		return g, nil
	}
	ctx, ended, err := t.life.Begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer ended()
	if err := t.cfg.Seedings.Busy(id); err != nil {
		return nil, err
	}
	unlock, err := t.Opening(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if g := t.known(id); g != nil {
		return g, nil
	}
	rec, err := t.cat.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	return begin(ctx, rec)
}

// Opening takes the lock under which this process finds, mounts and opens a context. IDs that differ only by case share
// one. A caller that has the context alone needs no lock.
func (t *Gates) Opening(ctx context.Context, id catalog.ID) (unlock func(), err error) {
	if taken(ctx, id) != nil {
		return func() {}, nil
	}
	unlock, err = t.opening.Lock(ctx, strings.ToLower(string(id)))
	switch {
	case err == nil:
		return unlock, nil
	case t.life.Context.Err() != nil:
		return nil, catalog.Stopped(id)
	}
	return nil, catalog.Busy(id, "is being opened")
}

// Existing returns the record of a context that is ready. While the database does not answer, that of a context which is open is as of its
// opening. Errors as catalog.Catalog.Find.
func (t *Gates) Existing(ctx context.Context, id catalog.ID) (metadata.Context, error) {
	unlock, err := t.Opening(ctx, id)
	if err != nil {
		return metadata.Context{}, err
	}
	defer unlock()
	rec, err := t.cat.Find(ctx, id)
	if g := t.known(id); errors.Is(err, metadata.ErrUnavailable) && g != nil && !g.bare && t.stillThere(id, g) {
		return g.rec, nil
	}
	return rec, err
}

// openGate mounts the context, if its driver mounts, and opens its root.
func (t *Gates) openGate(ctx context.Context, rec metadata.Context) (*gate, error) {
	id := catalog.ID(rec.ID)
	if err := t.Mounts.show(ctx, rec); err != nil {
		return nil, err
	}
	folder, err := os.Lstat(t.cat.Layout.Folder(id))
	if err != nil {
		return nil, catalog.Missing(id)
	}
	root, dirs, err := t.openRoot(id)
	if err != nil {
		return nil, err
	}
	if err := t.marks.use(ctx, id, root); err != nil {
		_ = root.Close() // unused
		return nil, catalog.Busy(id, "is being opened")
	}
	if err := t.recoverBatch(ctx, id, root); err != nil {
		_ = root.Close() // unused
		return nil, err
	}
	g := newGate(root, rec.Generation, folder, t.cat.Now())
	g.dirs, g.rec = dirs, rec
	if d, dir, err := t.cat.Drivers.Held(rec); err == nil {
		g.account = accountOf(t.cfg.Quota, t.cat.Now, t.cat.Drivers, d, dir, t.cat.Layout.Folder(id))
	}
	if t.life.Stopped() {
		_ = root.Close() // unused
		return nil, catalog.Stopped(id)
	}
	t.put(id, g)
	return g, nil
}

// shutGate makes a bare gate for a context that is taken, which needs neither a root nor a mount.
func (t *Gates) shutGate(_ context.Context, rec metadata.Context) (*gate, error) {
	g := newGate(nil, rec.Generation, nil, t.cat.Now())
	g.bare = true
	g.close()
	if t.life.Stopped() {
		return nil, catalog.Stopped(catalog.ID(rec.ID))
	}
	t.put(catalog.ID(rec.ID), g)
	return g, nil
}

// Show makes a context visible to other programs too: the host may look into its folder before anybody reads a file through
// this server.
func (t *Gates) Show(ctx context.Context, rec metadata.Context) error {
	d, err := t.cat.Drivers.MounterOf(rec)
	if d == nil || err != nil {
		return err
	}
	a, err := t.Acquire(ctx, catalog.ID(rec.ID), Read)
	if err != nil {
		return err
	}
	a.Release()
	return nil
}

// Opened notes a use of a context that a caller is about to begin: it found the context, or made it.
func (t *Gates) Opened(id catalog.ID) { t.opened.Store(id, t.cat.Now()) }

// LastUse is when a context was last known to be used: in this process, or according to its record.
func (t *Gates) LastUse(rec metadata.Context) time.Time {
	last := rec.UsedAt
	if rec.CreatedAt.After(last) { // never used, or made anew under the record of an earlier one
		last = rec.CreatedAt
	}
	if at, ok := t.opened.Load(catalog.ID(rec.ID)); ok && at.(time.Time).After(last) { //nolint:forcetypeassert // nothing else is in it
		last = at.(time.Time) //nolint:forcetypeassert // as above
	}
	if g := t.known(catalog.ID(rec.ID)); g != nil {
		if at := g.lastUse(t.cat.Now()); at.After(last) {
			last = at
		}
	}
	return last
}

// InUse reports whether operations are inside a context.
func (t *Gates) InUse(id catalog.ID) bool {
	g := t.known(id)
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.users > 0
}

// Frozen calls f while no caller of this server changes the context, whose lock is held. It waits at most DrainTime for the
// writers that are inside, then pauses those that Yield, and fails with EBUSY if they do not stop. Later ones wait until f returns.
// The context of f ends after PauseTime if users are paused, since they continue then; its cause is an EBUSY.
func (t *Gates) Frozen(ctx context.Context, id catalog.ID, f func(ctx context.Context) error) error {
	g, _, err := t.enter(ctx, id, Read)
	if err != nil {
		return err
	}
	defer g.leaving[Read]()
	drained := g.freeze()
	defer g.thaw()
	if err := g.drain(ctx, id, Write, drained, t.cfg.DrainTime); err != nil {
		return err
	}
	ctx, resume, err := g.pause(ctx, id, t.cfg.DrainTime, t.cfg.PauseTime)
	if err != nil {
		return err
	}
	defer resume()
	t.cat.Events.Step("still")
	if err = f(ctx); err != nil && fserr.CodeOf(context.Cause(ctx)) == fserr.EBUSY {
		return context.Cause(ctx) // err follows from it
	}
	return err
}

// Taken is a context that one caller has alone. It must end with Retire or GiveBack.
type Taken struct {
	t  *Gates
	id catalog.ID
	g  *gate
}

// Take closes a context's gate and waits until the operations inside have ended. If they do not end within DrainTime it opens
// the gate again and fails with EBUSY. The context's lock is held.
func (t *Gates) Take(ctx context.Context, id catalog.ID) (*Taken, error) {
	for {
		g, err := t.gate(ctx, id, t.shutGate)
		if err != nil {
			return nil, err
		}
		if g.bare { // this call made it, since the context's lock is held
			return &Taken{t, id, g}, nil
		}
		idle, ok := g.close()
		if !ok { // its folder was replaced by hand meanwhile
			if err := g.await(ctx, id, g.blocked()); err != nil {
				return nil, err
			}
			continue
		}
		if err := g.drain(ctx, id, Read, idle, t.cfg.DrainTime); err != nil {
			g.reopen()
			return nil, err
		}
		return &Taken{t, id, g}, nil
	}
}

// Generation is the generation that the context had.
func (k *Taken) Generation() uint64 { return k.g.generation }

// aloneKey is the key of Taken.Alone.
type aloneKey struct{}

// Alone returns a context with which AccessAlone enters what its holder has alone.
func (k *Taken) Alone(ctx context.Context) context.Context {
	return context.WithValue(ctx, aloneKey{}, k)
}

// taken returns what the caller of ctx has alone, if that is the context id.
func taken(ctx context.Context, id catalog.ID) *Taken {
	if k, ok := ctx.Value(aloneKey{}).(*Taken); ok && k.id == id {
		return k
	}
	return nil
}

// Ask calls f, which looks at the context that its caller has alone, with the context of Alone. It fails with EBUSY if f
// takes longer than DrainTime: all callers wait until f returns.
func (k *Taken) Ask(ctx context.Context, f func(ctx context.Context) error) error {
	within, cancel := context.WithTimeout(k.Alone(ctx), k.t.cfg.DrainTime)
	defer cancel()
	err := f(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = inUse(k.id, "the look at its changes", k.t.cfg.DrainTime)
	}
	return err
}

// Within waits for the lock of a context, DrainTime at most, and ends those who look at the context meanwhile. lock takes
// it. Within fails with EBUSY if the lock is not free by then.
func (t *Gates) Within(ctx context.Context, id catalog.ID, lock func(ctx context.Context) (unlock func(), err error)) (unlock func(), err error) {
	defer t.Looks.Ask(id)()
	within, cancel := context.WithTimeout(ctx, t.cfg.DrainTime)
	defer cancel()
	if unlock, err = lock(within); err != nil && within.Err() != nil && ctx.Err() == nil {
		err = inUse(id, "a call that copies, replaces or deletes it", t.cfg.DrainTime)
	}
	return unlock, err
}

// AccessAlone returns an access to the context that the caller has alone by ctx (Taken.Alone), nil if the caller has
// another one or none. It fails with EAGAIN if the context was not open when it was taken.
func AccessAlone(ctx context.Context, id catalog.ID) (*Access, error) {
	k := taken(ctx, id)
	switch {
	case k == nil:
		return nil, nil
	case k.g.root == nil:
		return nil, catalog.Busy(id, "is being opened")
	}
	return NewAccess(k.g.root, k.g.generation, func() {}), nil
}

// Evict closes what is open of the context.
func (k *Taken) Evict() { k.t.evict(k.id, k.g) }

// Hide ends the mount of the context.
func (k *Taken) Hide(ctx context.Context, d driver.Mounter) error {
	k.Evict()
	return k.t.Mounts.Unmount(ctx, d, k.id)
}

// Retire ends the gate. The next access opens another, of the next generation.
func (k *Taken) Retire() {
	k.t.drop(k.id, k.g)
	k.g.retire()
	k.g.closeRoot()
}

// GiveBack opens the gate again. If its root was closed it is retired instead.
func (k *Taken) GiveBack() {
	if k.g.root == nil {
		k.Retire()
		return
	}
	k.g.reopen()
}

// Forget removes the mark of a context that is gone.
func (t *Gates) Forget(id catalog.ID) {
	t.opened.Delete(id)
	if err := t.marks.drop(id); err != nil {
		t.marks.notRemoved(id, err)
	}
}

// Close closes all gates at once, then each root whose operations end within CloseTime. It fails with EBUSY for the others,
// and leaves their roots to the operations. Then it removes the marks and unmounts what no other process uses.
func (t *Gates) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.CloseTime)
	defer cancel()
	idle := map[*gate]<-chan struct{}{}
	t.gates.Range(func(_, value any) bool {
		g := value.(*gate) //nolint:forcetypeassert // gates holds nothing else
		idle[g], _ = g.close()
		return true
	})
	var errs []error
	t.gates.Range(func(key, value any) bool {
		id, g := key.(catalog.ID), value.(*gate) //nolint:forcetypeassert // gates holds nothing else
		t.gates.CompareAndDelete(key, g)
		g.retire()
		select {
		case <-idle[g]:
			if err := g.root.Close(); err != nil {
				errs = append(errs, fmt.Errorf("close a context: %w", err))
			}
		case <-ctx.Done():
			errs = append(errs, inUse(id, g.inside(Read), t.cfg.CloseTime))
		}
		return true
	})
	t.Views.Close()
	t.marks.close()
	t.Mounts.close()
	return errors.Join(errs...)
}

// inUse (EBUSY): the operations inside a context did not end within a time.
func inUse(id catalog.ID, inside string, waited time.Duration) error {
	return &fserr.Error{
		Code: fserr.EBUSY, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' is in use: %s did not end within %s", id, inside, waited),
		Hint:   "retry later, or close the panels that use it",
	}
}

// table holds the gates by ID.
type table struct {
	// gates holds a *gate per ID.
	gates sync.Map
	mu    sync.Mutex
	// floor is the least generation that a context may have, so that none is given twice.
	floor map[catalog.ID]uint64
}

func (t *table) known(id catalog.ID) *gate {
	g, _ := t.gates.Load(id)
	known, _ := g.(*gate)
	return known
}

func (t *table) put(id catalog.ID, g *gate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.generation = max(g.generation, t.floor[id])
	t.gates.Store(id, g)
}

// drop forgets a gate, and ensures that its generation is not given again.
func (t *table) drop(id catalog.ID, g *gate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floor[id] = max(t.floor[id], g.generation+1)
	t.gates.CompareAndDelete(id, g)
}

// Floor returns the least generation that a new context may have.
func (t *table) Floor(id catalog.ID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.floor[id]
}

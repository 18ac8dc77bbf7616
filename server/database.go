package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/guard"
	"github.com/ctxfs/ctxfs/panels"
)

// identify asks a database whether it serves, and returns what changes when another takes its place.
type identify func(ctx context.Context) (identity string, err error)

// database is what a server knows of a database of another process: whether it answers, and whether it has lost commits.
type database struct {
	ask identify

	// guard is nil when the records are in this process, and at first.
	guard atomic.Pointer[guard.Store]
	// renew renews the lease; nil if there is none.
	renew func(ctx context.Context) error
	// said is the last error of a recovery that was logged.
	said string

	mu sync.Mutex
	// is the identity of the database whose records this server has; asked is the last answer.
	is, asked string
	// lost means that the database has lost commits that were not restored yet, losses how often it has. The file lost-commits says
	// so to the next start.
	lost   bool
	losses int
	layout contexts.Layout
}

// guardDatabase has a guard stand before a database of another process: what it keeps is then served in bounded time, or not at all.
func (s *Server) guardDatabase(ctx context.Context, r *records) error {
	if s.deps.Store != nil {
		r.Store, r.ask = s.deps.Store(r.Store)
	}
	d := &s.database
	d.observe(s.metrics)
	if r.ask == nil {
		return nil
	}
	d.ask = r.ask
	if err := d.check(ctx); err != nil {
		return coded(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.lease != nil {
		d.renew = r.lease.Renew
	}
	d.is = d.asked
	g := guard.New(guard.Config{
		Store: r.Store, Check: d.check, Name: "PostgreSQL", Calls: r.calls, Back: s.databaseBack, Changed: s.databaseChanged,
	})
	d.guard.Store(g)
	r.Store = g
	return nil
}

// observe registers the database's metrics. A database in this process is always up.
func (d *database) observe(m *metrics) {
	m.gauge("ctxfs_database_up", "Whether the database with the records answers: 1 or 0.", func() (float64, bool) {
		if d.away() != nil {
			return 0, true
		}
		return 1, true
	})
	m.counter("ctxfs_database_outages_total", "How often the database with the records stopped answering.", func() (float64, bool) {
		if g := d.guard.Load(); g != nil {
			return float64(g.Outages()), true
		}
		return 0, true
	})
}

// away returns why the database does not answer; nil if it does, or is in this process.
func (d *database) away() error {
	if g := d.guard.Load(); g != nil {
		return g.Away()
	}
	return nil
}

// check asks the database whether it serves. After an outage the lease is renewed first: another machine may have taken it meanwhile, and
// must not find its records changed.
func (d *database) check(ctx context.Context) error {
	if d.renew != nil && d.away() != nil {
		if err := d.renew(ctx); err != nil {
			return err
		}
	}
	now, err := d.ask(ctx)
	if err != nil {
		return err
	}
	d.answered(now)
	return nil
}

// answered notes which database answers. If another one has taken its place since, while it did not count as away, it is recovered.
func (d *database) answered(identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = identity
	if g := d.guard.Load(); g != nil && identity != d.is && g.Away() == nil {
		g.Recover(errLostCommits)
	}
}

// lostMarker is the file that says to the next start that the database has lost commits.
func lostMarker(l contexts.Layout) string { return filepath.Join(l.State, "lost-commits") }

// recoveredMarker is the file that says, by its time, when records were last rebuilt or restored.
func recoveredMarker(l contexts.Layout) string { return filepath.Join(l.State, "recovered") }

// markRecovered writes recoveredMarker.
func markRecovered(l contexts.Layout) error { return durable.WriteFile(recoveredMarker(l), nil, 0o600) }

// settleTime is how long timed collections wait after records were rebuilt or restored. Tokens may have been revoked, and the times of use and
// labels lost, for which a collection would have kept a context: hosts have a day to open their panels again.
const settleTime = 24 * time.Hour

// settling returns until when timed collections must wait, or false.
func (d *database) settling(now time.Time) (until time.Time, settling bool) {
	st, err := os.Lstat(recoveredMarker(d.layout))
	if err != nil {
		return time.Time{}, false
	}
	until = st.ModTime().Add(settleTime)
	return until, now.Before(until)
}

// markLost writes lostMarker.
func markLost(l contexts.Layout) error { return durable.WriteFile(lostMarker(l), nil, 0o600) }

// use names the layout, and reads the marker.
func (d *database) use(l contexts.Layout) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.layout = l
	_, err := os.Lstat(lostMarker(l))
	d.lost = err == nil
}

// lostCommits notes that the database has lost commits, for databaseBack or for the end of this start or the next.
func (d *database) lostCommits() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
	d.losses++
	err := markLost(d.layout)
	if g := d.guard.Load(); g != nil {
		g.Recover(errLostCommits)
	}
	return err
}

// suspicion is what is suspected of a database at a moment.
type suspicion struct {
	// lost means that it may have lost commits since its records were last known to be whole.
	lost     bool
	identity string
	losses   int
}

func (d *database) suspect() suspicion {
	d.mu.Lock()
	defer d.mu.Unlock()
	return suspicion{d.lost || d.asked != d.is, d.asked, d.losses}
}

// restored notes that a database has what this server knows. A loss after the suspicion stays.
func (d *database) restored(of suspicion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.is = of.identity; d.losses != of.losses {
		return
	}
	d.lost = false
	if of.lost && markRecovered(d.layout) != nil {
		return
	}
	_ = os.Remove(lostMarker(d.layout)) // one that stays has the next start restore once more
}

// unrestored notes that not all could be restored: the next start repairs it.
func (d *database) unrestored(of suspicion) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.is = of.identity
	if !of.lost {
		return nil
	}
	d.lost = true
	return markLost(d.layout)
}

// recheck has commits restored that were lost during the start.
func (d *database) recheck() {
	if g := d.guard.Load(); g != nil && d.suspect().lost {
		g.Recover(errLostCommits)
	}
}

// databaseEvents has the guard look at the database when its lease cannot be renewed, and repair what it has lost.
func (s *Server) databaseEvents() databaseEvents {
	events := databaseEvents{
		failed: func(err error) {
			if g := s.database.guard.Load(); err != nil && g != nil {
				g.Doubt()
			}
		},
		lostCommits: func(had, known int64) error {
			s.log.Warn("the database with the records has lost commits, as after a failover or a restored backup",
				zap.Int64("epoch", had), zap.Int64("known_epoch", known))
			return s.database.lostCommits()
		},
	}
	if s.deps.Store == nil { // else another identity is asked for
		events.renewed = s.database.answered
	}
	return events
}

var errLostCommits = errors.New("the database has lost commits, which are being restored")

// databaseChanged logs that the database went away, or is back.
func (s *Server) databaseChanged(reason error) {
	if reason != nil {
		s.log.Warn("the database with the records does not answer: open panels are served on, new ones wait for it", zap.Error(reason))
		return
	}
	s.log.Info("the database with the records answers again")
}

// databaseBack brings a database that was away in line with the folders and with what this server knows. Calls wait until what was
// revoked is so again. What else could not be restored is left to the next start.
func (s *Server) databaseBack(ctx context.Context) error {
	p, d := s.parts, &s.database
	if !s.serving.Load() {
		return nil // the start reads what there is
	}
	of := d.suspect()
	if of.lost {
		_ = markLost(d.layout) // without it, a next start knows only of a lost epoch
	}
	rebuilt, failed := p.contexts.Rebuild(ctx)
	if errors.Is(failed, metadata.ErrUnavailable) {
		return failed
	}
	of.lost = of.lost || rebuilt.Lost()
	restored, err := p.panels.Restore(ctx, of.lost || failed != nil)
	sites, failedSites := p.sites.Restore(ctx)
	if err := errors.Join(failed, err, failedSites); err != nil {
		return s.databaseBroken(of, err)
	}
	d.restored(of)
	d.said = ""
	if of.lost || restored != (panels.Restored{}) || sites > 0 {
		s.log.Warn("the database had lost commits: what this server knew of them was restored",
			zap.Int("contexts", len(rebuilt.Recorded)), zap.Int("deleted_contexts", len(rebuilt.Deleted)), zap.Int("panels", restored.Panels),
			zap.Int("tokens", restored.Tokens), zap.Int("revoked_tokens", restored.Revoked), zap.Int("sites", sites))
	}
	return nil
}

// databaseBroken returns an error if calls must wait until a recovery succeeds, and logs one that lasts.
func (s *Server) databaseBroken(of suspicion, err error) error {
	if errors.Is(err, metadata.ErrUnavailable) {
		return err
	}
	if s.database.said != err.Error() {
		s.database.said = err.Error()
		s.log.Error("the database answers again, but its records could not be brought in line with the folders: stop the server, and run 'ctxfs doctor --repair'", zap.Error(err))
	}
	if errors.Is(err, panels.ErrNotRevoked) {
		return err
	}
	return s.database.unrestored(of)
}

// settleDatabase repairs, at a start, the records of a database that has lost commits. This server knows no panels and no revocations
// then, so it ends all tokens and the sites of panels: what was revoked must not work again.
func (s *Server) settleDatabase(ctx context.Context) error {
	of := s.database.suspect()
	if !of.lost {
		return nil
	}
	report, err := s.parts.contexts.Repair(ctx)
	if err != nil {
		return err
	}
	ended, err := s.parts.panels.RevokeAll(ctx)
	if err != nil {
		return err
	}
	for _, site := range s.parts.sites.List() {
		s.parts.sites.PanelClosed(site.Panel) // its record went with the tokens
	}
	s.database.restored(of)
	s.log.Warn("the database had lost commits: its records were rebuilt from the folders, and all tokens were revoked; hosts must open their panels again",
		zap.Int("contexts", len(report.Recovered)), zap.Int("dropped_contexts", len(report.Dropped)), zap.Int("tokens", ended))
	return nil
}

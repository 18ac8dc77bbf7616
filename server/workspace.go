package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/feed"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/watch"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
	"github.com/ctxfs/ctxfs/panels"
	"github.com/ctxfs/ctxfs/repos"
	"github.com/ctxfs/ctxfs/review"
	"github.com/ctxfs/ctxfs/server/services"
	"github.com/ctxfs/ctxfs/sites"
)

// Record is server.json: how clients find a server by walking up from where they are.
type Record struct {
	PID       int    `json:"pid"`
	Version   string `json:"version"`
	Workspace string `json:"workspace"`
	// Socket is the unix socket's path.
	Socket string `json:"socket"`
	// Addresses are the gRPC addresses, "unix://…" first, then host:port.
	Addresses []string `json:"addresses"`
	// HTTP is host:port, "" when there is no such listener.
	HTTP string `json:"http,omitempty"`
	// Gateway is where sites are, as host:port; "" when there is no such listener.
	Gateway string `json:"gateway,omitempty"`
	// Sites are the URLs of sites, with * for the capability.
	Sites string `json:"sites,omitempty"`
	// TLS says that host:port addresses speak it.
	TLS bool `json:"tls,omitempty"`
	// TokenFile holds the host token, for TCP and for host-auth=token.
	TokenFile string `json:"token_file"`
	// AuditLog is the absolute path of the audit log, "" when there is none.
	AuditLog string    `json:"audit_log,omitempty"`
	Start    time.Time `json:"start"`
}

// claim is the lock on a workspace. It is the kernel's, and ends with the process, so that a killed server blocks no other.
type claim struct {
	layout contexts.Layout
	lock   *flock.Flock
	// record is the content of server.json; nil before it is written.
	record *Record
}

// serverLock is the name of the lock's file.
const serverLock = "server.lock"

// claimWait bounds how long a start waits for a server that is ending, or that has not written server.json yet.
const claimWait = 10 * time.Second

// claimPoll is how often it tries again.
const claimPoll = 10 * time.Millisecond

// takeClaim locks the workspace. It returns an *AlreadyServedError when another server has locked it.
func takeClaim(ctx context.Context, l contexts.Layout) (*claim, error) {
	lock := flock.New(filepath.Join(l.Locks, serverLock), flock.SetPermissions(0o600), flock.SetFlag(statedir.LockFlags))
	if err := lockOrRefuse(ctx, lock, l); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// A killed server's record would mislead clients.
	if err := os.Remove(l.ServerJSON); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, lock.Close())
	}
	return &claim{layout: l, lock: lock}, nil
}

// lockOrRefuse takes the lock, or returns an *AlreadyServedError: at once if server.json names a server that is alive. A killed server's
// lock stays until the kernel has closed its files, and until a process that it was just starting has closed them too.
func lockOrRefuse(ctx context.Context, lock *flock.Flock, l contexts.Layout) error {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	// A process counts as alive when it was found alive twice: between receiving a SIGKILL and ending it looks alive.
	for seen := 0; ; {
		ok, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock %s: %w", lock.Path(), err)
		}
		if ok {
			return nil
		}
		if r, err := readRecord(l.ServerJSON); err == nil && alive(r.PID) {
			seen++
		}
		timer := time.NewTimer(claimPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			seen = 2
		}
		timer.Stop()
		if seen == 2 {
			return servedBy(l)
		}
	}
}

func servedBy(l contexts.Layout) error {
	r, err := readRecord(l.ServerJSON)
	if err != nil || r.PID == 0 {
		return &AlreadyServedError{}
	}
	served := &AlreadyServedError{PID: r.PID, Since: r.Start, Address: "unix://" + r.Socket}
	if r.Workspace != l.Workspace {
		served.Workspace = r.Workspace
	}
	return served
}

func readRecord(path string) (Record, error) {
	data, err := statedir.ReadFile(path, statedir.MaxRecord)
	if err != nil {
		return Record{}, err
	}
	var r Record
	err = json.Unmarshal(data, &r)
	return r, err
}

// announce writes server.json, whole.
func (c *claim) announce(r Record) error {
	c.record = &r
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode server.json: %w", err)
	}
	return writeFileAtomic(c.layout.ServerJSON, append(data, '\n'), 0o600)
}

// restore writes server.json again if it is missing, and reports whether it did.
func (c *claim) restore() (restored bool, err error) {
	if _, err := os.Lstat(c.layout.ServerJSON); !errors.Is(err, fs.ErrNotExist) {
		return false, nil //nolint:nilerr // it is there, or cannot be looked at
	}
	err = c.announce(*c.record)
	return err == nil, err
}

// release removes server.json, which may be gone already, and then releases the lock. So it never removes the next server's file.
func (c *claim) release() error {
	var err error
	if c.record != nil {
		err = os.Remove(c.layout.ServerJSON)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.lock.Close())
}

// writeFileAtomic replaces path with a new file.
func writeFileAtomic(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

// parts has the domain's objects behind the services.
type parts struct {
	store    *records
	contexts *contexts.Manager
	reviews  *review.Reviews
	repos    *repos.Repos
	commands commands
	panels   *panels.Registry
	handles  *handles.Table
	leases   *panels.Leases
	sites    *sites.Registry
	audit    *auditLog
	feeds    *feed.Feeds
	// unwatch gives back what watches need; nil if it was not there.
	unwatch func()
}

// takeWorkspace makes the contexts directory and locks it. It refuses the state of a newer version before it changes anything.
func (s *Server) takeWorkspace(ctx context.Context) error {
	l, err := s.cfg.Layout()
	if _, foreign := errors.AsType[*statedir.ForeignError](err); foreign {
		return &stateError{fmt.Errorf("%w; serve as that user, or use --contexts-dir with a directory of your own", err), ExitNoWrite}
	}
	if err != nil {
		return err
	}
	var newer *contexts.FormatError
	if err := l.Make(s.deps.Version); errors.As(err, &newer) {
		return &stateError{err, ExitFormat}
	} else if code := fserr.CodeOf(err); code == fserr.EROFS || code == fserr.EACCES || code == fserr.EPERM {
		return &stateError{err, ExitNoWrite}
	} else if err != nil {
		return err
	}
	s.claim, err = takeClaim(ctx, l)
	return err
}

// openParts opens the store, sweeps what a crash left, and builds the parts.
func (s *Server) openParts(ctx context.Context) error {
	l := s.claim.layout
	p := &parts{}
	s.parts = p
	if l.MakeRoom() {
		s.warn("the disk is full: what is there is served; free some space, or delete contexts (ctxfs context delete, ctxfs gc)")
	}
	err := checkMoved(ctx, s.cfg, l)
	if err != nil {
		return err
	}
	s.database.use(l)
	if p.store, err = openRecords(ctx, s.cfg, l, s.databaseEvents()); err != nil {
		return err
	}
	if err := s.guardDatabase(ctx, p.store); err != nil {
		return err
	}
	s.info.Metadata = p.store.where
	if p.store.cramped {
		s.warn("the database was opened without room for its shared memory: start ctxfs again once there is space")
	}
	owner, err := commandOwner(s.cfg.ExecUser, l.Workspace)
	if err != nil {
		return err
	}
	all := newDrivers(l, owner, s.log)
	if err := all.copy.Check(ctx, l.Dir); err != nil && !isFull(err) {
		return fmt.Errorf("driver %s: %w", all.copy.Name(), err)
	}
	choice, err := ChooseDriver(ctx, s.cfg.Driver, l.Dir)
	if err != nil {
		return err
	}
	s.info.Driver = choice.String()
	drv, others := all.order(choice.Name)
	p.handles = handles.New(handles.Config{IdleTimeout: s.cfg.IdleTimeout, PerOwner: s.cfg.HandlesPerPanel, Total: s.cfg.HandlesTotal})
	if p.feeds, err = feed.Open(feed.Config{Dir: l.Feeds, MaxBytes: int64(s.cfg.FeedMaxBytes), Interrupted: fsservice.Interrupted, Log: s.log}); err != nil {
		return err
	}
	p.contexts, err = contexts.Open(ctx, contexts.Config{
		Workspace: l.Workspace, Dir: l.Dir, Driver: drv, Drivers: others, Seed: s.cfg.SeedOptions(), DiskReserve: int64(s.cfg.DiskReserve),
		Quota:     contexts.Quota{Bytes: int64(s.cfg.ContextMaxBytes), Entries: s.cfg.ContextMaxEntries},
		Templates: s.cfg.templateOptions(), Pool: s.cfg.Pool,
		Store: p.store.Store, Events: p.events(s.metrics, s.log), Now: s.deps.Now,
		Log: s.log, AllowChown: s.cfg.AllowChown, Owner: owner, Version: s.deps.Version, OpenRoot: s.deps.OpenRoot, ZoneDirs: s.cfg.ZoneDirs, TrustZoneFiles: s.cfg.TrustZoneFiles,
	})
	if err != nil {
		return err
	}
	if p.reviews, err = s.openReviews(ctx, l, p.contexts); err != nil {
		return fmt.Errorf("open the reviews: %w", err)
	}
	if p.repos, err = s.openRepos(ctx, l); err != nil {
		return fmt.Errorf("open the staged commits: %w", err)
	}
	if p.unwatch, err = watch.Keep(); err != nil { // before commands, which may have the same user, can take all
		s.log.Warn("watches fail until other programs of this user end", zap.Error(err))
	}
	if p.commands, err = s.openCommands(ctx, choice.Name, owner); err != nil {
		return fmt.Errorf("find the commands of an earlier server: %w", err)
	}
	if p.audit, err = s.openAudit(); err != nil {
		return err
	}
	if p.sites, err = sites.New(ctx, sites.Config{Store: p.store.Store, Ended: s.siteEnded, Renewed: s.siteRenewed, Failed: s.siteStays}); err != nil {
		return fmt.Errorf("open the sites: %w", err)
	}
	p.leases = panels.NewLeases(s.cfg.LeaseGrace, func(owner, instance string) { p.handles.CloseInstance(owner, instance) })
	p.panels = panels.New(panels.Config{
		Contexts: p.contexts, Templates: p.contexts.Templates(), Store: p.store.Store, DefaultTTL: s.cfg.TokenTTL, Closed: s.panelClosed,
	})
	return nil
}

// settle repairs the records and removes what a crash left. A context that it deletes ends sites and panels, so all parts are there.
func (s *Server) settle(ctx context.Context) error {
	if err := s.settleDatabase(ctx); err != nil {
		return err
	}
	if err := (&services.Forks{Contexts: s.parts.contexts}).Sweep(ctx); err != nil {
		s.log.Warn("forks of checks that a killed server left could not be deleted", zap.Error(err))
	}
	return nil
}

func (s *Server) openReviews(ctx context.Context, l contexts.Layout, all *contexts.Manager) (*review.Reviews, error) {
	return review.Open(ctx, review.Config{
		Contexts: reviewed{all}, Dir: l.Review, ContextsDir: below(l.Workspace, l.Dir), Workspace: l.Workspace, Owner: fileOwner(l.Workspace), Exclude: s.cfg.SeedOptions().Exclude, Log: s.log,
		Used: func() ([]string, error) { return repos.Contents(l.Git) },
	})
}

// openRepos opens the staged commits. The reviews are open.
func (s *Server) openRepos(ctx context.Context, l contexts.Layout) (*repos.Repos, error) {
	remotes, err := s.cfg.remotes()
	if err != nil {
		return nil, err
	}
	limits := s.cfg.SeedOptions()
	return repos.Open(ctx, repos.Config{
		Reviews: s.parts.reviews, Dir: l.Git, Workspace: l.Workspace, Log: s.log, Remotes: remotes, MaxFiles: limits.MaxFiles, MaxBytes: limits.MaxBytes,
		Git: git.Options{Scratch: l.Staging, Timeout: s.cfg.GitTimeout, FetchTimeout: s.cfg.GitFetchTimeout},
	})
}

// events closes handles and panels with their contexts. No context is deleted before all parts are open.
func (p *parts) events(m *metrics, log *zap.Logger) contexts.Events {
	return contexts.Events{
		Taken: func(id contexts.ID) { p.handles.CloseContext(id) },
		Deleted: func(id contexts.ID, panels []string) {
			p.sites.ContextDeleted(id)
			p.panels.ContextDeleted(panels)
			p.handles.CloseContext(id)
			p.commands.ContextDeleted(id)
			if err := p.feeds.Drop(string(id)); err != nil {
				log.Warn("the feed of a deleted context could not be removed", zap.String("context", string(id)), zap.Error(err))
			}
			if err := p.reviews.Deleted(string(id)); err != nil {
				log.Warn("the review of a deleted context could not be removed", zap.String("context", string(id)), zap.Error(err))
			}
		},
		SnapshotDeleted: func(id contexts.ID, name string) { p.sites.SnapshotDeleted(id, name) },
		Copied:          func(from, to, marks string) error { return p.reviews.Copied(from, to, marks) },
		Marks:           func(id contexts.ID) string { return p.reviews.Marks(string(id)) },
		Seeded:          func(driver string, took time.Duration, err error) { m.seeded(driver, took, err == nil) },
	}
}

// below returns dir relative to base, with slashes; "" if it lies elsewhere.
func below(base, dir string) review.Path {
	rel, err := filepath.Rel(base, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return ""
	}
	return review.Path(filepath.ToSlash(rel))
}

// reviewed is contexts as reviews see them.
type reviewed struct{ contexts *contexts.Manager }

func (r reviewed) Frozen(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error {
	return r.contexts.Frozen(ctx, contexts.ID(id), func(ctx context.Context, a *contexts.Access) error {
		err := r.seeded(a, id, func(root rootfs.Root) error { return f(ctx, root) })
		return errors.Join(err, ctx.Err()) // what was read after commands continued is not of one moment
	})
}

func (r reviewed) Replacing(ctx context.Context, id string, f func(root rootfs.Root, charge review.Charge) error) error {
	return r.contexts.Frozen(ctx, contexts.ID(id), func(_ context.Context, a *contexts.Access) error {
		return r.seeded(a, id, func(root rootfs.Root) error { return f(root, a.Charge) })
	})
}

func (r reviewed) Workspace(ctx context.Context, id string) (*seed.Scan, error) {
	return r.contexts.ScanWorkspace(ctx, contexts.ID(id))
}

func (r reviewed) Reading(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error {
	return r.contexts.Looking(ctx, contexts.ID(id), r.look(id, f))
}

func (r reviewed) Beside(ctx context.Context, id string, f func(ctx context.Context, root rootfs.Root) error) error {
	return r.contexts.Beside(ctx, contexts.ID(id), r.look(id, f))
}

// look returns f for a look at a context.
func (r reviewed) look(id string, f func(ctx context.Context, root rootfs.Root) error) func(ctx context.Context, a *contexts.Access) error {
	return func(ctx context.Context, a *contexts.Access) error {
		return r.seeded(a, id, func(root rootfs.Root) error { return f(ctx, root) })
	}
}

func (r reviewed) Changing(ctx context.Context, id string, f func(root rootfs.Root, charge review.Charge) error) error {
	a, err := r.contexts.Acquire(ctx, contexts.ID(id), contexts.Write)
	if err != nil {
		return err
	}
	defer a.Release()
	return r.seeded(a, id, func(root rootfs.Root) error { return f(root, a.Charge) })
}

// seeded calls f with the part of an open context that was seeded: a zone, whose paths are then those of the workspace, or all of it.
func (r reviewed) seeded(a *contexts.Access, id string, f func(root rootfs.Root) error) error {
	into, err := r.contexts.SeededInto(contexts.ID(id))
	if err != nil {
		return err
	}
	return inZone(a.Root, into, f)
}

// inZone calls f with the directory of a zone. It opens that by a descriptor: a command in the context may have put a link there.
func inZone(root rootfs.Root, into string, f func(root rootfs.Root) error) (err error) {
	if into == "" {
		return f(root)
	}
	zone, err := rootfs.Sub(root, into)
	if err != nil {
		return fserr.Wrap(err, "open", "/"+into, "")
	}
	defer func() { err = errors.Join(err, zone.Close()) }()
	return f(zone)
}

func (r reviewed) Origin(ctx context.Context, id string) (review.Origin, error) {
	o, err := r.contexts.Origin(ctx, contexts.ID(id))
	return originOf(o), err
}

func (r reviewed) Snapshots(ctx context.Context, id string) (out []review.Snapshot, err error) {
	all, err := r.contexts.Snapshots(ctx, contexts.ID(id))
	for _, s := range all {
		out = append(out, review.Snapshot{Name: s.Name, TakenAt: s.TakenAt})
	}
	return out, err
}

func (r reviewed) Snapshot(ctx context.Context, id, name string) (review.SnapshotView, error) {
	v, err := r.contexts.ViewSnapshot(ctx, contexts.ID(id), name)
	if into := v.Origin.Into; err == nil && into != "" {
		whole := v.Root
		v.Root, err = rootfs.Sub(whole, into)
		err = errors.Join(err, whole.Close())
	}
	return review.SnapshotView{Root: v.Root, Origin: originOf(v.Origin), Check: v.Check}, err
}

func originOf(o contexts.Origin) review.Origin {
	return review.Origin{Digest: o.Layer, Tree: o.Tree, Manifest: o.Manifest, Changed: o.Changed}
}

// isFull reports whether an error is of a full disk or of an exceeded disk quota.
func isFull(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOSPC || code == fserr.EDQUOT
}

// warn adds something that an operator should repair to the log and the banner.
func (s *Server) warn(text string) {
	s.log.Warn(text)
	s.info.Warnings = append(s.info.Warnings, text)
}

// close closes what was opened, each part before those that it uses.
func (p *parts) close() error {
	var errs []error
	if p.unwatch != nil {
		p.unwatch()
	}
	if p.leases != nil {
		p.leases.Close()
	}
	if p.handles != nil {
		errs = append(errs, p.handles.Close())
	}
	if p.commands != nil {
		errs = append(errs, p.commands.Close(false))
	}
	if p.contexts != nil {
		errs = append(errs, p.contexts.Close())
	}
	if p.feeds != nil {
		errs = append(errs, p.feeds.Close())
	}
	if p.reviews != nil {
		errs = append(errs, p.reviews.Close())
	}
	if p.store != nil {
		errs = append(errs, p.store.Close())
	}
	if p.audit != nil {
		errs = append(errs, p.audit.file.Close())
	}
	return errors.Join(errs...)
}

// Repaired is what Repair did.
type Repaired struct {
	contexts.RepairReport
	// Aside is where a corrupt database was moved to; "" when it was sound.
	Aside string
	// Revoked counts the tokens that were revoked because the database had lost commits, and revocations perhaps with them.
	Revoked int
}

// Repair rebuilds the records of a workspace from its folders. While a server serves the workspace it returns an *AlreadyServedError.
// It moves a corrupt database aside, and never removes it.
func Repair(ctx context.Context, cfg Config, deps Deps) (r Repaired, err error) {
	s := &Server{cfg: cfg, deps: deps}
	if err := s.takeWorkspace(ctx); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.claim.release()) }()
	l := s.claim.layout
	l.MakeRoom()
	s.database.use(l)
	events := databaseEvents{lostCommits: func(int64, int64) error { return s.database.lostCommits() }}
	store, err := openRecords(ctx, cfg, l, events)
	if errors.Is(err, sqlite.ErrCorrupt) {
		if r.Aside, err = moveAside(l.DB); err == nil {
			store, err = openRecords(ctx, cfg, l, events)
		}
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	owner, err := commandOwner(s.cfg.ExecUser, l.Workspace)
	if err != nil {
		return r, err
	}
	drv, others := newDrivers(l, owner, deps.Log).order(DriverCopy)
	m, err := contexts.Open(ctx, contexts.Config{
		Workspace: l.Workspace, Dir: l.Dir, Store: store.Store, Driver: drv, Drivers: others,
		Seed: cfg.SeedOptions(), Owner: owner, Version: deps.Version, Log: deps.Log,
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r.RepairReport, err = m.Repair(ctx)
	if of := s.database.suspect(); of.lost && err == nil {
		if r.Revoked, err = panels.New(panels.Config{Store: store}).RevokeAll(ctx); err == nil {
			s.database.restored(of)
		}
	}
	if len(r.Recovered) > 0 {
		err = errors.Join(err, markRecovered(l))
	}
	if err == nil && store.where == InFile {
		err = noteInFile(l)
	}
	return r, errors.Join(err, store.held())
}

// moveAside renames the database with its journal, so that a new one can take its place.
func moveAside(db string) (string, error) {
	aside := fmt.Sprintf("%s.corrupt-%s", db, time.Now().UTC().Format("20060102T150405.000"))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(db+suffix, aside+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("move the corrupt database aside: %w", err)
		}
	}
	return aside, nil
}

// Exit codes of a server that does not start, as of sysexits.h.
const (
	// ExitUsage is for a bad setting (EX_USAGE).
	ExitUsage = 64
	// ExitNoDatabase is for a database with the records that does not answer (EX_UNAVAILABLE).
	ExitNoDatabase = 69
	// ExitNoWrite is for a contexts directory that cannot be written: its disk is read-only, or another user owns it (EX_CANTCREAT).
	ExitNoWrite = 73
	// ExitBusy is for a workspace that is served already (EX_TEMPFAIL).
	ExitBusy = 75
	// ExitFormat is for a state that a newer version wrote (EX_CONFIG).
	ExitFormat = 78
)

// ConfigError is what is wrong with a setting, and where it was set.
type ConfigError struct {
	// Origin is as in Origins; "" when not known.
	Origin string
	// Key is "" when the file as a whole cannot be read.
	Key     string
	Problem string
}

func (e *ConfigError) Error() string {
	origin := e.Origin
	if origin == "" || origin == "default" {
		origin = "config"
	}
	if e.Key == "" {
		return fmt.Sprintf("%s: %s", origin, e.Problem)
	}
	return fmt.Sprintf("%s: %s: %s", origin, e.Key, e.Problem)
}

// ExitCode returns ExitUsage.
func (e *ConfigError) ExitCode() int { return ExitUsage }

// AlreadyServedError says that another server serves the workspace.
type AlreadyServedError struct {
	// PID and Since are zero, and Address is "", while the other server is starting.
	PID     int
	Since   time.Time
	Address string
	// Workspace is the other server's if it differs: the workspace was moved, or both share a contexts directory.
	Workspace string
}

func (e *AlreadyServedError) Error() string {
	if e.PID == 0 {
		return "already served by a process that is starting or stopping; try again in a moment"
	}
	layout := "15:04"
	if time.Since(e.Since) > 24*time.Hour {
		layout = "2006-01-02 15:04"
	}
	text := fmt.Sprintf("already served by pid %d since %s; ", e.PID, e.Since.Local().Format(layout))
	if e.Workspace != "" {
		return text + "it was started for " + e.Workspace + ": if that was moved here, stop it, and start again"
	}
	return text + "connect to " + e.Address
}

// ExitCode returns ExitBusy.
func (e *AlreadyServedError) ExitCode() int { return ExitBusy }

// stateError gives an error of the contexts directory an exit code.
type stateError struct {
	err  error
	code int
}

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// ExitCode returns one of the codes above.
func (e *stateError) ExitCode() int { return e.code }

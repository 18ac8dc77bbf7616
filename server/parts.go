package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
	"github.com/ctxfs/ctxfs/panels"
)

// parts are the domain's objects behind the services.
type parts struct {
	store    *sqlite.Store
	contexts *contexts.Manager
	panels   *panels.Registry
	handles  *handles.Table
	leases   *panels.Leases
	audit    *auditLog
}

// takeWorkspace makes the contexts directory and locks it. It refuses a newer state before it changes anything.
func (s *Server) takeWorkspace(ctx context.Context) error {
	l, err := contexts.NewLayout(s.cfg.Workspace, s.cfg.ContextsDir)
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

// openParts opens the store, sweeps what a crash left, and builds what stands on it.
func (s *Server) openParts(ctx context.Context) error {
	l := s.claim.layout
	p := &parts{}
	s.parts = p
	if l.MakeRoom() {
		s.warn("the disk is full: what is there is served; free some space, or delete contexts (ctxfs context delete, ctxfs gc)")
	}
	var err error
	if p.store, err = openStore(ctx, l); err != nil {
		return err
	}
	if p.store.Cramped() {
		s.warn("the database was opened without room for its shared memory: start ctxfs again once there is space")
	}
	owner := fileOwner(l.Workspace)
	all := newDrivers(owner, s.log)
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
	p.contexts, err = contexts.Open(ctx, contexts.Config{
		Workspace: l.Workspace, Dir: l.Dir, Driver: drv, Drivers: others, Seed: s.cfg.SeedOptions(), DiskReserve: int64(s.cfg.DiskReserve),
		Quota:     contexts.Quota{Bytes: int64(s.cfg.ContextMaxBytes), Entries: s.cfg.ContextMaxEntries},
		Templates: s.cfg.TemplateOptions(), Pool: s.cfg.Pool,
		Store: p.store, Events: p.events(s.metrics),
		Log: s.log, AllowChown: s.cfg.AllowChown, Owner: owner, Version: s.deps.Version, OpenRoot: s.deps.OpenRoot,
	})
	if err != nil {
		return err
	}
	if p.audit, err = s.openAudit(); err != nil {
		return err
	}
	p.leases = panels.NewLeases(s.cfg.LeaseGrace, func(owner, instance string) { p.handles.CloseInstance(owner, instance) })
	p.panels = panels.New(panels.Config{
		Contexts: p.contexts, Templates: p.contexts.Templates(), Store: p.store, DefaultTTL: s.cfg.TokenTTL, Closed: s.panelClosed,
	})
	return nil
}

// events closes handles and panels with their contexts. No context is deleted before all parts are open.
func (p *parts) events(m *metrics) contexts.Events {
	return contexts.Events{
		Taken: func(id contexts.ID) { p.handles.CloseContext(id) },
		Deleted: func(id contexts.ID, panels []string) {
			p.panels.ContextDeleted(panels)
			p.handles.CloseContext(id)
		},
		Seeded: func(driver string, took time.Duration, err error) { m.seeded(driver, took, err == nil) },
	}
}

// openStore opens the database. SQLite calls it an I/O error when there is no room, which the error says better.
func openStore(ctx context.Context, l contexts.Layout) (*sqlite.Store, error) {
	store, err := sqlite.Open(ctx, l.DB)
	if err != nil && contexts.IsFull(l.State) {
		return nil, fmt.Errorf("open the database %s: the disk is full: free 1 MiB and some inodes, and start again (%w)", l.DB, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return store, nil
}

// isFull reports that the disk has no room, or the server's user may have no more of it.
func isFull(err error) bool {
	code := fserr.CodeOf(err)
	return code == fserr.ENOSPC || code == fserr.EDQUOT
}

// warn puts something that an operator should mend into the log and the banner.
func (s *Server) warn(text string) {
	s.log.Warn(text)
	s.info.Warnings = append(s.info.Warnings, text)
}

// close closes what was opened, users before what they use.
func (p *parts) close() error {
	var errs []error
	if p.leases != nil {
		p.leases.Close()
	}
	if p.handles != nil {
		errs = append(errs, p.handles.Close())
	}
	if p.contexts != nil {
		errs = append(errs, p.contexts.Close())
	}
	if p.store != nil {
		errs = append(errs, p.store.Close())
	}
	if p.audit != nil {
		errs = append(errs, p.audit.file.Close())
	}
	return errors.Join(errs...)
}

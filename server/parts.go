package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/ctxfs/ctxfs/contexts"
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

// takeWorkspace makes the contexts directory and locks it. A newer state is
// refused before anything is changed.
func (s *Server) takeWorkspace(context.Context) error {
	l, err := contexts.NewLayout(s.cfg.Workspace, s.cfg.ContextsDir)
	if err != nil {
		return err
	}
	var newer *contexts.FormatError
	if err := l.Make(s.deps.Version); errors.As(err, &newer) {
		return &formatError{err}
	} else if err != nil {
		return err
	}
	s.claim, err = takeClaim(l)
	return err
}

// openParts opens the store, sweeps what a crash left, and builds what stands on it.
func (s *Server) openParts(ctx context.Context) error {
	l := s.claim.layout
	p := &parts{}
	s.parts = p
	var err error
	if p.store, err = sqlite.Open(ctx, l.DB); err != nil {
		return fmt.Errorf("open the database %s: %w", l.DB, err)
	}
	owner := fileOwner(l.Workspace)
	all := newDrivers(owner, s.log)
	if err := all.copy.Check(ctx, l.Dir); err != nil {
		return fmt.Errorf("driver %s: %w", all.copy.Name(), err)
	}
	choice, err := ChooseDriver(ctx, s.cfg.Driver, l.Dir)
	if err != nil {
		return err
	}
	s.info.Driver = choice.String()
	drv, others := all.order(choice.Name)
	p.contexts, err = contexts.Open(ctx, contexts.Config{
		Workspace: l.Workspace, Dir: l.Dir, Driver: drv, Drivers: others, Seed: s.cfg.SeedOptions(), DiskReserve: int64(s.cfg.DiskReserve),
		Quota:     contexts.Quota{Bytes: int64(s.cfg.ContextMaxBytes), Entries: s.cfg.ContextMaxEntries},
		Templates: s.cfg.TemplateOptions(), Pool: s.cfg.Pool,
		Store: &seedingObserver{Store: p.store, seeded: s.metrics.seeded},
		Log:   s.log, AllowChown: s.cfg.AllowChown, Owner: owner, Version: s.deps.Version, OpenRoot: s.deps.OpenRoot,
	})
	if err != nil {
		return err
	}
	p.handles = handles.New(handles.Config{IdleTimeout: s.cfg.IdleTimeout, PerOwner: s.cfg.HandlesPerPanel, Total: s.cfg.HandlesTotal})
	if p.audit, err = s.openAudit(); err != nil {
		return err
	}
	p.leases = panels.NewLeases(s.cfg.LeaseGrace, func(owner, instance string) { p.handles.CloseInstance(owner, instance) })
	p.panels = panels.New(panels.Config{Contexts: p.contexts, Templates: p.contexts, Store: p.store, DefaultTTL: s.cfg.TokenTTL})
	p.contexts.OnTake(func(id contexts.ID) { p.handles.CloseContext(id) })
	p.contexts.OnDelete(func(id contexts.ID, _ []string) { p.handles.CloseContext(id) })
	return nil
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

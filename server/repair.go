package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/metadata/sqlite"
)

// Repaired says what Repair did.
type Repaired struct {
	contexts.RepairReport
	// Aside is where a corrupt database was moved to; "" when it was sound.
	Aside string
}

// Repair rebuilds the records of a workspace from its folders while no server runs on it
// (else an *AlreadyServedError). A corrupt database is moved aside, and never removed.
func Repair(ctx context.Context, cfg Config, deps Deps) (r Repaired, err error) {
	s := &Server{cfg: cfg, deps: deps}
	if err := s.takeWorkspace(ctx); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.claim.release()) }()
	l := s.claim.layout
	l.MakeRoom()
	store, err := openStore(ctx, l)
	if errors.Is(err, sqlite.ErrCorrupt) {
		if r.Aside, err = moveAside(l.DB); err == nil {
			store, err = openStore(ctx, l)
		}
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	owner := fileOwner(l.Workspace)
	drv, others := newDrivers(owner, deps.Log).order(DriverCopy)
	m, err := contexts.Open(ctx, contexts.Config{
		Workspace: l.Workspace, Dir: l.Dir, Store: store, Driver: drv, Drivers: others,
		Seed: cfg.SeedOptions(), Owner: owner, Version: deps.Version, Log: deps.Log,
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r.RepairReport, err = m.Repair(ctx)
	return r, err
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

package contexts

import (
	"context"

	"github.com/ctxfs/ctxfs/fserr"
)

// Manager owns the contexts of one workspace. It implements Admin.
type Manager struct {
	cfg    Config
	layout Layout
}

var _ Admin = (*Manager)(nil)

// Open makes the contexts directory when it is missing, sweeps what a crash left,
// and returns the workspace's Manager.
func Open(_ context.Context, cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	l, err := NewLayout(cfg.Workspace, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := l.Make(cfg.Version); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, layout: l}, nil
}

// Close ends running seedings, waits for them, and closes every root.
func (m *Manager) Close() error { return nil }

// Layout returns the paths.
func (m *Manager) Layout() Layout { return m.layout }

// OnDelete registers f, called after a context was deleted with the panels that were bound to it.
func (m *Manager) OnDelete(_ func(id ID, panels []string)) {}

// Acquire implements Gate.
func (m *Manager) Acquire(context.Context, ID) (*Access, error) { return nil, fserr.ENOSYS }

// Ensure implements Gate.
func (m *Manager) Ensure(context.Context, ID, EnsureOptions, func(Progress)) (Ensured, error) {
	return Ensured{}, fserr.ENOSYS
}

// Get implements Admin.
func (m *Manager) Get(context.Context, ID) (Info, error) { return Info{}, fserr.ENOSYS }

// List implements Admin.
func (m *Manager) List(context.Context) ([]Info, error) { return nil, fserr.ENOSYS }

// Delete implements Admin.
func (m *Manager) Delete(context.Context, ID) (Deleted, error) { return Deleted{}, fserr.ENOSYS }

// PlanSeed implements Admin.
func (m *Manager) PlanSeed(context.Context, PlanOptions) (Plan, error) { return Plan{}, fserr.ENOSYS }

// Repair rebuilds the records from the folders.
func (m *Manager) Repair(context.Context) (RepairReport, error) { return RepairReport{}, fserr.ENOSYS }

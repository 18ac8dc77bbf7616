package contexts

import (
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/metadata"
)

// Config of Open. Workspace, Store and Driver are required.
type Config struct {
	// Workspace is the folder that contexts are seeded from.
	Workspace string
	// Dir is the contexts directory; "" means <workspace>/.contexts.
	Dir string
	// Store keeps the records; the Manager does not close it.
	Store metadata.Store
	// Driver makes new contexts from layers.
	Driver driver.Driver
	// Drivers are further ones, for contexts that they made before: a context keeps the driver
	// that its record names. One that can only be recognised (Check fails) belongs here too, so that
	// its contexts are not taken for something else.
	Drivers []driver.Driver
	// Seed says what is copied.
	Seed seed.Options
	// Templates says where templates find their repositories.
	Templates TemplateOptions
	// Quota bounds each context.
	Quota Quota
	// DiskReserve is how many bytes a seeding must leave free; 0 means none.
	DiskReserve int64
	// Pool is how many ready copies of the workspace are kept, for drivers whose contexts are plain folders; 0 means none.
	Pool int
	// PoolMaxBytes is how big a copy may be that is kept ready, unless copies share their extents; 0 means DefaultPoolMaxBytes.
	PoolMaxBytes int64
	// Log may be nil.
	Log *zap.Logger
	// AllowChown and Owner are passed to every context's root (rootfs.Options).
	AllowChown bool
	Owner      *rootfs.Owner
	// Version is written into FORMAT and named when the state is too new.
	Version string
	// OpenRoot opens a context's folder; nil means rootfs.Open. Tests of what panels can reach choose
	// the implementation by it.
	OpenRoot func(dir string, opts rootfs.Options) (rootfs.Root, error)

	// onPhase is told of each step of a seeding, so that tests can stop there.
	onPhase func(string)
	// now is the clock; nil means time.Now.
	now func() time.Time
	// drainTime and closeTime are 0 for the constants of those names.
	drainTime, closeTime time.Duration
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.onPhase == nil {
		c.onPhase = func(string) {}
	}
	if c.PoolMaxBytes == 0 {
		c.PoolMaxBytes = DefaultPoolMaxBytes
	}
	if c.OpenRoot == nil {
		c.OpenRoot = rootfs.Open
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.drainTime == 0 {
		c.drainTime = drainTime
	}
	if c.closeTime == 0 {
		c.closeTime = closeTime
	}
	c.Seed = c.Seed.WithDefaults()
	return c
}

// RepairReport says what Repair did, and what it could not know.
type RepairReport struct {
	// Recovered lists contexts whose record was rebuilt from the folder.
	Recovered []ID
	// Dropped lists records without a folder.
	Dropped []ID
	// Accepted names contexts and snapshots that are taken as they came back from a backup, without their extended attributes: directories
	// that were renamed lack what was not changed in them, and directories that replaced others show what those held.
	Accepted []string
	// Swept counts the entries of unfinished seedings that were removed.
	Swept int
	// Ignored lists names in the contexts directory that are no contexts.
	Ignored []string
	// Unknown tells, in sentences, what the folders could not say.
	Unknown []string
}

// Package metadata owns the records of panels, tokens, contexts and layers: what
// the folders cannot say about themselves. The folders are the truth; a lost
// database is rebuilt from them (contexts.Manager.Repair).
//
// Implementations are in sqlite and memory; both pass metadatatest. Every method is safe for concurrent use and is one
// transaction: it happened whole or not at all. Times are stored to the millisecond, UTC.
package metadata

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound says that no such record exists.
var ErrNotFound = errors.New("no such record")

// ErrConflict says that a record with this key, or one whose key differs only by case, exists already.
var ErrConflict = errors.New("record exists")

// Store is the whole database.
type Store interface {
	Contexts() Contexts
	Panels() Panels
	Tokens() Tokens
	Layers() Layers
	// Close releases the store; later calls fail.
	Close() error
}

// ContextState is where a context is in its life.
type ContextState string

// The states of a context. A context without a record is missing.
const (
	ContextSeeding ContextState = "seeding"
	ContextReady   ContextState = "ready"
	ContextFailed  ContextState = "failed"
)

// Context is the record of a context folder.
type Context struct {
	// ID is the folder's name, the key. Two IDs that differ only by case conflict.
	ID string
	// Explicit says that the ID was named by a caller, not derived from a panel's.
	Explicit bool
	// OwnerPanel is the panel whose ID the context ID was derived from; "" when explicit.
	OwnerPanel string
	State      ContextState
	// LastError tells why State is ContextFailed.
	LastError string
	// Driver made the context and must be used for it ever after: "copy", "overlay".
	Driver string
	// Layer is the digest of the layer it was made from: the base of later diffs. "" when it started empty.
	Layer        string
	Generation   uint64
	Files, Bytes int64
	CreatedAt    time.Time
	// SeededIn is how long the seeding took.
	SeededIn time.Duration
	// Recovered says that the record was rebuilt from the folder.
	Recovered bool
	// ForkedFrom is the context that it is a copy of, "" for others.
	ForkedFrom string
	// UsedAt is when it was last known to be used; only Contexts.Used sets it.
	UsedAt time.Time
}

// Contexts stores Context records.
type Contexts interface {
	// Create adds c; ErrConflict when its ID, compared without case, is there.
	Create(ctx context.Context, c Context) error
	// Get returns the record; ErrNotFound. The match is exact.
	Get(ctx context.Context, id string) (Context, error)
	// Update replaces the record of c.ID but for UsedAt; ErrNotFound.
	Update(ctx context.Context, c Context) error
	// Used sets UsedAt alone; ErrNotFound.
	Used(ctx context.Context, id string, at time.Time) error
	// Delete removes it and, in the same transaction, its panels and their tokens; ErrNotFound.
	Delete(ctx context.Context, id string) error
	// List returns all, by ID.
	List(ctx context.Context) ([]Context, error)
}

// Panel binds a panel ID to a context.
type Panel struct {
	// ID is the key. Two IDs that differ only by case conflict.
	ID        string
	ContextID string
	ReadOnly  bool
	OpenedAt  time.Time
	// ClosedAt is zero while the panel is open. A closed panel keeps its binding.
	ClosedAt time.Time
}

// Panels stores Panel records.
type Panels interface {
	// Bind adds p; ErrConflict when its ID, compared without case, is there.
	Bind(ctx context.Context, p Panel) error
	// Get returns the record; ErrNotFound. The match is exact.
	Get(ctx context.Context, id string) (Panel, error)
	// Update replaces the record of p.ID; ErrNotFound.
	Update(ctx context.Context, p Panel) error
	// List returns all, by ID.
	List(ctx context.Context) ([]Panel, error)
}

// Token is a bearer token's record; the token itself is never stored.
type Token struct {
	// Hash is the token's SHA-256, the key.
	Hash      [32]byte
	PanelID   string
	ContextID string
	ReadOnly  bool
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Tokens stores Token records.
type Tokens interface {
	// Add stores t and drops tokens that expired before now. ErrNotFound when t's panel
	// is not bound (it may just have been deleted), ErrConflict when the hash is there.
	Add(ctx context.Context, t Token, now time.Time) error
	// Get returns the record, expired or not; ErrNotFound.
	Get(ctx context.Context, hash [32]byte) (Token, error)
	// Delete removes one; nothing there is no error.
	Delete(ctx context.Context, hash [32]byte) error
	// DeletePanel removes all of a panel's and returns how many.
	DeletePanel(ctx context.Context, panelID string) (int, error)
	// List returns a panel's, oldest first.
	List(ctx context.Context, panelID string) ([]Token, error)
}

// Layer is the record of a layer directory.
type Layer struct {
	// Digest names the directory, the key.
	Digest string
	// Kind is "workspace", or "template": then Digest is the template's hash.
	Kind         string
	Files, Bytes int64
	CreatedAt    time.Time
}

// Layers stores Layer records. A layer is referenced by the Context records that name it.
type Layers interface {
	// Put adds or replaces l.
	Put(ctx context.Context, l Layer) error
	// Get returns the record; ErrNotFound.
	Get(ctx context.Context, digest string) (Layer, error)
	// Delete removes it; ErrConflict while a context refers to it; ErrNotFound.
	Delete(ctx context.Context, digest string) error
	// List returns all, newest first, with the number of contexts that refer to each.
	List(ctx context.Context) ([]LayerUse, error)
}

// LayerUse is a layer and how many contexts refer to it.
type LayerUse struct {
	Layer
	Contexts int
}

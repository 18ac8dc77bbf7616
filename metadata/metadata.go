// Package metadata owns the records of panels, tokens, contexts and layers: what
// the folders do not show. The folders are the truth; a lost database is rebuilt
// from them (contexts.Manager.Repair).
//
// Implementations are in sqlite, postgres and memory; all pass metadatatest. Every method is safe
// for concurrent use and is one transaction. Times are stored to the millisecond, UTC.
package metadata

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
)

// Fold returns the key of an ID, which is unique: two IDs with the same key differ at most
// by case and conflict. A file system that ignores case would keep their folders as one.
// Strings that strings.EqualFold calls equal have the same key.
func Fold(id string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return unicode.ToLower(least)
	}, id)
}

// ErrNotFound means that no such record exists.
var ErrNotFound = errors.New("no such record")

// ErrConflict means that a record with this key, or with one that folds to the same, exists.
var ErrConflict = errors.New("record exists")

// ErrUnavailable means that the database does not answer. The call may succeed later; whether a change was made is not known.
var ErrUnavailable = errors.New("the database is not available")

// Store is the whole database.
type Store interface {
	Contexts() Contexts
	Panels() Panels
	Tokens() Tokens
	Layers() Layers
	Sites() Sites
	// Close releases the store; later calls fail.
	Close() error
}

// ContextState is a context's state.
type ContextState string

// The states of a context. A context without a record is missing.
const (
	ContextSeeding ContextState = "seeding"
	ContextReady   ContextState = "ready"
	ContextFailed  ContextState = "failed"
)

// Context is the record of a context folder.
type Context struct {
	// ID is the folder's name, the key.
	ID string
	// Explicit means that a caller named the ID: it was not derived from a panel's.
	Explicit bool
	// OwnerPanel is the panel whose ID the context ID was derived from; "" when explicit.
	OwnerPanel string
	State      ContextState
	// LastError is why State is ContextFailed.
	LastError string
	// Driver made the context and remains its driver: "copy", "overlay".
	Driver string
	// Layer is the digest of the layer it was made from: the base of later diffs. "" if it started empty.
	Layer        string
	Generation   uint64
	Files, Bytes int64
	CreatedAt    time.Time
	// SeededIn is how long the seeding took.
	SeededIn time.Duration
	// Recovered means that the record was rebuilt from the folder.
	Recovered bool
	// ForkedFrom is the context that it is a copy of, "" for others.
	ForkedFrom string
	// UsedAt is when it was last known to be used. Create and Used set it.
	UsedAt time.Time
	// Labels are the host's words about it (package labels); nil for none. Create and SetLabels set them. The map is not to be modified.
	Labels map[string]string
}

// Contexts stores Context records.
type Contexts interface {
	// Create adds c. It fails with ErrConflict if an ID with the same Fold exists.
	Create(ctx context.Context, c Context) error
	// Get returns the record of exactly this ID, or ErrNotFound.
	Get(ctx context.Context, id string) (Context, error)
	// Folded returns the record whose ID has the same Fold as id, or ErrNotFound.
	Folded(ctx context.Context, id string) (Context, error)
	// Update replaces the record of c.ID, except UsedAt and Labels. It fails with ErrNotFound.
	Update(ctx context.Context, c Context) error
	// Used sets only UsedAt. It fails with ErrNotFound.
	Used(ctx context.Context, id string, at time.Time) error
	// SetLabels sets only Labels, to what change returns for those of now, and returns them. It fails with ErrNotFound, and with change's error.
	// change may be called more than once. It must not modify its argument, and must not use the store.
	SetLabels(ctx context.Context, id string, change LabelChange) (map[string]string, error)
	// Delete removes the record and, in the same transaction, its panels, their tokens, and its sites. It fails with ErrNotFound.
	Delete(ctx context.Context, id string) error
	// List returns all, by ID.
	List(ctx context.Context) ([]Context, error)
}

// LabelChange returns the labels that replace others.
type LabelChange func(labels map[string]string) (map[string]string, error)

// Rights is a set of a panel's rights beyond its own context: one bit for each, which package panels names.
type Rights uint32

// Panel binds a panel ID to a context.
type Panel struct {
	// ID is the key.
	ID        string
	ContextID string
	ReadOnly  bool
	Rights    Rights
	OpenedAt  time.Time
	// ClosedAt is zero while the panel is open. A closed panel keeps its binding.
	ClosedAt time.Time
	// Labels are as of Context. Bind and SetLabels set them.
	Labels map[string]string
}

// Panels stores Panel records.
type Panels interface {
	// Bind adds p. It fails with ErrConflict if an ID with the same Fold exists.
	Bind(ctx context.Context, p Panel) error
	// Get returns the record of exactly this ID, or ErrNotFound.
	Get(ctx context.Context, id string) (Panel, error)
	// Folded returns the record whose ID has the same Fold as id, or ErrNotFound.
	Folded(ctx context.Context, id string) (Panel, error)
	// OfContext returns the panels whose context's ID has the same Fold as contextID, by ID.
	OfContext(ctx context.Context, contextID string) ([]Panel, error)
	// Update replaces the record of p.ID, except Labels. It fails with ErrNotFound.
	Update(ctx context.Context, p Panel) error
	// SetLabels is as Contexts.SetLabels.
	SetLabels(ctx context.Context, id string, change LabelChange) (map[string]string, error)
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
	Rights    Rights
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Tokens stores Token records.
type Tokens interface {
	// Add stores t and drops tokens that expired before now. It fails with ErrNotFound if t's
	// panel is not bound (it may just have been deleted), and with ErrConflict if the hash exists.
	Add(ctx context.Context, t Token, now time.Time) error
	// Get returns the record, expired or not, or ErrNotFound.
	Get(ctx context.Context, hash [32]byte) (Token, error)
	// DeletePanel removes all of a panel's tokens and, in the same transaction, its sites. It returns how many tokens.
	DeletePanel(ctx context.Context, panelID string) (int, error)
	// List returns a panel's tokens, oldest first.
	List(ctx context.Context, panelID string) ([]Token, error)
	// Live returns how many tokens of each panel expire after now. A panel that has none is absent.
	Live(ctx context.Context, now time.Time) (map[string]int, error)
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

// Layers stores Layer records. The Context records that name a layer refer to it.
type Layers interface {
	// Put adds or replaces l.
	Put(ctx context.Context, l Layer) error
	// Get returns the record, or ErrNotFound.
	Get(ctx context.Context, digest string) (Layer, error)
	// Delete removes the record. It fails with ErrNotFound, and with ErrConflict while a context refers to the layer.
	Delete(ctx context.Context, digest string) error
}

// Site is the record of a site. Its capability is never stored.
type Site struct {
	// ID is the key.
	ID string
	// Hash is the capability's SHA-256.
	Hash      [32]byte
	ContextID string
	// PanelID is the panel with which the site ends; "" for none.
	PanelID string
	// Options is what its owner, package sites, keeps in it.
	Options             []byte
	OpenedAt, ExpiresAt time.Time
}

// Sites stores Site records.
type Sites interface {
	// Add stores s. It fails with ErrConflict if the ID or the hash exists.
	Add(ctx context.Context, s Site) error
	// Renew sets ExpiresAt. It fails with ErrNotFound.
	Renew(ctx context.Context, id string, expires time.Time) error
	// Delete removes a record. It fails with ErrNotFound.
	Delete(ctx context.Context, id string) error
	// List returns all, oldest first.
	List(ctx context.Context) ([]Site, error)
}

type laterKey struct{}

// Later returns a context for a change that need not survive a power failure by itself. It does once a change without the mark was made after
// it. A store may flush both at once.
func Later(ctx context.Context) context.Context { return context.WithValue(ctx, laterKey{}, true) }

// IsLater reports whether ctx is from Later.
func IsLater(ctx context.Context) bool { return ctx.Value(laterKey{}) != nil }

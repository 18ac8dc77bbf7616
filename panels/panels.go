// Package panels manages panel identities, their binding to a context,
// and their bearer tokens. It does not depend on gRPC: package server puts the Identity that it found
// into the context of a call.
package panels

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/metadata"
)

// Role is what an identity may do.
type Role uint8

// The roles. The zero Role may do nothing but ask for health.
const (
	RoleNone Role = iota
	// RolePanel may use FsService and GetInfo, in its own context.
	RolePanel
	// RoleHost is the trusted side.
	RoleHost
)

// Rights is a set of what a panel may do beyond its own context. The zero Rights has none.
type Rights = metadata.Rights

// The rights. The store keeps their bits.
const (
	// RightReview lets a panel review the contexts that hold none of its own work.
	RightReview Rights = 1 << iota
	// RightExec lets a panel run commands in its context.
	RightExec
	// RightGitPush lets a panel push commits that were staged in its context.
	RightGitPush
)

// Identity identifies the caller of a call.
type Identity struct {
	Role Role
	// Panel is the panel's ID: of a panel its own, of a host the one it acts for
	// (ctxfs-panel), or "".
	Panel string
	// Context is the panel's context; "" for a host that names no panel.
	Context contexts.ID
	// Snapshot names the snapshot of Context that the caller reads instead of the context, and SnapshotTaken is when it was taken, ns since
	// the epoch; "" for the context as it is.
	Snapshot      string
	SnapshotTaken int64
	// Console says that a host calls by a console: only the RPCs that the protos allow it, and nothing that runs or connects outside of a
	// sandbox.
	Console bool
	// ReadOnly refuses every mutation, whatever a handle permits.
	ReadOnly bool
	// Rights are those of the token. A host has none: it may do everything. One that acts for a panel has the panel's RightExec and RightGitPush.
	Rights Rights
	// Owner names the table of handles: the panel's ID, or "host/<connection>" for a host that names no panel.
	Owner string
	// Instance is the client instance of the session that the call came by; "" for any other call.
	Instance string
	// TokenHash identifies the token presented; zero for a host without one.
	TokenHash [32]byte
	// ExpiresAt is the token's; zero when there is none.
	ExpiresAt time.Time
}

type identityKey struct{}

// WithIdentity returns a context that carries id.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// IdentityFrom returns the call's identity; the zero Identity (RoleNone) when there is none.
func IdentityFrom(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// Service is the panel registry.
type Service interface {
	// Open binds a panel to its context, ensures the context, and issues a token.
	// Opening again is a reload: the same binding, a further token. A panel whose template means something else
	// than before gets the new context; its older tokens end, and the old context stays. They end too if the request takes a
	// right away. EINVAL for a bad
	// panel ID (the hint: name a context ID) and for a template that is wrong, with file and line; EEXIST when the derived context
	// belongs to another panel, or differs from another ID only by case.
	Open(ctx context.Context, req OpenRequest, progress func(contexts.Progress)) (Opened, error)
	// Bind is Open without a token, for a host that acts for a panel. It does not
	// wait for the seeding: the file service ensures. Of a new panel the template is resolved.
	Bind(ctx context.Context, panelID string) (Panel, error)
	// Authenticate returns the identity of a token. EACCES when it is unknown, expired or revoked; the hint says which.
	Authenticate(ctx context.Context, token string) (Identity, error)
	// Renew issues a further token for an open panel, which expires after ttl (0: the default).
	Renew(ctx context.Context, panelID string, ttl time.Duration) (Token, error)
	// Close revokes a panel's tokens and returns how many; its binding and folder stay. ENOENT for an unknown panel.
	Close(ctx context.Context, panelID string) (int, error)
	// SetLabels sets and removes labels of a panel, and returns all that it has then. ENOENT for an unknown panel; EINVAL, and nothing is
	// changed, if they are bad or too many.
	SetLabels(ctx context.Context, panelID string, put map[string]string, remove []string) (map[string]string, error)
	// List returns the panels, by ID.
	List(ctx context.Context) ([]Panel, error)
}

// OpenRequest of Open.
type OpenRequest struct {
	PanelID string
	// ContextID, when set, is used instead of the derived one, to share a folder.
	// It must equal the panel's binding when the panel was opened before (EEXIST).
	ContextID string
	// Template is the path of the template that the context is made from; "" means the one beside the panel's source, if there is one.
	Template string
	// Unsafe panels alone may use unsafe_noctx contexts, which start empty. They get one when ContextID is "".
	Unsafe bool
	// Spec says what a new context is made of; EEXIST if the context exists, and is made of something else.
	Spec     contexts.Spec
	ReadOnly bool
	// Rights replace those that the panel had.
	Rights Rights
	// Labels are those that the panel gets beside those that it has (package labels). Its context gets them too if it is the panel's own, or was
	// seeded for this request.
	Labels map[string]string
	// TTL of the token; 0 means the configured default (24 h).
	TTL time.Duration
}

// Opened is Open's result.
type Opened struct {
	Panel
	Token        Token
	Seeded       bool
	Took         time.Duration
	Files, Bytes int64
	// Zones is how the context's zones are kept; "" if it has none.
	Zones zones.Mode
	// TemplateUnasked says why the template's repositories could not be asked whether they have moved: the panel
	// then keeps the context that it has. "" when they were asked, or there is no template.
	TemplateUnasked string
}

// Token is a bearer token as handed to its panel. It is never stored.
type Token struct {
	Secret    string
	ExpiresAt time.Time
}

// Panel describes an open or closed panel.
type Panel struct {
	ID        string
	ContextID contexts.ID
	ReadOnly  bool
	// Rights are those of the next token.
	Rights   Rights
	Open     bool
	OpenedAt time.Time
	// Tokens counts those that have not expired.
	Tokens int
	// Labels are those that its host gave it. The map is not to be modified.
	Labels map[string]string
}

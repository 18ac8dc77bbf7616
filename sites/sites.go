// Package sites keeps the sites of a server: which capability shows which context, with which options, until when. It knows neither
// HTTP nor gRPC: package gateway serves the sites, and package server puts the Identity of a site's visitors into the context of a call.
//
// A capability is 26 characters of base32 in lower case, with 128 random bits or more, so that it fits into one DNS label. It is
// returned once, by Open. The records have its hash.
package sites

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/panels"
)

const (
	// DefaultTTL is the life of a site unless Open or Renew gets another.
	DefaultTTL = 24 * time.Hour
	// MaxPerContext bounds the open sites of one context.
	MaxPerContext = 256
	// capabilityLength is the length of a capability, in characters.
	capabilityLength = 26
)

// Site is an open site.
type Site struct {
	// ID names the site. It is made from Hash, and gives no access.
	ID string
	// Hash is the capability's SHA-256.
	Hash    [32]byte
	Context contexts.ID
	// Panel is the panel with which the site ends; "" for none.
	Panel               string
	Options             Options
	OpenedAt, ExpiresAt time.Time
}

// Visitor returns the identity of whoever has the site's capability: it reads the site's context, and counts for the limits of its panel.
func (s Site) Visitor() panels.Identity {
	return panels.Identity{
		Role: panels.RolePanel, Panel: s.Panel, Context: s.Context, Snapshot: s.Options.Snapshot, SnapshotTaken: s.Options.Taken, ReadOnly: true,
		Owner: s.ID, TokenHash: s.Hash, ExpiresAt: s.ExpiresAt,
	}
}

// Config of New. Store is required.
type Config struct {
	// Store keeps the records; the Registry does not close it.
	Store metadata.Store
	// Ended, if not nil, is called when a site was closed, and Renewed when it got another time to expire.
	Ended, Renewed func(Site)
	// Failed, if not nil, is called when the record of a site that was closed could not be removed: a restart may open the site again.
	Failed func(Site, error)
}

// Registry has the open sites. It is safe for concurrent use.
type Registry struct {
	cfg Config

	mu     sync.RWMutex
	byHash map[[32]byte]Site
}

// New returns a Registry with the sites of the store, without those that expired or whose panel was closed.
func New(ctx context.Context, cfg Config) (*Registry, error) {
	if cfg.Ended == nil {
		cfg.Ended = func(Site) {}
	}
	if cfg.Renewed == nil {
		cfg.Renewed = func(Site) {}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(Site, error) {}
	}
	r := &Registry{cfg: cfg, byHash: map[[32]byte]Site{}}
	list, err := cfg.Store.Sites().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, rec := range list {
		s, damaged := siteOf(rec)
		err := r.check(ctx, s)
		switch {
		case err != nil && fserr.CodeOf(err) != fserr.ECANCELED:
			return nil, fmt.Errorf("read site %s: %w", rec.ID, err)
		case err == nil && damaged == nil && s.ExpiresAt.After(time.Now()):
			r.byHash[s.Hash] = s
		default:
			_ = cfg.Store.Sites().Delete(ctx, rec.ID) // a record that stays, on a full disk, is ignored again
		}
	}
	return r, nil
}

func siteOf(rec metadata.Site) (Site, error) {
	s := Site{
		ID: rec.ID, Hash: rec.Hash, Context: contexts.ID(rec.ContextID), Panel: rec.PanelID, OpenedAt: rec.OpenedAt, ExpiresAt: rec.ExpiresAt,
	}
	return s, json.Unmarshal(rec.Options, &s.Options)
}

// Request of Open.
type Request struct {
	Context contexts.ID
	// Panel is the panel with which the site ends; "" for none.
	Panel string
	// Token is the hash of the panel's token that asks for the site; zero for a host.
	Token   [32]byte
	Options Options
	// TTL is the life of the site; 0 means DefaultTTL.
	TTL time.Duration
	// Until bounds the life of the site; zero means no bound.
	Until time.Time
}

// Open opens a site of a context that exists. It fails with EINVAL for bad options, with EMFILE if the context has MaxPerContext sites,
// and with ECANCELED if the panel, its token or the context ended meanwhile.
func (r *Registry) Open(ctx context.Context, req Request) (s Site, capability string, err error) {
	if err := req.Options.normalize(); err != nil {
		return Site{}, "", err
	}
	capability = strings.ToLower(rand.Text())
	now := time.Now()
	s = Site{
		Hash: hashOf(capability), Context: req.Context, Panel: req.Panel, Options: req.Options,
		OpenedAt: now.Truncate(time.Millisecond), ExpiresAt: expiry(now, req.TTL, req.Until),
	}
	s.ID = "site_" + hex.EncodeToString(s.Hash[:8])
	rec, err := recordOf(s)
	if err != nil {
		return Site{}, "", err
	}
	r.forgetExpired(ctx)
	if err := r.add(s); err != nil {
		return Site{}, "", err
	}
	err = r.cfg.Store.Sites().Add(ctx, rec)
	if err == nil {
		// A panel, token or context that ended before the site was in the table did not end it.
		if err = errors.Join(r.check(ctx, s), r.checkToken(ctx, req.Token)); err != nil {
			err = errors.Join(err, r.cfg.Store.Sites().Delete(context.WithoutCancel(ctx), s.ID))
		}
	}
	if err != nil {
		r.end(func(other Site) bool { return other.ID == s.ID })
		return Site{}, "", err
	}
	return s, capability, nil
}

func expiry(now time.Time, ttl time.Duration, until time.Time) time.Time {
	at := now.Add(cmp.Or(ttl, DefaultTTL))
	if !until.IsZero() && until.Before(at) {
		at = until
	}
	return at.Truncate(time.Millisecond)
}

// forgetExpired drops the sites that have expired: MaxPerContext does not count them, and short lives could be many.
func (r *Registry) forgetExpired(ctx context.Context) {
	now := time.Now()
	for _, s := range r.end(func(s Site) bool { return !s.ExpiresAt.After(now) }) {
		_ = r.cfg.Store.Sites().Delete(ctx, s.ID) // a record that stays is ignored at the next start
	}
}

// add puts a site into the table, unless its context has too many.
func (r *Registry) add(s Site) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, other := range r.byHash {
		if other.Context == s.Context && other.ExpiresAt.After(s.OpenedAt) {
			n++
		}
	}
	if n >= MaxPerContext {
		return &fserr.Error{
			Code: fserr.EMFILE, Detail: fmt.Sprintf("context '%s' has %d sites already", s.Context, n), Hint: "close some (CloseSite, ctxfs sites --close ID)",
		}
	}
	r.byHash[s.Hash] = s
	return nil
}

// check fails with ECANCELED if a site's context does not exist, or its panel is closed.
func (r *Registry) check(ctx context.Context, s Site) error {
	_, err := r.cfg.Store.Contexts().Get(ctx, string(s.Context))
	if err == nil && s.Panel != "" {
		var panel metadata.Panel
		if panel, err = r.cfg.Store.Panels().Get(ctx, s.Panel); err == nil && !panel.ClosedAt.IsZero() {
			err = metadata.ErrNotFound
		}
	}
	return orEnded(err)
}

// checkToken fails with ECANCELED if a token was revoked. The zero hash is no token's.
func (r *Registry) checkToken(ctx context.Context, hash [32]byte) error {
	if hash == ([32]byte{}) {
		return nil
	}
	_, err := r.cfg.Store.Tokens().Get(ctx, hash)
	return orEnded(err)
}

func orEnded(err error) error {
	if errors.Is(err, metadata.ErrNotFound) {
		return &fserr.Error{Code: fserr.ECANCELED, Detail: "the site's panel, its token or the context ended", Hint: "open the panel again", Err: err}
	}
	return err
}

// Find returns the open site of a capability.
func (r *Registry) Find(capability string) (Site, bool) { return r.Live(hashOf(capability)) }

// Live returns the open site of a capability's hash.
func (r *Registry) Live(hash [32]byte) (Site, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.byHash[hash]
	return s, ok && s.ExpiresAt.After(time.Now())
}

func hashOf(capability string) [32]byte { return sha256.Sum256([]byte(capability)) }

// IsCapability reports whether text has the form of a capability.
func IsCapability(text string) bool {
	return len(text) == capabilityLength && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// List returns the open sites, oldest first.
func (r *Registry) List() []Site {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []Site
	for _, s := range r.byHash {
		if s.ExpiresAt.After(time.Now()) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Site) int { return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Get returns an open site by its ID, if it is panel's; "" means any panel's. It fails with ENOENT.
func (r *Registry) Get(id, panel string) (Site, error) {
	for _, s := range r.List() {
		if s.ID == id && (panel == "" || s.Panel == panel) {
			return s, nil
		}
	}
	return Site{}, &fserr.Error{Code: fserr.ENOENT, Detail: fmt.Sprintf("no open site %.40q", id), Hint: "ListSites or 'ctxfs sites' lists them"}
}

// Renew sets when an open site expires, as Open does. What visitors have under way follows (Config.Renewed).
func (r *Registry) Renew(ctx context.Context, s Site, ttl time.Duration, until time.Time) (Site, error) {
	expires := expiry(time.Now(), ttl, until)
	if err := r.cfg.Store.Sites().Renew(ctx, s.ID, expires); err != nil {
		return Site{}, err
	}
	now, ok := r.setExpiry(s.Hash, expires)
	if !ok {
		return Site{}, &fserr.Error{Code: fserr.ENOENT, Detail: "the site was closed meanwhile"}
	}
	r.cfg.Renewed(now)
	return now, nil
}

func (r *Registry) setExpiry(hash [32]byte, at time.Time) (Site, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.byHash[hash]
	if ok {
		s.ExpiresAt = at
		r.byHash[hash] = s
	}
	return s, ok
}

// Close closes a site. It is closed until the server restarts even if the record cannot be removed, which is an error.
func (r *Registry) Close(ctx context.Context, s Site) error {
	r.end(func(other Site) bool { return other.ID == s.ID })
	err := r.cfg.Store.Sites().Delete(ctx, s.ID)
	if errors.Is(err, metadata.ErrNotFound) {
		return nil // another call closed it as well
	}
	return err
}

// PanelClosed ends the sites of a panel that was closed, or whose tokens were revoked. Their records went with the tokens, but for those of
// sites that were opened meanwhile.
func (r *Registry) PanelClosed(panel string) {
	r.forget(func(s Site) bool { return s.Panel == panel && panel != "" })
}

// SnapshotDeleted ends the sites of a snapshot. Records that cannot be removed lead to no other snapshot: Options.Taken is not its time.
func (r *Registry) SnapshotDeleted(id contexts.ID, name string) {
	r.forget(func(s Site) bool { return s.Context == id && s.Options.Snapshot == name && name != "" })
}

// forget ends sites, and removes their records.
func (r *Registry) forget(which func(Site) bool) {
	for _, s := range r.end(which) {
		if err := r.cfg.Store.Sites().Delete(context.Background(), s.ID); err != nil && !errors.Is(err, metadata.ErrNotFound) {
			r.cfg.Failed(s, err)
		}
	}
}

// ContextDeleted ends the sites of a context, whose records went with the context's.
func (r *Registry) ContextDeleted(id contexts.ID) {
	r.end(func(s Site) bool { return s.Context == id })
}

// end removes sites from the table, and returns them.
func (r *Registry) end(which func(Site) bool) (ended []Site) {
	r.mu.Lock()
	for hash, s := range r.byHash {
		if which(s) {
			delete(r.byHash, hash)
			ended = append(ended, s)
		}
	}
	r.mu.Unlock()
	for _, s := range ended {
		r.cfg.Ended(s)
	}
	return ended
}

// Restore gives a database that may have lost its last commits the open sites, and removes those that were closed. It returns how many
// records it changed.
func (r *Registry) Restore(ctx context.Context) (changed int, err error) {
	list, err := r.cfg.Store.Sites().List(ctx)
	if err != nil {
		return 0, err
	}
	stored := map[[32]byte]bool{}
	for _, rec := range list {
		if _, open := r.Live(rec.Hash); open {
			stored[rec.Hash] = true
			continue
		}
		if err := r.cfg.Store.Sites().Delete(ctx, rec.ID); err != nil && !errors.Is(err, metadata.ErrNotFound) {
			return changed, err
		}
		changed++
	}
	for _, s := range r.List() {
		if stored[s.Hash] {
			continue
		}
		rec, err := recordOf(s)
		if err == nil {
			err = r.cfg.Store.Sites().Add(ctx, rec)
		}
		if err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}

func recordOf(s Site) (metadata.Site, error) {
	options, err := json.Marshal(s.Options)
	return metadata.Site{
		ID: s.ID, Hash: s.Hash, ContextID: string(s.Context), PanelID: s.Panel, Options: options, OpenedAt: s.OpenedAt, ExpiresAt: s.ExpiresAt,
	}, err
}

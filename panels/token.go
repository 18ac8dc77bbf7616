package panels

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/recent"
	"github.com/ctxfs/ctxfs/metadata"
)

// tokenBytes is a token's length before encoding: 256 random bits.
const tokenBytes = 32

var zeroTime time.Time

// issue makes a token for an open panel. Only its SHA-256 is stored.
func (r *Registry) issue(ctx context.Context, rec metadata.Panel, readOnly bool, ttl time.Duration) (Token, error) {
	if ttl == 0 {
		ttl = r.cfg.DefaultTTL
	}
	var raw [tokenBytes]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return Token{}, fmt.Errorf("make a token for panel %q: %w", rec.ID, err)
	}
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
	now := r.cfg.Now()
	t := metadata.Token{
		Hash: sha256.Sum256([]byte(secret)), PanelID: rec.ID, ContextID: rec.ContextID,
		ReadOnly: readOnly, Rights: rec.Rights, IssuedAt: now, ExpiresAt: now.Add(ttl).Truncate(time.Millisecond),
	}
	unlock, err := r.lockPanel(ctx, rec.ID)
	if err != nil {
		return Token{}, err
	}
	defer unlock()
	_, epoch, _ := r.cache.get(t.Hash)
	// Seeding may have taken minutes: a panel closed, or deleted with its context, meanwhile must not get a token.
	cur, err := r.get(ctx, rec.ID)
	if err != nil {
		return Token{}, err
	}
	if !cur.ClosedAt.IsZero() || cur.ContextID != rec.ContextID {
		return Token{}, &fserr.Error{Code: fserr.ECANCELED, Detail: fmt.Sprintf("panel %q was closed meanwhile", rec.ID), Hint: "call OpenPanel again"}
	}
	t.Rights &= cur.Rights // another OpenPanel may have taken some away meanwhile
	if err := r.cfg.Store.Tokens().Add(ctx, t, now); err != nil {
		return Token{}, fmt.Errorf("store a token of panel %q: %w", rec.ID, err)
	}
	r.cache.put(t, epoch) // its first use does not wait for the database
	return Token{Secret: secret, ExpiresAt: t.ExpiresAt}, nil
}

// Authenticate implements Service.
func (r *Registry) Authenticate(ctx context.Context, token string) (Identity, error) {
	hash := sha256.Sum256([]byte(token))
	t, epoch, ok := r.cache.get(hash)
	if !ok {
		var err error
		if t, err = r.cfg.Store.Tokens().Get(ctx, hash); err != nil {
			return Identity{}, refusal(err)
		}
		r.cache.put(t, epoch)
	}
	if !t.ExpiresAt.After(r.cfg.Now()) {
		return Identity{}, refused("the token expired at "+t.ExpiresAt.UTC().Format(time.RFC3339), "renew it with RenewToken before it expires, or call OpenPanel")
	}
	return identityOf(t), nil
}

func refusal(err error) error {
	if errors.Is(err, metadata.ErrNotFound) {
		return refused("the token is unknown", "it was revoked, or it was not issued by this server; call OpenPanel")
	}
	return fmt.Errorf("look up a token: %w", err)
}

func refused(detail, hint string) error {
	return &fserr.Error{Code: fserr.EACCES, Detail: detail, Hint: hint}
}

func identityOf(t metadata.Token) Identity {
	return Identity{
		Role: RolePanel, Panel: t.PanelID, Context: contexts.ID(t.ContextID), ReadOnly: t.ReadOnly, Rights: t.Rights,
		Owner: t.PanelID, TokenHash: t.Hash, ExpiresAt: t.ExpiresAt,
	}
}

// maxCached is how many of the tokens, and of the panels, that were used last stay in memory.
const maxCached = 16384

// tokenCache spares the store a look-up per call, and answers while the database is away. Only tokens that exist are in
// it, so guessing fills nothing. epoch rises with every revocation: a token read before
// one is not put in after it.
type tokenCache struct {
	mu     sync.RWMutex
	epoch  uint64
	tokens recent.Map[[32]byte, metadata.Token]
}

func (c *tokenCache) get(hash [32]byte) (metadata.Token, uint64, bool) {
	c.mu.RLock()
	t, aged, ok := c.tokens.Get(hash)
	epoch := c.epoch
	c.mu.RUnlock()
	if aged {
		c.put(t, epoch)
	}
	return t, epoch, ok
}

func (c *tokenCache) put(t metadata.Token, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == c.epoch {
		c.tokens.Put(t.Hash, t)
	}
}

func (c *tokenCache) dropPanel(panelID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.tokens.Delete(func(_ [32]byte, t metadata.Token) bool { return t.PanelID == panelID })
}

// live returns the tokens that have not expired, by panel.
func (c *tokenCache) live(now time.Time) map[string][]metadata.Token {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := map[string][]metadata.Token{}
	for _, t := range c.tokens.All() {
		if t.ExpiresAt.After(now) {
			out[t.PanelID] = append(out[t.PanelID], t)
		}
	}
	return out
}

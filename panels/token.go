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
	r.binding.Lock()
	defer r.binding.Unlock()
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

// maxCached bounds the cache; beyond it, it starts over.
const maxCached = 4096

// tokenCache spares the store a look-up per call. Only tokens that exist are in
// it, so guessing fills nothing. epoch rises with every revocation: a token read before
// one is not put in after it.
type tokenCache struct {
	mu     sync.RWMutex
	epoch  uint64
	tokens map[[32]byte]metadata.Token
}

func (c *tokenCache) get(hash [32]byte) (metadata.Token, uint64, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, ok := c.tokens[hash]
	return t, c.epoch, ok
}

func (c *tokenCache) put(t metadata.Token, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return
	}
	if c.tokens == nil || len(c.tokens) >= maxCached {
		c.tokens = make(map[[32]byte]metadata.Token)
	}
	c.tokens[t.Hash] = t
}

func (c *tokenCache) dropPanel(panelID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	for h, t := range c.tokens {
		if t.PanelID == panelID {
			delete(c.tokens, h)
		}
	}
}

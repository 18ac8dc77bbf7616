package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// TokenPrefix begins the token of a console, for people and for secret scanners.
const TokenPrefix = "ctxfs_console_"

const (
	// CodeLife is how long a code can be used, at most.
	CodeLife = 2 * time.Minute
	// IdleLife is how long a console lives without a call or an open stream.
	IdleLife = 30 * time.Minute
	// Life is how long a console lives.
	Life = 12 * time.Hour
	// maxCodes and maxConsoles bound the codes that wait and the consoles. One more replaces the oldest code, or the console whose
	// last use was longest ago.
	maxCodes, maxConsoles = 64, 64
	// secretBytes is the length of a code, and of a token, before encoding: 256 random bits.
	secretBytes = 32
)

// Hash identifies a code or a token. The Registry keeps no secret.
type Hash = [sha256.Size]byte

// Console is a page that exchanged a code.
type Console struct {
	// Hash is the hash of the token.
	Hash Hash
	// ExpiresAt is when it ends, however much it is used.
	ExpiresAt time.Time
}

// Config of NewRegistry.
type Config struct {
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Busy reports whether a console has a stream open. Such a console is not idle; nil means that none has.
	Busy func(Hash) bool
	// Ended is called after a console has ended for another reason than its time, outside of all locks; it may be nil.
	Ended func(Console)
}

// Registry has the codes and the consoles of a server, in memory: all end with the server. Its methods may be called concurrently.
type Registry struct {
	cfg Config

	mu       sync.Mutex
	codes    map[Hash]*code
	consoles map[Hash]*console
}

// code is a code that was not used yet.
type code struct{ expires time.Time }

// console is a Console, the code that it was opened with, and when it was last used.
type console struct {
	Console
	code Hash
	used time.Time
}

// NewRegistry returns an empty Registry.
func NewRegistry(cfg Config) *Registry {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Busy == nil {
		cfg.Busy = func(Hash) bool { return false }
	}
	if cfg.Ended == nil {
		cfg.Ended = func(Console) {}
	}
	return &Registry{cfg: cfg, codes: map[Hash]*code{}, consoles: map[Hash]*console{}}
}

// Open returns a code that can be exchanged once within ttl; 0 means CodeLife. It fails with EINVAL for a ttl that is negative or longer
// than CodeLife.
func (r *Registry) Open(ttl time.Duration) (secret string, expires time.Time, err error) {
	if ttl < 0 || ttl > CodeLife {
		return "", time.Time{}, &fserr.Error{Code: fserr.EINVAL, Detail: "bad ttl_ms", Hint: "a code lives for 2 minutes at most; 0 means that"}
	}
	if ttl == 0 {
		ttl = CodeLife
	}
	secret = newSecret()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	for hash, c := range r.codes {
		if !c.expires.After(now) {
			delete(r.codes, hash)
		}
	}
	if len(r.codes) >= maxCodes {
		delete(r.codes, oldest(r.codes, func(c *code) time.Time { return c.expires }))
	}
	expires = now.Add(ttl)
	r.codes[sha256.Sum256([]byte(secret))] = &code{expires}
	return secret, expires, nil
}

// newSecret returns 256 random bits as text.
func newSecret() string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // it never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// oldest returns the key of the entry whose time is first.
func oldest[T any](m map[Hash]T, at func(T) time.Time) (first Hash) {
	found := false
	for hash, v := range m {
		if !found || at(v).Before(at(m[first])) {
			first, found = hash, true
		}
	}
	return first
}

// The errors of Exchange. The reason of both is EACCES.
var (
	// ErrUsed refuses a code that was used before, whose console is alive until then.
	ErrUsed = &fserr.Error{
		Code: fserr.EACCES, Detail: "this link was used before, so the console that it opened was ended", Hint: "run 'ctxfs console' again; if you did not use the link, somebody else did",
	}
	// ErrUnknownCode refuses a code that expired, that was ended, or that this server has not made.
	ErrUnknownCode = &fserr.Error{Code: fserr.EACCES, Detail: "this link has expired, or it is not from this server", Hint: "run 'ctxfs console' again"}
	// errEnded refuses a token.
	errEnded = &fserr.Error{Code: fserr.EACCES, Detail: "this console has ended", Hint: "run 'ctxfs console' again"}
)

// Exchange returns a new console and its token for a code. It fails with ErrUsed for a code whose console is alive, and ends that console:
// one of the two that used the code may have stolen it. For other codes that cannot be used it fails with ErrUnknownCode.
func (r *Registry) Exchange(secret string) (token string, opened Console, err error) {
	hash := sha256.Sum256([]byte(secret))
	var ended []Console
	defer func() { r.tell(ended) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	r.sweep(now)
	for _, c := range r.consoles {
		if c.code == hash {
			ended = append(ended, c.Console)
			delete(r.consoles, c.Hash)
			return "", c.Console, ErrUsed
		}
	}
	known := r.codes[hash]
	delete(r.codes, hash)
	if known == nil || !known.expires.After(now) {
		return "", Console{}, ErrUnknownCode
	}
	if len(r.consoles) >= maxConsoles {
		last := oldest(r.consoles, func(c *console) time.Time { return c.used })
		ended = append(ended, r.consoles[last].Console)
		delete(r.consoles, last)
	}
	token = TokenPrefix + newSecret()
	opened = Console{Hash: sha256.Sum256([]byte(token)), ExpiresAt: now.Add(Life)}
	r.consoles[opened.Hash] = &console{opened, hash, now}
	return token, opened, nil
}

// sweep drops the consoles whose time has passed. r.mu is held.
func (r *Registry) sweep(now time.Time) {
	for hash, c := range r.consoles {
		if !r.alive(c, now) {
			delete(r.consoles, hash)
		}
	}
}

// alive reports whether a console has neither expired nor been idle for too long.
func (r *Registry) alive(c *console, now time.Time) bool {
	return now.Before(c.ExpiresAt) && (now.Sub(c.used) < IdleLife || r.cfg.Busy(c.Hash))
}

// Authenticate returns the console of a token, and counts as a use of it. It fails with EACCES for a token that is unknown or has ended.
func (r *Registry) Authenticate(token string) (Console, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	c := r.consoles[sha256.Sum256([]byte(token))]
	if c == nil || !r.alive(c, now) {
		return Console{}, errEnded
	}
	c.used = now
	return c.Console, nil
}

// Used counts the end of a call as a use of the console.
func (r *Registry) Used(hash Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.consoles[hash]; c != nil {
		c.used = r.cfg.Now()
	}
}

// End ends a console, and reports whether it was alive.
func (r *Registry) End(hash Hash) bool {
	return r.end(func(c *console) bool { return c.Hash == hash }) > 0
}

// EndAll ends all consoles and codes, and returns how many consoles.
func (r *Registry) EndAll() int {
	r.mu.Lock()
	clear(r.codes)
	r.mu.Unlock()
	return r.end(func(*console) bool { return true })
}

func (r *Registry) end(which func(*console) bool) int {
	var ended []Console
	defer func() { r.tell(ended) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(r.cfg.Now())
	for hash, c := range r.consoles {
		if which(c) {
			ended = append(ended, c.Console)
			delete(r.consoles, hash)
		}
	}
	return len(ended)
}

func (r *Registry) tell(ended []Console) {
	for _, c := range ended {
		r.cfg.Ended(c)
	}
}

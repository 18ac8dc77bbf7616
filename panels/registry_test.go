package panels

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a workspace with a Registry, a clock, and a way to restart.
type house struct {
	t     *testing.T
	dir   string
	now   time.Time
	store metadata.Store
	m     *contexts.Manager
	*Registry
	closed []string
	// why is the reason of the last closing.
	why error
	// gitBase is for the next start.
	gitBase string
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0), store: memory.New()}
	if err := os.MkdirAll(filepath.Join(h.dir, "app", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "app", "f"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *house) start() {
	h.t.Helper()
	m, err := contexts.Open(context.Background(), contexts.Config{
		Workspace: h.dir, Store: h.store, Driver: copyfs.New(copyfs.Options{}), Version: "0.1.0",
		Templates: contexts.TemplateOptions{GitBase: h.gitBase},
		Events:    contexts.Events{Deleted: func(_ contexts.ID, panels []string) { h.ContextDeleted(panels) }},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.m = m
	h.Registry = New(Config{
		Contexts: m, Templates: m.Templates(), Store: h.store, Now: func() time.Time { return h.now },
		Closed: func(id string, why error) { h.closed, h.why = append(h.closed, id), why },
	})
}

func (h *house) stop() {
	if err := h.m.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *house) open(panel string) Opened {
	h.t.Helper()
	o, err := h.Open(context.Background(), OpenRequest{PanelID: panel}, nil)
	if err != nil {
		h.t.Fatalf("open %s: %v", panel, err)
	}
	return o
}

func (h *house) refuses(req OpenRequest, code fserr.Code, parts ...string) {
	h.t.Helper()
	_, err := h.Open(context.Background(), req, nil)
	wantCode(h.t, err, code, parts...)
}

func wantCode(t *testing.T, err error, code fserr.Code, parts ...string) {
	t.Helper()
	if fserr.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestOpenSeedsAndIssuesAToken(t *testing.T) {
	h := newHouse(t)
	o := h.open("panels/editor")
	if o.ContextID != "ctx_panels~editor" || !o.Seeded || o.Files != 1 || !o.Panel.Open || o.Tokens != 1 {
		t.Errorf("got %+v", o)
	}
	if len(o.Token.Secret) != 43 || !o.Token.ExpiresAt.Equal(h.now.Add(24*time.Hour)) {
		t.Errorf("got token %+v, want 256 bits for 24 h", o.Token)
	}
	id, err := h.Authenticate(context.Background(), o.Token.Secret)
	if err != nil || id.Role != RolePanel || id.Panel != "panels/editor" || id.Context != o.ContextID || id.Owner != id.Panel || id.ReadOnly {
		t.Errorf("got %+v, %v", id, err)
	}
	toks, err := h.store.Tokens().List(context.Background(), "panels/editor")
	if err != nil || len(toks) != 1 || toks[0].Hash != sha256.Sum256([]byte(o.Token.Secret)) {
		t.Errorf("stored %+v, %v; want the token's hash alone", toks, err)
	}
	again := h.open("panels/editor")
	if again.Seeded || again.ContextID != o.ContextID || again.Tokens != 2 || again.Token.Secret == o.Token.Secret {
		t.Errorf("a reload got %+v", again)
	}
}

func TestTokensEnd(t *testing.T) {
	h := newHouse(t)
	ctx := context.Background()
	o := h.open("p")
	for _, bad := range []string{"", "x", o.Token.Secret + "x", strings.Repeat("A", 43)} {
		_, err := h.Authenticate(ctx, bad)
		wantCode(t, err, fserr.EACCES, "unknown")
	}
	more, err := h.Renew(ctx, "p", time.Hour)
	if err != nil || !more.ExpiresAt.Equal(h.now.Add(time.Hour)) {
		t.Fatalf("got %+v, %v", more, err)
	}
	h.now = h.now.Add(time.Hour)
	_, err = h.Authenticate(ctx, more.Secret)
	wantCode(t, err, fserr.EACCES, "expired")
	if _, err := h.Authenticate(ctx, o.Token.Secret); err != nil {
		t.Error("the other token should hold:", err)
	}
	n, err := h.Close(ctx, "p")
	if err != nil || n == 0 {
		t.Errorf("closing revoked %d, %v", n, err)
	}
	_, err = h.Authenticate(ctx, o.Token.Secret)
	wantCode(t, err, fserr.EACCES, "unknown", "revoked")
	if !slices.Equal(h.closed, []string{"p"}) || !errors.Is(h.why, errClosed) {
		t.Errorf("told of closing %v: %v", h.closed, h.why)
	}
	_, err = h.Renew(ctx, "p", 0)
	wantCode(t, err, fserr.ENOENT, "closed")
	_, err = h.Renew(ctx, "nobody", 0)
	wantCode(t, err, fserr.ENOENT)
	_, err = h.Close(ctx, "nobody")
	wantCode(t, err, fserr.ENOENT)
	h.open("p")
}

// endingStore is a store whose second change of a close never happens, as when the server is killed between them.
type endingStore struct {
	metadata.Store
	left int
}

func (s *endingStore) next() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}

type endingPanels struct {
	metadata.Panels
	s *endingStore
}

type endingTokens struct {
	metadata.Tokens
	s *endingStore
}

func (s *endingStore) Panels() metadata.Panels { return endingPanels{s.Store.Panels(), s} }
func (s *endingStore) Tokens() metadata.Tokens { return endingTokens{s.Store.Tokens(), s} }

func (p endingPanels) Update(ctx context.Context, rec metadata.Panel) error {
	if err := p.s.next(); err != nil {
		return err
	}
	return p.Panels.Update(ctx, rec)
}

func (t endingTokens) DeletePanel(ctx context.Context, id string) (int, error) {
	if err := t.s.next(); err != nil {
		return 0, err
	}
	return t.Tokens.DeletePanel(ctx, id)
}

func TestHalfClosedPanelHasNoTokenThatHolds(t *testing.T) {
	for changes := range 2 {
		h := newHouse(t)
		secret := h.open("p").Token.Secret
		dying := New(Config{Contexts: h.m, Store: &endingStore{h.store, changes}})
		if _, err := dying.Close(t.Context(), "p"); err == nil {
			t.Fatal("the store fails, and the panel is closed")
		}
		rec, err := h.store.Panels().Get(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Authenticate(t.Context(), secret)
		if closed := !rec.ClosedAt.IsZero(); closed && err == nil || changes == 0 && (closed || err != nil) {
			t.Errorf("after %d changes of the store: the panel is closed: %v; its token: %v", changes, closed, err)
		}
	}
}

func TestDeletedContextClosesItsPanels(t *testing.T) {
	h := newHouse(t)
	ctx := context.Background()
	o := h.open("p")
	if _, err := h.Authenticate(ctx, o.Token.Secret); err != nil { // into the cache
		t.Fatal(err)
	}
	if _, err := h.m.Delete(ctx, o.ContextID, nil); err != nil {
		t.Fatal(err)
	}
	_, err := h.Authenticate(ctx, o.Token.Secret)
	wantCode(t, err, fserr.EACCES, "unknown")
	if !slices.Equal(h.closed, []string{"p"}) || !errors.Is(h.why, errDeleted) {
		t.Errorf("told of closing %v: %v", h.closed, h.why)
	}
}

func TestReadOnlyPanel(t *testing.T) {
	h := newHouse(t)
	o, err := h.Open(context.Background(), OpenRequest{PanelID: "p", ReadOnly: true, TTL: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := h.Authenticate(context.Background(), o.Token.Secret)
	if err != nil || !id.ReadOnly || !id.ExpiresAt.Equal(h.now.Add(time.Minute)) {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestBadPanels(t *testing.T) {
	h := newHouse(t)
	h.refuses(OpenRequest{}, fserr.EINVAL, "empty")
	h.refuses(OpenRequest{PanelID: "a b"}, fserr.EINVAL, "context_id")
	h.refuses(OpenRequest{PanelID: "host/1"}, fserr.EINVAL, "host's connection")
	h.refuses(OpenRequest{PanelID: "host/2", ContextID: "ctx_h"}, fserr.EINVAL, "host's connection")
	h.refuses(OpenRequest{PanelID: "../x"}, fserr.EINVAL, "context_id")
	h.refuses(OpenRequest{PanelID: "a\x00b"}, fserr.EINVAL)
	h.refuses(OpenRequest{PanelID: strings.Repeat("x", 201)}, fserr.EINVAL)
	h.refuses(OpenRequest{PanelID: "p", ContextID: "../etc"}, fserr.EINVAL)
	h.refuses(OpenRequest{PanelID: "p", ContextID: "safe_tpl_0123456789ab_x"}, fserr.EINVAL, "template build")
	h.refuses(OpenRequest{PanelID: "p", TTL: -1}, fserr.EINVAL)
	if list, err := h.List(context.Background()); err != nil || len(list) != 0 {
		t.Errorf("refused panels left %+v, %v", list, err)
	}
	o, err := h.Open(context.Background(), OpenRequest{PanelID: "a b", ContextID: "ctx_ab"}, nil)
	if err != nil || o.ContextID != "ctx_ab" {
		t.Errorf("an explicit context ID is the remedy, got %+v, %v", o, err)
	}
}

func TestCollisionsOverARestart(t *testing.T) {
	h := newHouse(t)
	h.open("a/b")
	if _, err := h.Bind(context.Background(), "bound/only"); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			h.t = t
			h.refuses(OpenRequest{PanelID: "a:b"}, fserr.EEXIST, "belongs to panel")
			h.refuses(OpenRequest{PanelID: "A/b"}, fserr.EEXIST, "only by case")
			h.refuses(OpenRequest{PanelID: "other", ContextID: "ctx_A~b"}, fserr.EEXIST, "only by case")
			h.refuses(OpenRequest{PanelID: "other", ContextID: "ctx_Bound~only"}, fserr.EEXIST, "only by case")
			h.refuses(OpenRequest{PanelID: "a/b", ContextID: "ctx_else"}, fserr.EEXIST, "is bound to")
			h.refuses(OpenRequest{PanelID: "bound:only"}, fserr.EEXIST, "belongs to panel")
		})
		h.stop()
		h.start()
	}
	h.t = t
	if o, err := h.Open(context.Background(), OpenRequest{PanelID: "a:b", ContextID: "ctx_a~b"}, nil); err != nil || o.Seeded {
		t.Errorf("an explicit context ID shares the folder, got %+v, %v", o, err)
	}
	if list, err := h.List(context.Background()); err != nil || len(list) != 3 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestBindDoesNotReopen(t *testing.T) {
	h := newHouse(t)
	ctx := context.Background()
	h.open("p")
	if _, err := h.Close(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	p, err := h.Bind(ctx, "p")
	if err != nil || p.ContextID != "ctx_p" || p.Tokens != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// keyedStore counts listings: opening a panel must not become slower with every panel and context.
type keyedStore struct {
	metadata.Store
	listed int
}

type keyedPanels struct {
	metadata.Panels
	s *keyedStore
}

type keyedContexts struct {
	metadata.Contexts
	s *keyedStore
}

func (s *keyedStore) Panels() metadata.Panels     { return keyedPanels{s.Store.Panels(), s} }
func (s *keyedStore) Contexts() metadata.Contexts { return keyedContexts{s.Store.Contexts(), s} }

func (p keyedPanels) List(ctx context.Context) ([]metadata.Panel, error) {
	p.s.listed++
	return p.Panels.List(ctx)
}

func (c keyedContexts) List(ctx context.Context) ([]metadata.Context, error) {
	c.s.listed++
	return c.Contexts.List(ctx)
}

func TestOpenListsNoRecords(t *testing.T) {
	h := newHouse(t)
	h.stop()
	store := &keyedStore{Store: h.store}
	h.store = store
	h.start()
	store.listed = 0
	h.open("a/b")
	h.open("a/b")
	h.refuses(OpenRequest{PanelID: "A/b"}, fserr.EEXIST, "only by case")
	h.refuses(OpenRequest{PanelID: "d", ContextID: "ctx_A~b"}, fserr.EEXIST, "only by case")
	if store.listed != 0 {
		t.Errorf("the records were listed %d times", store.listed)
	}
}

// Each opening sets the rights. One that takes some away ends the older tokens; one that gives some changes only its own token.
func TestRights(t *testing.T) {
	h := newHouse(t)
	open := func(rights Rights) Opened {
		t.Helper()
		o, err := h.Open(t.Context(), OpenRequest{PanelID: "p", Rights: rights}, nil)
		if err != nil || o.Rights != rights {
			t.Fatalf("opened with the rights %b, %v, want %b", o.Rights, err, rights)
		}
		return o
	}
	has := func(what string, token Token, want Rights) {
		t.Helper()
		if id, err := h.Authenticate(t.Context(), token.Secret); err != nil || id.Rights != want {
			t.Errorf("%s has the rights %b, %v, want %b", what, id.Rights, err, want)
		}
	}
	plain := open(0)
	has("the first token", plain.Token, 0)
	both := open(RightReview | 2)
	has("the first token, later", plain.Token, 0)
	has("the token with both", both.Token, RightReview|2)
	if _, err := h.Bind(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	renewed, err := h.Renew(t.Context(), "p", 0)
	if err != nil {
		t.Fatal(err)
	}
	has("a renewed token, after a host acted for the panel", renewed, RightReview|2)
	if len(h.closed) != 0 {
		t.Errorf("closed %v", h.closed)
	}
	one := open(RightReview)
	has("the token with one", one.Token, RightReview)
	for _, token := range []Token{plain.Token, both.Token, renewed} {
		if _, err := h.Authenticate(t.Context(), token.Secret); fserr.CodeOf(err) != fserr.EACCES {
			t.Errorf("a token from before a right was taken away: %v, want EACCES", err)
		}
	}
	if !slices.Equal(h.closed, []string{"p"}) || !errors.Is(h.why, errRights) {
		t.Errorf("closed %v: %v", h.closed, h.why)
	}
	h.stop()
	h.start()
	has("the token with one, after a restart", one.Token, RightReview)
}

// An OpenPanel that waited for a seeding gives no right that another OpenPanel took away meanwhile.
func TestRightTakenAwayWhileSeeding(t *testing.T) {
	h := newHouse(t)
	slow, err := h.bind(t.Context(), OpenRequest{PanelID: "p", Rights: RightReview}, true)
	if err != nil {
		t.Fatal(err)
	}
	h.open("p")
	token, err := h.issue(t.Context(), slow.rec, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := h.Authenticate(t.Context(), token.Secret); err != nil || id.Rights != 0 {
		t.Errorf("it has the rights %b, %v", id.Rights, err)
	}
}

package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// panelKey is the metadata by which a host acts for a panel.
const panelKey = "ctxfs-panel"

// authenticator says who makes a call.
type authenticator struct {
	panels panels.Service
	// host is the token for everything, metrics one that reads /metrics and nothing else.
	host, metrics tokenHash
	bound         *bindings
}

// identify returns who makes a call to method, or why it is refused.
func (a *authenticator) identify(ctx context.Context, m *method.Method) (panels.Identity, error) {
	need := accessOf(m)
	if need == forAll {
		return panels.Identity{}, nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	id, err := a.who(ctx, md)
	if err == nil {
		err = connOf(ctx).accepted.authenticated(id.Panel)
	}
	if err != nil {
		return panels.Identity{}, err
	}
	if id.Role != panels.RoleHost && len(md.Get(panelKey)) > 0 {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "a panel cannot act for another", Hint: "send no " + panelKey}
	}
	if err := mayCall(id, m); err != nil || id.Role != panels.RoleHost || need != forPanel {
		return id, err
	}
	return a.actFor(ctx, id, md.Get(panelKey))
}

// tap authenticates the first call of a connection once its headers have come: its message may take long on a slow network.
// The call itself is refused later, with the reason.
func (a *authenticator) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch conn := connOf(ctx); {
	case conn.accepted == nil || conn.accepted.known.Load():
	case conn.host:
		_ = conn.accepted.authenticated("") // by its user, also for calls that are open to all
	default:
		_, _ = a.identify(ctx, method.Of(info.FullMethodName))
	}
	return ctx, nil
}

// admit says whether whoever made a call to FsService may still make it.
func (a *authenticator) admit(ctx context.Context) error {
	_, err := a.identify(ctx, method.Of(ctxfsv1.FsService_Access_FullMethodName))
	return err
}

// refresh returns whom a further token of a session's panel names, and lets the session's stream last as long as it.
func (a *authenticator) refresh(ctx context.Context, token string) (panels.Identity, error) {
	was := panels.IdentityFrom(ctx)
	id, err := a.panels.Authenticate(ctx, token)
	if err != nil {
		return id, unauthenticated(err)
	}
	if was.Role != panels.RolePanel || id.Panel != was.Panel || id.Context != was.Context {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "the token is not one of this session's panel", Hint: "begin another session"}
	}
	extendStream(ctx, id.ExpiresAt)
	return id, nil
}

// mayCall refuses a method that is not open to a caller. A session whose host acts for a panel has that panel's rights: what is in
// its messages may be the panel's.
func mayCall(id panels.Identity, m *method.Method) error {
	switch need := accessOf(m); {
	case need == forNobody:
		return &fserr.Error{Code: fserr.EACCES, Detail: m.Name + " is open to nobody"}
	case need == forHost && (id.Role != panels.RoleHost || id.Panel != ""):
		return &fserr.Error{Code: fserr.EACCES, Detail: "this call is for hosts", Hint: "a panel may call FsService and ContextService/GetInfo"}
	}
	return nil
}

// who tells host from panel. A token goes before the peer's user: who shows one wants no more than its rights.
func (a *authenticator) who(ctx context.Context, md metadata.MD) (panels.Identity, error) {
	conn := connOf(ctx)
	token, err := bearer(md)
	if err != nil {
		return panels.Identity{}, err
	}
	switch {
	case token == "" && conn.host:
		return hostIdentity(conn), nil
	case token == "":
		return panels.Identity{}, unauthenticated(noToken(conn))
	case a.host.matches(token):
		return hostIdentity(conn), nil
	}
	id, err := a.panels.Authenticate(ctx, token)
	if err != nil {
		return panels.Identity{}, unauthenticated(err)
	}
	return id, nil
}

func hostIdentity(conn *connInfo) panels.Identity {
	return panels.Identity{Role: panels.RoleHost, Owner: hostOwner(conn.id)}
}

// hostOwner names the table of handles of a connection whose host names no panel.
func hostOwner(conn uint64) string { return "host/" + strconv.FormatUint(conn, 10) }

func noToken(conn *connInfo) error {
	hint := "send 'authorization: Bearer TOKEN' with a panel's token or the host token"
	if conn.unix {
		hint += "; without one the unix socket serves the server's own user only"
	}
	return &fserr.Error{Code: fserr.EACCES, Detail: "no token", Hint: hint}
}

// bearer returns the token of a call, "" when there is none.
func bearer(md metadata.MD) (string, error) {
	values := md.Get("authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if token = strings.TrimSpace(token); len(values) > 1 || !ok || !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", unauthenticated(&fserr.Error{
			Code: fserr.EACCES, Detail: "bad authorization", Hint: "send it once, as 'authorization: Bearer TOKEN'",
		})
	}
	return token, nil
}

// unauthenticated keeps the errno and the text of err, and answers UNAUTHENTICATED:
// who calls is not known, which is something else than not permitted, and tells
// clients to get another token. An error that is no refusal (the store's) stays what it is.
func unauthenticated(err error) error {
	var refused *fserr.Error
	if !errors.As(err, &refused) || refused.Code != fserr.EACCES {
		return err
	}
	return fserrpb.WithCode(refused, codes.Unauthenticated)
}

// actFor gives a host the context and the handles of the panel that it names.
func (a *authenticator) actFor(ctx context.Context, id panels.Identity, names []string) (panels.Identity, error) {
	switch {
	case len(names) == 0:
		return id, nil
	case len(names) > 1 || names[0] == "":
		return id, &fserr.Error{Code: fserr.EINVAL, Detail: "bad " + panelKey, Hint: "send one panel's name"}
	}
	p, err := a.bound.get(ctx, names[0])
	if err != nil {
		return id, err
	}
	id.Panel, id.Context, id.ReadOnly, id.Owner = p.ID, p.ContextID, p.ReadOnly, p.ID
	return id, nil
}

// bindings remembers which context a panel has, so that a host that acts for it
// does not ask the database at every call.
type bindings struct {
	bind func(ctx context.Context, panelID string) (panels.Panel, error)

	mu    sync.Mutex
	known map[string]panels.Panel
	// epoch rises with every forget: what was asked before must not be remembered after.
	epoch uint64
}

// maxBindings bounds the memory; beyond it everything is asked anew.
const maxBindings = 10_000

func (b *bindings) get(ctx context.Context, panelID string) (panels.Panel, error) {
	b.mu.Lock()
	p, ok := b.known[panelID]
	epoch := b.epoch
	b.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := b.bind(ctx, panelID)
	if err != nil {
		return panels.Panel{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch == epoch {
		if b.known == nil || len(b.known) >= maxBindings {
			b.known = map[string]panels.Panel{}
		}
		b.known[panelID] = p
	}
	return p, nil
}

// forget drops a panel that was closed or whose context was deleted.
func (b *bindings) forget(panelID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, panelID)
	b.epoch++
}

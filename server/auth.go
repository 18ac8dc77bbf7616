package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/tap"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/internal/recent"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

// panelKey is the metadata with which a host acts for a panel.
const panelKey = method.PanelKey

// authenticator identifies the callers.
type authenticator struct {
	panels panels.Service
	sites  *sites.Registry
	// host is the token for everything, metrics one that reads /metrics and nothing else.
	host, metrics tokenHash
	consoles      *console.Registry
	bound         *bindings
}

// identify returns the caller of a method, or refuses the call.
func (a *authenticator) identify(ctx context.Context, m *method.Method) (panels.Identity, error) {
	need := accessOf(m)
	if need == forAll {
		return panels.Identity{}, nil
	}
	md, _ := metadata.FromIncomingContext(ctx) // a visitor has none
	id, err := a.visitor(ctx)
	if err == nil && id.Role == panels.RoleNone {
		id, err = a.authenticate(ctx, md)
	}
	if err == nil {
		err = connOf(ctx).accepted.authenticated(limited(id))
	}
	if err != nil {
		return panels.Identity{}, err
	}
	if id.Console {
		id.ReadOnly = m.Effect() == ctxfsv1.Effect_EFFECT_READS && !m.Reads() // ReadFile with the flag "w+" writes
	}
	if id.Console && len(md.Get(panelKey)) > 0 {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "a console cannot act for a panel", Hint: "send no " + panelKey}
	}
	if id.Role != panels.RoleHost && len(md.Get(panelKey)) > 0 {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "a panel cannot act for another", Hint: "send no " + panelKey}
	}
	if need == forReviewer && id.Role == panels.RoleHost && len(md.Get(panelKey)) > 0 {
		return id, &fserr.Error{Code: fserr.EACCES, Detail: "a host that acts for a panel cannot review", Hint: "send no " + panelKey}
	}
	if err := mayCall(id, m); err != nil || id.Role != panels.RoleHost || need != forPanel && need != forExec && need != forPush {
		return id, err
	}
	if id, err = a.actFor(ctx, id, md.Get(panelKey)); err != nil {
		return id, err
	}
	return id, mayCall(id, m)
}

// visitor returns the identity of a visitor of a site; the zero Identity for other callers. No metadata makes a caller a visitor.
func (a *authenticator) visitor(ctx context.Context) (panels.Identity, error) {
	hash, ok := ctx.Value(visitorKey{}).([32]byte)
	if !ok {
		return panels.Identity{}, nil
	}
	site, ok := a.sites.Live(hash)
	if !ok {
		return panels.Identity{}, errNoSite
	}
	return site.Visitor(), nil
}

// tap authenticates the first call of a connection as soon as its headers have come, since its message may take long on a slow network.
// It refuses nothing: the call is refused later, with the reason.
func (a *authenticator) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch conn := connOf(ctx); {
	case conn.accepted == nil || conn.accepted.known.Load():
	case conn.host:
		_ = conn.accepted.authenticated("") // by its user, even for calls that are open to all
	default:
		_, _ = a.identify(ctx, method.Of(info.FullMethodName))
	}
	return ctx, nil
}

// admit fails when the caller of a call to FsService may no longer make it.
func (a *authenticator) admit(ctx context.Context) error {
	_, err := a.identify(ctx, method.Of(ctxfsv1.FsService_Access_FullMethodName))
	return err
}

// refresh returns the identity of a further token of a session's panel, and lets the session's stream last as long as the token.
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

// mayCall refuses a method that is not open to a caller. A session in which a host acts for a panel has that panel's rights, since the
// panel may have written its messages.
func mayCall(id panels.Identity, m *method.Method) error {
	switch need := accessOf(m); {
	case need == forNone:
		return &fserr.Error{Code: fserr.EACCES, Detail: m.Name + " is open to nobody"}
	case id.Console && !m.Console():
		return &fserr.Error{Code: fserr.EACCES, Detail: "a console may not call " + strings.TrimPrefix(m.Name, "/ctxfs.v1."), Hint: "use the ctxfs command"}
	case need == forHost && (id.Role != panels.RoleHost || id.Panel != ""):
		if strings.HasPrefix(m.Name, "/grpc.reflection.") {
			return &fserr.Error{
				Code: fserr.EACCES, Detail: "reflection is for hosts",
				Hint: "give grpcurl the protos, in a checkout of ctxfs: -import-path proto -proto ctxfs/v1/fs.proto",
			}
		}
		return &fserr.Error{Code: fserr.EACCES, Detail: "this call is for hosts", Hint: "a panel may call FsService and ContextService/GetInfo, ReviewService for its own changes, GatewayService for its own sites, ZoneService/ListZones, GitService but Push, and with PANEL_RIGHT_EXEC ExecService"}
	case need == forReviewer && !mayReview(id):
		return &fserr.Error{
			Code: fserr.EACCES, Detail: "this call is for reviewers",
			Hint: "a host makes it, without " + panelKey + ", or a panel that was opened with PANEL_RIGHT_REVIEW",
		}
	case need == forExec && !mayDo(id, panels.RightExec):
		return &fserr.Error{Code: fserr.EACCES, Detail: "this panel has no right to run commands", Hint: "a host opens it with PANEL_RIGHT_EXEC"}
	case need == forPush && !mayDo(id, panels.RightGitPush):
		return &fserr.Error{Code: fserr.EACCES, Detail: "this panel has no right to push", Hint: "a host pushes what the panel staged, or opens the panel with PANEL_RIGHT_GIT_PUSH"}
	}
	return nil
}

// mayDo reports whether a caller has a right in its own context. A host that acts for a panel has that panel's right.
func mayDo(id panels.Identity, right panels.Rights) bool {
	return id.Role == panels.RoleHost && id.Panel == "" || id.Rights&right != 0
}

// mayReview reports whether a caller may review some contexts. ReviewService refuses a panel those with its own work.
func mayReview(id panels.Identity) bool {
	if id.Role == panels.RoleHost {
		return id.Panel == ""
	}
	return id.Rights&panels.RightReview != 0
}

// authenticate returns the host or the panel that calls. A token has priority over the peer's user: the caller gets the token's rights.
func (a *authenticator) authenticate(ctx context.Context, md metadata.MD) (panels.Identity, error) {
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
	case strings.HasPrefix(token, console.TokenPrefix):
		return a.console(conn, token)
	}
	id, err := a.panels.Authenticate(ctx, token)
	if err != nil {
		return panels.Identity{}, unauthenticated(err)
	}
	return id, nil
}

// console returns the identity of a console. Its token is for a page: it works in requests over HTTP alone.
func (a *authenticator) console(conn *connInfo, token string) (panels.Identity, error) {
	if !conn.http {
		return panels.Identity{}, unauthenticated(&fserr.Error{Code: fserr.EACCES, Detail: "a console's token works in calls over HTTP alone", Hint: "use a panel's token or the host token"})
	}
	c, err := a.consoles.Authenticate(token)
	if err != nil {
		return panels.Identity{}, unauthenticated(err)
	}
	id := hostIdentity(conn)
	id.Console, id.TokenHash, id.ExpiresAt = true, c.Hash, c.ExpiresAt
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

// unauthenticated keeps the errno and the text of a refusal, and gives it the code UNAUTHENTICATED: the caller is not known, and must
// get another token. An error that is no refusal (the store's) stays as it is.
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
	id.Rights = p.Rights & (panels.RightExec | panels.RightGitPush) // a host that acts for a panel cannot review
	return id, nil
}

// bindings caches the contexts of panels, so that the calls of a host that acts for a panel do not query the database.
type bindings struct {
	bind func(ctx context.Context, panelID string) (panels.Panel, error)

	mu    sync.Mutex
	known recent.Map[string, panels.Panel]
	// epoch rises with every forget: an answer from before must not be cached after it.
	epoch uint64
}

// maxBindings is how many of the panels that hosts acted for last stay in the cache.
const maxBindings = 10_000

func newBindings(bind func(ctx context.Context, panelID string) (panels.Panel, error)) *bindings {
	return &bindings{bind: bind, known: recent.Map[string, panels.Panel]{Max: maxBindings}}
}

func (b *bindings) get(ctx context.Context, panelID string) (panels.Panel, error) {
	b.mu.Lock()
	p, aged, ok := b.known.Get(panelID)
	if aged {
		b.known.Put(panelID, p)
	}
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
		b.known.Put(panelID, p)
	}
	return p, nil
}

// forget drops a panel that was closed or whose context was deleted.
func (b *bindings) forget(panelID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known.Delete(func(id string, _ panels.Panel) bool { return id == panelID })
	b.epoch++
}

// access is the set of callers that may call an RPC.
type access uint8

// The zero access is empty: an RPC without options is refused.
const (
	forNone access = iota
	forHost
	forPanel    // and hosts
	forReviewer // see mayReview
	forExec     // see mayDo
	forPush     // see mayDo
	forAll
)

// foreign has gRPC's own services, whose protos have none of our options.
var foreign = map[string]access{
	grpc_health_v1.Health_ServiceDesc.ServiceName:           forAll,
	reflectv1.ServerReflection_ServiceDesc.ServiceName:      forHost,
	reflectv1alpha.ServerReflection_ServiceDesc.ServiceName: forHost,
	grpc_channelz_v1.Channelz_ServiceDesc.ServiceName:       forHost,
}

// accessOf returns the callers of a method.
func accessOf(m *method.Method) access {
	switch m.Callers() {
	case ctxfsv1.Callers_CALLERS_HOST:
		return forHost
	case ctxfsv1.Callers_CALLERS_PANEL:
		return forPanel
	case ctxfsv1.Callers_CALLERS_REVIEWER:
		return forReviewer
	case ctxfsv1.Callers_CALLERS_EXEC:
		return forExec
	case ctxfsv1.Callers_CALLERS_PUSH:
		return forPush
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(m.Name, "/"), "/")
	return foreign[service]
}

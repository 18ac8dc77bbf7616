package attack

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// everyMethod returns all methods of FsService, each with a request that succeeds if the caller is permitted to make it.
func everyMethod(t *testing.T) (all []request) {
	t.Helper()
	for _, m := range fsMethods() {
		switch {
		case m.Name() == "Session":
			all = append(all, request{method: m, msg: &ctxfsv1.SessionRequest{Id: 1, Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{}}}})
		case m.Name() == "Hold":
			all = append(all, request{method: m, msg: &ctxfsv1.HoldRequest{ClientInstance: "tab"}})
		default:
			all = append(all, request{method: m, msg: fill(t, inner(m), "path", "/d/plain", 0o644, false, "r")})
		}
	}
	return all
}

// as makes a call by cc with what ctx carries, and returns how it ended. Of a stream that
// does not end the first message counts.
func (w *world) as(ctx context.Context, cc grpc.ClientConnInterface, r request) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	method := "/" + string(r.method.Parent().FullName()) + "/" + string(r.method.Name())
	reply, err := newMessage(r.method.Output())
	w.must(err)
	if r.method.IsStreamingServer() || r.method.IsStreamingClient() {
		var s grpc.ClientStream
		if s, err = cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method); err == nil {
			for _, msg := range sentOf(r.msg) {
				_ = s.SendMsg(msg) // RecvMsg says why not
			}
			if r.name() != "Session" {
				_ = s.CloseSend()
			}
			err = s.RecvMsg(reply)
		}
	} else {
		err = cc.Invoke(ctx, method, r.msg, reply)
	}
	if err != nil {
		w.checkReply(r.name()+"'s error", status.Convert(err).Proto())
		return err
	}
	w.checkReply(r.name()+"'s reply", reply)
	return nil
}

// byEach is a connection, and the same by JSON. A caller whose identity is its user comes by the unix socket alone.
func (w *world) byEach(cc grpc.ClientConnInterface) map[string]grpc.ClientConnInterface {
	each := map[string]grpc.ClientConnInterface{"gRPC": cc}
	if cc != grpc.ClientConnInterface(w.cc) {
		each["JSON"] = &jsonConn{w, cc}
	}
	return each
}

// allRefused makes every call, which must all fail as code.
func (w *world) allRefused(what string, ctx context.Context, cc grpc.ClientConnInterface, code codes.Code) {
	w.Helper()
	for _, r := range everyMethod(w.T) {
		for by, cc := range w.byEach(cc) {
			if err := w.as(ctx, cc, r); status.Code(err) != code {
				w.Errorf("%s: %s by %s: %v, want %s", what, r.name(), by, err, code)
			}
		}
	}
}

// identityWorld returns a world whose attacker connects over TCP, where a caller without a token is no host.
func identityWorld(t *testing.T) (w *world, tcp *grpc.ClientConn) {
	t.Helper()
	w = newWorld(t, config{driver: "copy", implementation: "openat2", transport: "unary"})
	w.replant(row{})
	tcp = w.byTCP()
	w.begun = w.resources()
	return w, tcp
}

// byTCP dials the server, and has a connection when it returns.
func (w *world) byTCP() *grpc.ClientConn {
	w.Helper()
	tcp := w.dial(w.server.Info().Addresses.TCP[0])
	w.must(w.as(w.attacker.ctx, tcp, request{method: methodNamed("Stat"), msg: &ctxfsv1.StatRequest{Path: "/"}}))
	return tcp
}

// finish is what every case ends with.
func (w *world) finish() {
	w.Helper()
	w.checkInside("at the end", nil)
	w.checkAll("at the end")
	if w.begun != (resources{}) {
		w.closeHandles(w.attacker)
		w.closeHandles(w.victim)
		w.web.CloseIdleConnections()
		w.checkResources(w.begun)
	}
	w.report()
}

// closeHandles closes what p has opened and was to leave open.
func (w *world) closeHandles(p panel) {
	w.Helper()
	fs := ctxfsv1.NewFsServiceClient(w.cc)
	open, err := fs.ListHandles(p.ctx, &ctxfsv1.ListHandlesRequest{})
	w.must(err)
	for _, h := range open.GetHandles() {
		_, err := fs.Close(p.ctx, &ctxfsv1.CloseRequest{Fd: h.GetFd()})
		w.must(err)
	}
}

// token returns a further one of a panel's.
func (w *world) token(req *ctxfsv1.OpenPanelRequest) (string, context.Context) {
	w.Helper()
	resp, err := ctxfsv1.NewPanelServiceClient(w.cc).OpenPanel(w.host, req)
	w.must(err)
	return resp.GetToken(), w.with("authorization", "Bearer "+resp.GetToken())
}

func TestTokensThatAreNone(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	real := w.attacker.token
	for name, md := range map[string][]string{
		"none":                 nil,
		"forged":               {"authorization", "Bearer " + strings.Repeat("A", len(real))},
		"cut":                  {"authorization", "Bearer " + real[:len(real)-1]},
		"longer":               {"authorization", "Bearer " + real + "A"},
		"of another case":      {"authorization", "Bearer " + strings.ToLower(real) + strings.ToUpper(real)},
		"another scheme":       {"authorization", "Basic " + real},
		"without scheme":       {"authorization", real},
		"empty":                {"authorization", "Bearer "},
		"two":                  {"authorization", "Bearer " + real, "authorization", "Bearer " + w.victim.token},
		"list":                 {"authorization", "Bearer " + real + ", Bearer " + real},
		"in another header":    {"token", real, "cookie", "token=" + real, "proxy-authorization", "Bearer " + real},
		"name of a panel":      {"ctxfs-panel", "a"},
		"path of the token":    {"authorization", "Bearer " + w.server.Info().Addresses.TokenFile},
		"identity by metadata": {"role", "host", "x-forwarded-for", "127.0.0.1", "x-real-uid", "0"},
	} {
		w.allRefused(name, w.with(md...), tcp, codes.Unauthenticated)
	}
	if err := w.as(w.attacker.ctx, tcp, everyMethod(t)[0]); err != nil {
		t.Errorf("the real one: %v", err)
	}
}

func TestAPanelReachesNoOtherContext(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	open, err := ctxfsv1.NewFsServiceClient(w.cc).Open(w.victim.ctx, &ctxfsv1.OpenRequest{Path: "/README.md", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}})
	w.must(err)
	for _, r := range everyMethod(t) {
		fields := r.msg.ProtoReflect().Descriptor().Fields()
		if f := fields.ByName("context_id"); f != nil {
			for _, id := range []string{"ctx_ab", "ctx_none", "../ctx_ab", "ctx_a/../ctx_ab", "CTX_AB", "ctx_ab\x00", "unsafe_noctx_ab", ".ctxfs"} {
				q := request{method: r.method, msg: proto.Clone(r.msg)}
				q.msg.ProtoReflect().Set(f, protoreflect.ValueOfString(id))
				for by, cc := range w.byEach(tcp) {
					if err := w.as(w.attacker.ctx, cc, q); err == nil && r.name() != "ListHandles" {
						t.Errorf("%s in %q works by %s", r.name(), id, by)
					}
				}
			}
		}
		if fields.ByName("fd") != nil {
			q := request{method: r.method, msg: proto.Clone(r.msg)}
			onHandle(q, open.GetFd())
			for by, cc := range w.byEach(tcp) {
				if e, ok := fserrpb.FromStatus(w.as(w.attacker.ctx, cc, q)); !ok || e.Code != fserr.EBADF {
					t.Errorf("%s of another panel's handle by %s: %v, want EBADF", r.name(), by, e)
				}
			}
		}
	}
}

// TestAReviewerReachesNoOtherContext gives the attacker the right to review, and makes every call of FsService in the victim's context.
func TestAReviewerReachesNoOtherContext(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	_, reviewer := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "a", Rights: []ctxfsv1.PanelRight{ctxfsv1.PanelRight_PANEL_RIGHT_REVIEW}})
	if _, err := ctxfsv1.NewReviewServiceClient(tcp).ListJournal(reviewer, &ctxfsv1.ListJournalRequest{ContextId: "ctx_ab"}); err != nil {
		t.Errorf("the right is not in effect: %v", err)
	}
	for _, r := range everyMethod(t) {
		f := r.msg.ProtoReflect().Descriptor().Fields().ByName("context_id")
		if f == nil || r.name() == "ListHandles" {
			continue
		}
		r.msg.ProtoReflect().Set(f, protoreflect.ValueOfString("ctx_ab"))
		for by, cc := range w.byEach(tcp) {
			if err := w.as(reviewer, cc, r); err == nil {
				t.Errorf("%s works by %s", r.name(), by)
			}
		}
	}
	for _, id := range []string{"", "ctx_a", "CTX_A", "ctx_A", "ctx_a\x00", "../ctx_ab", "ctx_a/../ctx_ab", ".ctxfs", "ctx_none"} {
		_, err := ctxfsv1.NewReviewServiceClient(tcp).Decide(reviewer, &ctxfsv1.DecideRequest{ContextId: id, Selection: &ctxfsv1.Selection{What: &ctxfsv1.Selection_All{All: true}}})
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.InvalidArgument && code != codes.NotFound {
			t.Errorf("Decide in %q: %v", id, err)
		}
	}
}

func TestAPanelActsForNobody(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	for _, name := range []string{"ab", "a", "", "new", "host"} {
		ctx := metadata.AppendToOutgoingContext(w.attacker.ctx, "ctxfs-panel", name)
		w.allRefused("ctxfs-panel: "+name, ctx, tcp, codes.PermissionDenied)
		w.allRefused("on the unix socket, ctxfs-panel: "+name, ctx, w.cc, codes.PermissionDenied)
	}
}

// TestTokensEnd replays tokens after they ended, and after the server was started again.
func TestTokensEnd(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	_, expired := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "a", TtlMs: 1})
	_, closed := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "c"})
	_, gone := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "e"})
	first := everyMethod(t)[0]
	if err := w.as(closed, tcp, request{method: methodNamed("Stat"), msg: &ctxfsv1.StatRequest{Path: "/README.md"}}); err != nil {
		t.Errorf("before it ended: %v", err)
	}
	_, err := ctxfsv1.NewPanelServiceClient(w.cc).ClosePanel(w.host, &ctxfsv1.ClosePanelRequest{PanelId: "c"})
	w.must(err)
	resp, err := ctxfsv1.NewPanelServiceClient(w.cc).ClosePanel(w.host, &ctxfsv1.ClosePanelRequest{PanelId: "e"})
	if w.must(err); resp.GetTokensRevoked() != 1 {
		t.Errorf("revoked: %v", resp)
	}
	_, again := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "c"}) // does not revive the old one
	check := func(when string) {
		w.allRefused(when+", expired", expired, tcp, codes.Unauthenticated)
		w.allRefused(when+", closed", closed, tcp, codes.Unauthenticated)
		w.allRefused(when+", of a panel that is closed", gone, tcp, codes.Unauthenticated)
		if err := w.as(again, tcp, request{method: methodNamed("Stat"), msg: &ctxfsv1.StatRequest{Path: "/README.md"}}); err != nil {
			t.Errorf("%s, another of its panel: %v", when, err)
		}
		if err := w.as(w.attacker.ctx, tcp, first); err != nil {
			t.Errorf("%s, a live one: %v", when, err)
		}
	}
	check("at once")
	w.server.Stop()
	w.start()
	tcp = w.byTCP()
	check("after a restart")
	w.before = w.snapshot() // two further contexts
}

// TestSessionsEndWithTheirToken lets tokens expire under what they began.
func TestSessionsEndWithTheirToken(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	begins := map[string]func(token string, fs ctxfsv1.FsServiceClient, ctx context.Context) (next func() error, err error){
		"session": func(_ string, fs ctxfsv1.FsServiceClient, ctx context.Context) (func() error, error) {
			stream, err := fs.Session(ctx)
			if err == nil {
				err = openSession(stream, &ctxfsv1.SessionOpen{})
			}
			return func() error { return ended(stream.Recv()) }, err
		},
		"websocket": func(token string, _ ctxfsv1.FsServiceClient, ctx context.Context) (func() error, error) {
			ws, _, err := websocket.Dial(ctx, "ws://"+w.server.Info().Addresses.HTTP+"/v1/session", nil)
			w.must(err)
			w.Cleanup(func() { _ = ws.CloseNow() })
			err = openSession(&socket{ws}, &ctxfsv1.SessionOpen{Token: token})
			return func() error { return ended((&socket{ws}).Recv()) }, err
		},
		"watch": func(_ string, fs ctxfsv1.FsServiceClient, ctx context.Context) (func() error, error) {
			watch, err := fs.Watch(ctx, &ctxfsv1.WatchRequest{Path: "/"})
			return func() error { _, err := watch.Recv(); return err }, err
		},
		"hold": func(_ string, fs ctxfsv1.FsServiceClient, ctx context.Context) (func() error, error) {
			hold, err := fs.Hold(ctx, &ctxfsv1.HoldRequest{ClientInstance: "tab"})
			return func() error { _, err := hold.Recv(); return err }, err
		},
	}
	nexts := map[string]func() error{}
	var last context.Context //nolint:containedctx // of the token that was opened last
	for name, begin := range begins {
		for ttl := int64(1500); ; ttl *= 4 { // on a busy machine a token may expire before it began anything
			token, ctx := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "a", TtlMs: ttl})
			within, cancel := context.WithTimeout(ctx, time.Duration(ttl)*time.Millisecond+patience)
			defer cancel()
			next, err := begin(token, ctxfsv1.NewFsServiceClient(tcp), within)
			last, nexts[name] = ctx, func() error {
				err := next()
				if within.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s goes on", name)
				}
				return err
			}
			if err == nil {
				break
			}
			if ttl > patience.Milliseconds() {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for _, next := range nexts {
		for next() == nil { // it gets what else is sent
		}
	}
	w.allRefused("expired", last, tcp, codes.Unauthenticated)
}

// ended makes an error of a session's last message.
func ended(m *ctxfsv1.SessionResponse, err error) error {
	if m.GetClosing() != nil {
		return fserrpb.FromSession(m.GetClosing().GetError())
	}
	return err
}

// TestReadOnlyTokens makes every call that changes something.
func TestReadOnlyTokens(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	opened, err := ctxfsv1.NewFsServiceClient(tcp).Open(w.attacker.ctx, &ctxfsv1.OpenRequest{Path: "/d/plain", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}})
	w.must(err)
	_, readOnly := w.token(&ctxfsv1.OpenPanelRequest{PanelId: "a", ReadOnly: true})
	inside := w.inside()
	for _, path := range []string{"/d/plain", "/d/new", "/d", "/"} {
		for _, r := range requests(t, path, 0o777) {
			for by, cc := range w.byEach(tcp) {
				err := w.as(readOnly, cc, r)
				if e, ok := fserrpb.FromStatus(err); !readers[r.name()] && !reads(r) && (!ok || e.Code != fserr.EROFS) {
					t.Errorf("%s %s by %s: %v, want EROFS", r.name(), path, by, err)
				}
			}
		}
	}
	for _, r := range everyMethod(t) {
		if changesByHandle[r.name()] {
			onHandle(r, opened.GetFd())
			for by, cc := range w.byEach(tcp) {
				if e, ok := fserrpb.FromStatus(w.as(readOnly, cc, r)); !ok || e.Code != fserr.EROFS {
					t.Errorf("%s of a handle that may write by %s: %v, want EROFS", r.name(), by, e)
				}
			}
		}
	}
	if d := inside.diff(w.inside()); len(d) > 0 {
		t.Errorf("a read-only panel changed something: %q", d)
	}
}

var changesByHandle = names("WriteFile AppendFile Write Writev WriteStream Ftruncate Fchmod Fchown Futimes")

// reads reports whether a request is an Open for reading only.
func reads(r request) bool {
	open, ok := r.msg.(*ctxfsv1.OpenRequest)
	return ok && open.GetFlags() == "r" && !open.GetAtomic()
}

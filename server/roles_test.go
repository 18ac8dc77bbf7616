package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/internal/peercred"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ownReview are the methods of ReviewService for a panel's own changes. It can neither decide nor apply.
var ownReview = map[string]bool{
	"ListChanges": true, "GetDiff": true, "ReadVersion": true, "GetReview": true, "WatchReview": true, "SubmitReview": true, "Discard": true,
}

// TestEveryMethodHasARole calls each registered method without an identity and as a panel.
func TestEveryMethodHasARole(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen = []string{"127.0.0.1:0"}
	r := start(t, cfg)
	token := r.openPanel(t, "panels/a").GetToken()
	cc := dial(t, r.Info().Addresses.TCP[0], nil)
	seen := map[string]bool{}
	for service, info := range r.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			name := "/" + service + "/" + m.Name
			seen[name] = true
			var nobody, panel codes.Code
			switch {
			case strings.HasPrefix(service, "grpc.health"):
				continue // open to all; see TestHealthIsOpen
			case strings.HasPrefix(service, "ctxfs.v1.FsService"), service == "ctxfs.v1.GatewayService", m.Name == "GetInfo", ownReview[m.Name],
				service == "ctxfs.v1.GitService" && m.Name != "Push", m.Name == "ListZones", m.Name == "ClearZone":
				nobody, panel = codes.Unauthenticated, codes.OK
			default:
				nobody, panel = codes.Unauthenticated, codes.PermissionDenied
			}
			if got := tryMethod(t, cc, name, m.IsServerStream || m.IsClientStream); got != nobody {
				t.Errorf("%s as nobody: %s, want %s", name, got, nobody)
			}
			if service == "ctxfs.v1.ExecService" && accessOf(method.Of(name)) != forExec {
				t.Errorf("%s is not open to panels with the right to run commands", name)
			}
			if panel == codes.OK {
				if accessOf(method.Of(name)) != forPanel {
					t.Errorf("%s is not open to panels", name)
				}
				continue
			}
			got := tryMethod(t, cc, name, m.IsServerStream || m.IsClientStream, "authorization", bearerOf(token))
			if got != panel {
				t.Errorf("%s as a panel: %s, want %s", name, got, panel)
			}
		}
	}
	if len(seen) < 60 || !seen[ctxfsv1.FsService_Session_FullMethodName] || !seen[ctxfsv1.FsService_Hold_FullMethodName] {
		t.Errorf("only %d methods were walked: %v", len(seen), seen)
	}
	if accessOf(method.Of("/ctxfs.v1.ContextService/Unheard")) != forNone || accessOf(method.Of("no-slash")) != forNone {
		t.Error("a method that is not in the table is open")
	}
}

func tryMethod(t *testing.T, cc *grpc.ClientConn, method string, stream bool, md ...string) codes.Code {
	t.Helper()
	ctx := with(t, md...)
	if !stream {
		return status.Code(cc.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}))
	}
	cs, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return status.Code(err)
	}
	_ = cs.SendMsg(&emptypb.Empty{}) // the refusal comes by RecvMsg
	_ = cs.CloseSend()
	return status.Code(cs.RecvMsg(&emptypb.Empty{}))
}

func TestWhoIsWho(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen = []string{"127.0.0.1:0"}
	r := start(t, cfg)
	tcp, unix := dial(t, r.Info().Addresses.TCP[0], nil), r.host(t)
	token, hostToken := r.openPanel(t, "panels/a").GetToken(), readToken(t, r)
	info := func(cc *grpc.ClientConn, md ...string) (*ctxfsv1.GetInfoResponse, error) {
		return ctxfsv1.NewContextServiceClient(cc).GetInfo(with(t, md...), &ctxfsv1.GetInfoRequest{})
	}
	for _, c := range []struct {
		name   string
		cc     *grpc.ClientConn
		md     []string
		code   codes.Code
		errno  string
		words  string
		panel  string
		folder bool
	}{
		{name: "nobody on TCP", cc: tcp, code: codes.Unauthenticated, errno: "EACCES", words: "Bearer TOKEN"},
		{name: "forged", cc: tcp, md: []string{"authorization", "Bearer " + strings.Repeat("x", 43)}, code: codes.Unauthenticated, errno: "EACCES"},
		{name: "forged on the unix socket", cc: unix, md: []string{"authorization", "Bearer xyz"}, code: codes.Unauthenticated, errno: "EACCES"},
		{name: "basic", cc: tcp, md: []string{"authorization", "Basic YTpi"}, code: codes.Unauthenticated, errno: "EACCES", words: "Bearer TOKEN"},
		{name: "two tokens", cc: tcp, md: []string{"authorization", bearerOf(token), "authorization", bearerOf(token)}, code: codes.Unauthenticated, errno: "EACCES"},
		{name: "panel", cc: tcp, md: []string{"authorization", bearerOf(token)}, panel: "panels/a"},
		{name: "panel on the unix socket is no host", cc: unix, md: []string{"authorization", bearerOf(token)}, panel: "panels/a"},
		{
			name: "panel acting for another", cc: tcp, md: []string{"authorization", bearerOf(token), panelKey, "panels/b"},
			code: codes.PermissionDenied, errno: "EACCES", words: panelKey,
		},
		{name: "host token acting for a panel", cc: tcp, md: []string{"authorization", bearerOf(hostToken), panelKey, "panels/a"}, panel: "panels/a", folder: true},
		{name: "peer acting for a panel", cc: unix, md: []string{panelKey, "panels/a"}, panel: "panels/a", folder: true},
		{name: "host that names none", cc: unix, code: codes.InvalidArgument, errno: "EINVAL", words: "set context_id"},
		{name: "host that names two", cc: unix, md: []string{panelKey, "a", panelKey, "b"}, code: codes.InvalidArgument, errno: "EINVAL"},
		{name: "host that names a bad one", cc: unix, md: []string{panelKey, "a b"}, code: codes.InvalidArgument, errno: "EINVAL", words: "explicit context_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := info(c.cc, c.md...)
			if c.code != codes.OK {
				wantError(t, err, c.code, c.errno, c.words)
				return
			}
			if err != nil || got.GetPanelId() != c.panel || got.GetPartition() != "persist:"+got.GetContextId() || (got.GetFolder() != "") != c.folder {
				t.Errorf("got %v, %v; want panel %q, folder %v", got, err, c.panel, c.folder)
			}
		})
	}
}

func TestRevokedTokenAndHostAuthByToken(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HostAuth = HostAuthToken
	r := start(t, cfg)
	cc := r.host(t)
	ps := ctxfsv1.NewPanelServiceClient(cc)
	_, err := ps.ListPanels(t.Context(), &ctxfsv1.ListPanelsRequest{})
	wantError(t, err, codes.Unauthenticated, "EACCES", "no token")
	host := with(t, "authorization", bearerOf(readToken(t, r)))
	opened, err := ps.OpenPanel(host, &ctxfsv1.OpenPanelRequest{PanelId: "p"})
	if err != nil {
		t.Fatal(err)
	}
	panel := with(t, "authorization", bearerOf(opened.GetToken()))
	fs := ctxfsv1.NewFsServiceClient(cc)
	if _, err := fs.Open(panel, &ctxfsv1.OpenRequest{Path: "/"}); err != nil {
		t.Fatal(err)
	}
	closed, err := ps.ClosePanel(host, &ctxfsv1.ClosePanelRequest{PanelId: "p"})
	if err != nil || closed.GetTokensRevoked() != 1 || closed.GetHandlesClosed() != 1 {
		t.Errorf("ClosePanel: %v, %v", closed, err)
	}
	_, err = fs.Stat(panel, &ctxfsv1.StatRequest{Path: "/"})
	wantError(t, err, codes.Unauthenticated, "EACCES", "")
	_, err = ps.OpenPanel(host, &ctxfsv1.OpenPanelRequest{PanelId: "p", TtlMs: 1 << 62})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "ttl_ms")
}

func TestPeerIsHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		peer     peercred.Cred
		self     uint32
		inUserNS bool
		want     bool
	}{
		{"same user", peercred.Cred{Known: true, UID: 1000}, 1000, false, true},
		{"root", peercred.Cred{Known: true}, 1000, false, true},
		{"another", peercred.Cred{Known: true, UID: 1001}, 1000, false, false},
		{"not known", peercred.Cred{UID: 1000}, 1000, false, false},
		{"overflow uid in a user namespace", peercred.Cred{Known: true, UID: overflowUID}, overflowUID, true, false},
		{"nobody's own server outside of one", peercred.Cred{Known: true, UID: overflowUID}, overflowUID, false, true},
	} {
		if got := isHost(c.peer, c.self, c.inUserNS); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

package attack

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	reflectv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// inside is what the attacker's context holds.
func (w *world) inside() snapshot {
	w.Helper()
	s := snapshot{files: map[string]string{}, ids: map[fileID]string{}}
	w.must(filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return s.add(path, false)
	}))
	return s
}

// mayPanel is what a panel may call besides FsService; mayAll what anybody may.
var (
	mayPanel = map[protoreflect.FullName]bool{
		"ctxfs.v1.ContextService.GetInfo": true, "ctxfs.v1.ReviewService.ListChanges": true, "ctxfs.v1.ReviewService.GetDiff": true,
		"ctxfs.v1.ReviewService.ReadVersion": true, "ctxfs.v1.ReviewService.GetReview": true, "ctxfs.v1.ReviewService.WatchReview": true,
		"ctxfs.v1.ReviewService.SubmitReview": true, "ctxfs.v1.ReviewService.Discard": true,
		"ctxfs.v1.GatewayService.OpenSite": true, "ctxfs.v1.GatewayService.CloseSite": true, "ctxfs.v1.GatewayService.ListSites": true,
		"ctxfs.v1.GatewayService.RenewSite": true, "ctxfs.v1.ZoneService.ListZones": true, "ctxfs.v1.ZoneService.ClearZone": true,
		"ctxfs.v1.GitService.ListRepositories": true, "ctxfs.v1.GitService.GitStatus": true, "ctxfs.v1.GitService.GitDiff": true,
		"ctxfs.v1.GitService.Pull": true, "ctxfs.v1.GitService.Stage": true, "ctxfs.v1.GitService.ListStaged": true,
		"ctxfs.v1.GitService.GetStaged": true, "ctxfs.v1.GitService.DiscardStaged": true, "ctxfs.v1.GitService.ListBranches": true,
	}
	mayAll = map[protoreflect.FullName]bool{"grpc.health.v1.Health": true}
)

// TestRoles calls every method that the server has registered, once without credentials and once as a panel.
func TestRoles(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	count := 0
	for _, name := range w.services() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		w.must(err)
		service, _ := d.(protoreflect.ServiceDescriptor)
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			count++
			w.checkRole(tcp, m)
		}
	}
	if count < 65 {
		t.Errorf("only %d methods were called", count)
	}
}

// services asks the server, as its host, what it has registered.
func (w *world) services() (all []protoreflect.FullName) {
	w.Helper()
	s, err := reflectv1.NewServerReflectionClient(w.cc).ServerReflectionInfo(w.host)
	w.must(err)
	w.must(s.Send(&reflectv1.ServerReflectionRequest{MessageRequest: &reflectv1.ServerReflectionRequest_ListServices{}}))
	resp, err := s.Recv()
	w.must(err)
	w.must(s.CloseSend())
	for _, service := range resp.GetListServicesResponse().GetService() {
		all = append(all, protoreflect.FullName(service.GetName()))
	}
	return all
}

func (w *world) checkRole(tcp grpc.ClientConnInterface, m protoreflect.MethodDescriptor) {
	w.Helper()
	msg, err := newMessage(m.Input())
	w.must(err)
	r := request{method: m, msg: msg}
	if mayAll[m.Parent().FullName()] {
		return
	}
	for by, cc := range w.byEach(tcp) {
		if err := w.as(w.Context(), cc, r); status.Code(err) != codes.Unauthenticated {
			w.Errorf("%s as nobody by %s: %v", m.FullName(), by, err)
		}
	}
	if m.Parent().Name() == "FsService" || mayPanel[m.FullName()] {
		return
	}
	for name, cc := range map[string]grpc.ClientConnInterface{"TCP": tcp, "the unix socket": w.cc, "JSON": &jsonConn{w, tcp}} {
		if err := w.as(w.attacker.ctx, cc, r); status.Code(err) != codes.PermissionDenied {
			w.Errorf("%s as a panel by %s: %v", m.FullName(), name, err)
		}
	}
}

// TestGetInfoTellsAPanelNoFolder is the one call of the host's services that is open to panels.
func TestGetInfoTellsAPanelNoFolder(t *testing.T) {
	w, tcp := identityWorld(t)
	defer w.finish()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName("ctxfs.v1.ContextService")
	w.must(err)
	service, _ := d.(protoreflect.ServiceDescriptor)
	m := service.Methods().ByName("GetInfo")
	msg, err := newMessage(m.Input())
	w.must(err)
	w.must(w.as(w.attacker.ctx, tcp, request{method: m, msg: msg})) // and as looks for paths
}

// TestForeignPages come by a browser that its user trusts.
func TestForeignPages(t *testing.T) {
	w, _ := identityWorld(t)
	defer w.finish()
	info := w.server.Info().Addresses
	for _, addr := range []string{info.HTTP, info.TCP[0]} {
		for _, origin := range []string{"https://evil.example", "null", "file://", "http://localhost:1", "http://" + addr + ".evil.example", "http://" + addr + "@evil.example", "https://" + addr, " http://" + addr + "/"} {
			header := http.Header{"Origin": {origin}, "Authorization": {"Bearer " + w.attacker.token}}
			ws, resp, err := websocket.Dial(t.Context(), "ws://"+addr+"/v1/session", &websocket.DialOptions{HTTPHeader: header, HTTPClient: w.web})
			if err == nil {
				_ = ws.CloseNow()
			}
			if resp == nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("a WebSocket from %q: %v", origin, err)
			}
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions} {
				if code, body := w.ask(method, addr, "/v1/content?path=/d/plain", addr, header); code < 400 || strings.Contains(body, "inside") {
					t.Errorf("%s from %q: %d %q", method, origin, code, body)
				}
			}
			inJSON := header.Clone()
			inJSON.Set("Content-Type", "application/json")
			for _, method := range []string{http.MethodPost, http.MethodOptions} {
				if code, body := w.ask(method, addr, "/v1/FsService/Readdir", addr, inJSON); code != http.StatusForbidden {
					t.Errorf("%s of a call from %q: %d %q", method, origin, code, body)
				}
			}
		}
		two := http.Header{"Origin": {"http://" + addr, "https://evil.example"}, "Authorization": {"Bearer " + w.attacker.token}}
		if code, _ := w.ask(http.MethodGet, addr, "/v1/content?path=/d/plain", addr, two); code != http.StatusForbidden {
			t.Errorf("two origins: %d", code)
		}
	}
}

// TestRebinding has a page's own name lead to this machine.
func TestRebinding(t *testing.T) {
	w, _ := identityWorld(t)
	defer w.finish()
	info := w.server.Info().Addresses
	header := http.Header{"Authorization": {"Bearer " + w.attacker.token}}
	for _, addr := range []string{info.HTTP, info.TCP[0]} {
		_, port, _ := strings.Cut(addr, ":")
		for _, host := range []string{
			"evil.example", "evil.example:" + port, "127.0.0.1.evil.example:" + port, "localhost.evil.example", "localhost.", "127.0.0.1@evil.example", "0.0.0.0:" + port,
			"[::ffff:10.0.0.1]", "2130706433", "169.254.169.254",
		} {
			for _, path := range []string{"/v1/content?path=/d/plain", "/v1/session", "/v1/openapi.json", "/livez", "/readyz", "/metrics", "/"} {
				if code, body := w.ask(http.MethodGet, addr, path, host, header); code < 400 {
					t.Errorf("%s of Host %q at %s: %d %q", path, host, addr, code, body)
				}
			}
		}
		if code, body := w.ask(http.MethodGet, addr, "/v1/content?path=/d/plain", "localhost:"+port, header); code != http.StatusOK || body != "inside" {
			t.Errorf("by its own name: %d %q", code, body)
		}
	}
	for _, addr := range []string{info.HTTP, info.TCP[0]} {
		for _, c := range []struct{ method, target, host string }{
			{"GET", "http://" + addr + "/v1/content?path=/d/plain", "evil.example"},
			{"GET", "http://evil.example/v1/content?path=/d/plain", addr},
			{"GET", "http://" + addr + "/v1/content?path=/d/plain", addr},
			{"GET", "http://evil.example@" + addr + "/v1/content?path=/d/plain", addr},
			{"GET", "HTTP://LOCALHOST/v1/content?path=/d/plain", addr},
			{"GET", "http://localhost./v1/content?path=/d/plain", addr},
			{"GET", "http://" + addr + "/console/", "evil.example"},
			{"GET", "http://" + addr + "/livez", "evil.example"},
			{"POST", "http://" + addr + "/v1/console/exchange", "evil.example"},
			{"CONNECT", addr, addr},
			{"CONNECT", "evil.example:80", addr},
			{"OPTIONS", "*", "evil.example"},
		} {
			if code, body := w.askRaw(addr, c.method, c.target, c.host, w.attacker.token); code != http.StatusMisdirectedRequest && code != http.StatusForbidden && code != http.StatusBadRequest {
				t.Errorf("%s %s of Host %s at %s: %d %q", c.method, c.target, c.host, addr, code, body)
			}
		}
	}
	if code, _ := w.ask(http.MethodGet, info.HTTP, "/metrics", info.HTTP, header); code != http.StatusUnauthorized {
		t.Errorf("a panel reads the metrics: %d", code)
	}
}

// askRaw sends a request line and a Host as they are.
func (w *world) askRaw(addr, method, target, host, token string) (code int, body string) {
	w.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", addr)
	w.must(err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method, target, host, token)
	w.must(err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.must(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	w.must(err)
	w.checkBytes(target, data)
	return resp.StatusCode, string(data)
}

// ask makes a request of addr under the name of host.
func (w *world) ask(method, addr, path, host string, header http.Header) (code int, body string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, "http://"+addr+path, strings.NewReader("attacked"))
	w.must(err)
	req.Host, req.Header = host, header
	if method == http.MethodGet {
		req.Body, req.ContentLength = nil, 0
	}
	resp, err := w.web.Do(req)
	if err != nil {
		return http.StatusBadRequest, err.Error() // Go's HTTP server itself refuses some names
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	w.must(err)
	w.checkBytes(path, data)
	return resp.StatusCode, string(data)
}

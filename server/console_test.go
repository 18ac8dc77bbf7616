package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/zap"

	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/internal/method"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// consoleFiles stand for the page.
var consoleFiles = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}, "assets/a-1.js": {Data: []byte("1")}}

// consoleServer is a server with the console, a clock that the test moves, and a log.
type consoleServer struct {
	*running
	*testing.T
	late atomic.Int64
	log  *observer.ObservedLogs
}

func startConsole(t *testing.T, change func(*Config), edit func(*Server)) *consoleServer {
	t.Helper()
	cfg := testConfig(t)
	cfg.HTTP, cfg.AuditLog, cfg.Origins = "127.0.0.1:0", filepath.Join(cfg.Workspace, "audit.log"), []string{"http://localhost:5173"}
	change(&cfg)
	core, log := observer.New(zap.InfoLevel)
	c := &consoleServer{T: t, log: log}
	now := func() time.Time { return time.Now().Add(time.Duration(c.late.Load())) }
	c.running = startDeps(t, cfg, Deps{Log: zap.New(core), Console: consoleFiles, Now: now}, edit)
	return c
}

// link returns what OpenConsole returns.
func (c *consoleServer) link() *ctxfsv1.OpenConsoleResponse {
	c.Helper()
	r, err := ctxfsv1.NewConsoleServiceClient(c.host(c.T)).OpenConsole(c.Context(), &ctxfsv1.OpenConsoleRequest{})
	if err != nil {
		c.Fatal(err)
	}
	return r
}

// asker returns one that asks as the console's page does. The token may be "".
func (c *consoleServer) asker(token string) *asker {
	transport := &http.Transport{}
	c.Cleanup(transport.CloseIdleConnections)
	base := "http://" + c.Info().Addresses.HTTP
	a := &asker{c.T, &http.Client{Transport: transport}, base, http.Header{"Origin": {base}, "Sec-Fetch-Site": {"same-origin"}}}
	if token != "" {
		a.header.Set("Authorization", bearerOf(token))
	}
	return a
}

// exchange exchanges a code, and returns the status, the token and the answer.
func (c *consoleServer) exchange(code string, headers ...string) (status int, token, text string) {
	c.Helper()
	return exchange(c.asker(""), code, headers...)
}

func exchange(a *asker, code string, headers ...string) (status int, token, text string) {
	a.Helper()
	body, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		a.Fatal(err)
	}
	resp := a.rpc("console/exchange", string(body), headers...)
	text = answered(a.T, resp)
	var given struct{ Token string }
	_ = json.Unmarshal([]byte(text), &given) // errors are looked at as text
	return resp.StatusCode, given.Token, text
}

// open returns the token of a new console.
func (c *consoleServer) open() string {
	c.Helper()
	status, token, text := c.exchange(c.link().GetCode())
	if status != http.StatusOK || !strings.HasPrefix(token, console.TokenPrefix) {
		c.Fatalf("%d %s", status, text)
	}
	return token
}

// works reports whether a token may list contexts.
func (c *consoleServer) works(token string) bool {
	c.Helper()
	resp := c.asker(token).rpc("ContextService/ListContexts", "{}")
	_ = answered(c.T, resp)
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		c.Errorf("ListContexts: %s", resp.Status)
	}
	return resp.StatusCode == http.StatusOK
}

func TestConsoleLink(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(*Config) {}, func(*Server) {})
	link := c.link()
	if link.GetUrl() != "http://"+c.Info().Addresses.HTTP+"/console/#code="+link.GetCode() || len(link.GetCode()) != 43 {
		t.Errorf("the link is %s", link.GetUrl())
	}
	for name, headers := range map[string][]string{
		"another origin":       {"Origin", "http://evil.example"},
		"a listed origin":      {"Origin", "http://localhost:5173"},
		"no origin":            {"Origin", ""},
		"an opaque origin":     {"Origin", "null"},
		"https":                {"Origin", "https://" + c.Info().Addresses.HTTP},
		"another port":         {"Origin", "http://127.0.0.1:1"},
		"another page it says": {"Sec-Fetch-Site", "cross-site"},
		"a sibling it says":    {"Sec-Fetch-Site", "same-site"},
	} {
		if status, _, text := c.exchange(link.GetCode(), headers...); status != http.StatusForbidden || !strings.Contains(text, "console") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if resp := c.asker("").rpc("console/exchange", "{}", "Content-Type", "text/plain"); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("not declared as JSON: %s", resp.Status)
	}
	for _, body := range []string{"", "[]", `{"code":1}`, `{"code":"` + strings.Repeat("x", 2000) + `"}`} {
		if resp := c.asker("").rpc("console/exchange", body); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%.20q: %s", body, resp.Status)
		}
	}
	status, token, text := c.exchange(link.GetCode())
	if status != http.StatusOK || !c.works(token) || !strings.Contains(text, `"version":"1.2.3"`) || !strings.Contains(text, `"rights":["review"`) {
		t.Fatalf("the refused requests used the code up: %d %s", status, text)
	}
	if status, _, text := c.exchange(link.GetCode()); status != http.StatusGone || !strings.Contains(text, "run 'ctxfs console' again") || c.works(token) {
		t.Errorf("the second use: %d %s", status, text)
	}
	if c.log.FilterMessageSnippet("used twice").Len() != 1 {
		t.Error("the second use is not logged")
	}
	late := c.link()
	c.late.Store(int64(console.CodeLife))
	if status, _, text := c.exchange(late.GetCode()); status != http.StatusForbidden || !strings.Contains(text, "has expired") || !strings.Contains(text, "run 'ctxfs console' again") {
		t.Errorf("after two minutes: %d %s", status, text)
	}
	audit, err := os.ReadFile(c.cfg.AuditLog)
	if err != nil || bytes.Contains(audit, []byte(link.GetCode())) || bytes.Contains(audit, []byte(token)) || bytes.Count(audit, []byte(`"op":"ExchangeConsole"`)) != 3 {
		t.Errorf("the audit log is %v\n%s", err, audit)
	}
	for _, entry := range c.log.All() {
		if text := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(text, link.GetCode()) || strings.Contains(text, token) {
			t.Errorf("a line of the log has a secret: %s", text)
		}
	}
}

func TestConsoleTokenIsForItsPage(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(cfg *Config) { cfg.Listen = []string{"127.0.0.1:0"} }, func(*Server) {})
	token := c.open()
	for name, k := range map[string]struct {
		headers []string
		status  int
	}{
		"its page":               {nil, 200},
		"no browser":             {[]string{"Origin", "", "Sec-Fetch-Site", ""}, 200},
		"another origin":         {[]string{"Origin", "http://evil.example"}, 403},
		"a listed origin":        {[]string{"Origin", "http://localhost:5173"}, 403},
		"a page it says":         {[]string{"Origin", "", "Sec-Fetch-Site", "cross-site"}, 403},
		"acting for a panel":     {[]string{"Ctxfs-Panel", "panels/a"}, 403},
		"cookies have no effect": {[]string{"Authorization", "", "Cookie", "token=" + token}, 401},
		"scheme in lower case":   {[]string{"Authorization", "bearer " + token, "Origin", "http://localhost:5173"}, 403},
		"rebound name":           {[]string{"Host", "rebound.example"}, 403},
	} {
		a := c.asker(token)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.base+"/v1/ContextService/GetInfo", strings.NewReader(`{"contextId":"ctx_x"}`))
		if k.status == 200 {
			r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, a.base+"/v1/ContextService/ListContexts", strings.NewReader(`{}`))
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Header = a.header.Clone()
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(k.headers); i += 2 {
			switch key, value := k.headers[i], k.headers[i+1]; {
			case key == "Host":
				r.Host = value
			case value == "":
				r.Header.Del(key)
			default:
				r.Header.Set(key, value)
			}
		}
		resp, err := a.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if text := answered(t, resp); resp.StatusCode != k.status {
			t.Errorf("%s: %s %s", name, resp.Status, text)
		}
		_ = resp.Body.Close()
	}
	for _, target := range []string{c.Info().Addresses.TCP[0], c.Info().Addresses.Target()} {
		_, err := ctxfsv1.NewContextServiceClient(dial(t, target, nil)).ListContexts(with(t, "authorization", bearerOf(token)), &ctxfsv1.ListContextsRequest{})
		wantError(t, err, codes.Unauthenticated, "EACCES", "over HTTP alone")
	}
}

// consoleMay are the methods that a console may call, by service. "*" means all.
var consoleMay = map[string]string{
	"FsService":       "ReadFile Readdir Opendir Stat Lstat Statfs Access Exists Realpath Readlink Watch Glob Grep ReadStream Export",
	"ReviewService":   "*",
	"GitService":      "*",
	"ExecService":     "*",
	"GatewayService":  "*",
	"ContextService":  "GetContext ListContexts GetInfo PlanSeed ListSnapshots CollectGarbage",
	"PanelService":    "ListPanels",
	"TemplateService": "ListTemplates ExplainTemplate",
	"ZoneService":     "ListZones ResolvePath ExplainZones",
	"ConsoleService":  "EndConsole ReadAudit WatchMetrics",
}

// TestWhatConsoleMayCall checks each method, and calls those over HTTP that are refused.
func TestWhatConsoleMayCall(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(*Config) {}, func(*Server) {})
	a, id, refused := c.asker(c.open()), panels.Identity{Role: panels.RoleHost, Console: true}, 0
	for service, info := range c.grpc.GetServiceInfo() {
		short, ours := strings.CutPrefix(service, "ctxfs.v1.")
		for _, m := range info.Methods {
			desc := method.Of("/" + service + "/" + m.Name)
			if accessOf(desc) == forAll {
				continue
			}
			want := ours && (consoleMay[short] == "*" || slices.Contains(strings.Fields(consoleMay[short]), m.Name))
			if err := mayCall(id, desc); (err == nil) != want {
				t.Errorf("%s: %v", desc.Name, err)
			}
			if want || !ours || m.IsClientStream {
				continue
			}
			refused++
			resp := a.rpc(short+"/"+m.Name, "{}")
			if text := answered(t, resp); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "a console may not call "+short+"/"+m.Name) {
				t.Errorf("%s: %s %s", desc.Name, resp.Status, text)
			}
		}
	}
	if refused < 30 {
		t.Errorf("only %d methods were refused", refused)
	}
}

// TestConsoleActsAsPerson calls what a console does: it reads, reviews, and may not write by a call that reads.
func TestConsoleActsAsPerson(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(*Config) {}, func(*Server) {})
	c.openPanel(t, "panels/a")
	write(t, filepath.Join(c.Info().ContextsDir, "ctx_panels~a", "new.txt"), "one\n")
	a := c.asker(c.open())
	for _, k := range []struct {
		rpc, body string
		status    int
		words     string
	}{
		{"ContextService/ListContexts", `{}`, 200, "ctx_panels~a"},
		{"PanelService/ListPanels", `{}`, 200, "panels/a"},
		{"FsService/Readdir", `{"contextId":"ctx_panels~a","path":"/"}`, 200, "new.txt"},
		{"FsService/ReadFile", `{"contextId":"ctx_panels~a","path":"/new.txt","encoding":"utf8"}`, 200, "one"},
		{"FsService/ReadFile", `{"contextId":"ctx_panels~a","path":"/new.txt","flag":"w+"}`, 400, "EROFS"},
		{"ReviewService/ListChanges", `{"contextId":"ctx_panels~a"}`, 200, "new.txt"},
		{"ReviewService/Decide", `{"contextId":"ctx_panels~a","selection":{"all":true},"decision":"DECISION_APPROVED"}`, 200, `"changes":1`},
		{"ReviewService/Apply", `{"contextId":"ctx_panels~a","commit":{"hooks":"COMMIT_HOOKS_RUN"}}`, 403, "hooks"},
		{"ContextService/CollectGarbage", `{"dryRun":true}`, 200, ""},
		{"ContextService/CollectGarbage", `{}`, 403, "ctxfs gc"},
		{"ExecService/Start", `{"command":{"contextId":"ctx_panels~a","argv":["true"],"network":{"names":["example.com"]}}}`, 403, "only a host"},
		{"ExecService/ListProcesses", `{}`, 200, ""},
		{"GatewayService/ListSites", `{}`, 200, ""},
	} {
		resp := a.rpc(k.rpc, k.body)
		if text := answered(t, resp); resp.StatusCode != k.status || !strings.Contains(text, k.words) {
			t.Errorf("%s %s: %s %s", k.rpc, k.body, resp.Status, text)
		}
	}
	audit, err := os.ReadFile(c.cfg.AuditLog)
	if err != nil || !strings.Contains(string(audit), `"role":"console","context":"ctx_panels~a","op":"Decide"`) {
		t.Errorf("the audit log does not name the console: %v\n%s", err, audit)
	}
}

func TestConsoleEndsItself(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(*Config) {}, func(*Server) {})
	first, second, third := c.open(), c.open(), c.open()
	follow := c.asker(first).rpc("ConsoleService/WatchMetrics", "{}")
	lines := bufio.NewScanner(follow.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), "history") {
		t.Fatalf("the stream begins with %q", lines.Text())
	}
	if text := answered(t, c.asker(first).rpc("ConsoleService/EndConsole", "{}")); !strings.Contains(text, `"ended":1`) {
		t.Errorf("EndConsole: %s", text)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if !strings.Contains(last, "this console has ended") {
		t.Errorf("its stream ends with %q, %v", last, lines.Err())
	}
	if c.works(first) || !c.works(second) {
		t.Error("it did not end itself alone")
	}
	c.late.Store(int64(console.IdleLife))
	if c.works(third) {
		t.Error("an idle console is alive")
	}
	c.late.Store(0)
	fourth := c.open()
	r, err := ctxfsv1.NewConsoleServiceClient(c.host(t)).EndConsole(t.Context(), &ctxfsv1.EndConsoleRequest{})
	if err != nil || r.GetEnded() < 1 || c.works(fourth) {
		t.Errorf("a host ends all: %v, %v", r, err)
	}
}

func TestConsoleByTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	c := startConsole(t, func(cfg *Config) { cfg.TLSCert, cfg.TLSKey = ca.files(t, "ctxfs.example.com") }, func(*Server) {})
	address := c.Info().Addresses.HTTP
	link := c.link()
	if !strings.HasPrefix(link.GetUrl(), "https://"+address+"/console/#code=") {
		t.Errorf("the link is %s", link.GetUrl())
	}
	var dialer net.Dialer
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	base := "https://ctxfs.example.com"
	a := &asker{t, &http.Client{Transport: transport}, base, http.Header{"Origin": {base}}}
	if status, _, text := exchange(a, link.GetCode(), "Origin", "http://ctxfs.example.com"); status != http.StatusForbidden {
		t.Errorf("from a page in plain text: %d %s", status, text)
	}
	if status, token, text := exchange(a, link.GetCode()); status != http.StatusOK || token == "" {
		t.Errorf("%d %s", status, text)
	}
}

// TestPageOfConsole checks where the page is, and where it is not.
func TestPageOfConsole(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(cfg *Config) { cfg.Listen, cfg.Gateway = []string{"127.0.0.1:0"}, "127.0.0.1:0" }, func(*Server) {})
	addresses := c.Info().Addresses
	_, port, _ := net.SplitHostPort(addresses.Gateway)
	get := func(method, address, path, host string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := c.asker("").client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	resp := get("GET", addresses.HTTP, "/console/", "")
	if policy := resp.Header.Get("Content-Security-Policy"); resp.StatusCode != http.StatusOK || !strings.Contains(policy, "frame-src http://*.localhost:"+port+";") {
		t.Errorf("%s, policy %q", resp.Status, policy)
	}
	if resp := get("HEAD", addresses.HTTP, "/console/assets/a-1.js", ""); resp.StatusCode != http.StatusOK || resp.ContentLength != 1 {
		t.Errorf("HEAD: %s, %d bytes", resp.Status, resp.ContentLength)
	}
	if resp := get("GET", addresses.HTTP, "/console", ""); resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/console/" {
		t.Errorf("without the slash: %s at %s", resp.Status, resp.Request.URL)
	}
	for name, k := range map[string]struct{ address, path, host string }{
		"by a rebound name":     {addresses.HTTP, "/console/", "rebound.example"},
		"by a site's name":      {addresses.HTTP, "/console/", "a.localhost"},
		"on gRPC's address":     {addresses.TCP[0], "/console/", ""},
		"on the sites' address": {addresses.Gateway, "/console/", ""},
		"out of the page":       {addresses.HTTP, "/console/%2e%2e/%2e%2e/etc/passwd", ""},
	} {
		if resp := get("GET", k.address, k.path, k.host); resp.StatusCode < 400 {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}

func TestServerWithoutConsole(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	c := ctxfsv1.NewConsoleServiceClient(r.host(t))
	_, err := c.OpenConsole(t.Context(), &ctxfsv1.OpenConsoleRequest{})
	wantError(t, err, codes.Unimplemented, "EOPNOTSUPP", "--http 127.0.0.1:7421")
	stream, err := c.ReadAudit(t.Context(), &ctxfsv1.ReadAuditRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	wantError(t, err, codes.Unimplemented, "EOPNOTSUPP", "--audit-log")
}

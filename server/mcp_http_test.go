package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// mcpClient sends requests to /v1/mcp.
type mcpClient struct {
	*testing.T
	client         *http.Client
	url, token, id string
	// header has further headers.
	header http.Header
}

// newMCPClient begins a session.
func newMCPClient(t *testing.T, r *running, token string) *mcpClient {
	t.Helper()
	m := mcpClientOf(t, r, token)
	if code, answer := m.begin(); code != http.StatusOK {
		t.Fatalf("initialize: %d, %s", code, answer)
	}
	return m
}

func mcpClientOf(t *testing.T, r *running, token string) *mcpClient {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &mcpClient{t, &http.Client{Transport: transport}, "http://" + r.Info().Addresses.HTTP + "/v1/mcp", token, "", nil}
}

func (m *mcpClient) begin() (int, string) {
	m.Helper()
	resp := m.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	m.id = resp.Header.Get("Mcp-Session-Id")
	return resp.StatusCode, answered(m.T, resp)
}

func (m *mcpClient) send(method, body string) *http.Response {
	m.Helper()
	r, err := http.NewRequestWithContext(m.Context(), method, m.url, strings.NewReader(body))
	if err != nil {
		m.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {bearerOf(m.token)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if m.id != "" {
		r.Header.Set("Mcp-Session-Id", m.id)
	}
	maps.Copy(r.Header, m.header)
	resp, err := m.client.Do(r)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// list returns the status and the answer of a call of tools/list.
func (m *mcpClient) list() (int, string) {
	m.Helper()
	resp := m.send(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	return resp.StatusCode, answered(m.T, resp)
}

// TestMCPSessionEndsWhenIdle waits until a session without requests has ended. One whose client listens stays.
func TestMCPSessionEndsWhenIdle(t *testing.T) {
	t.Parallel()
	r := startWith(t, sessionConfig(t), func(s *Server) { s.gateway.MCPIdle = 200 * time.Millisecond })
	token := r.openPanel(t, "p").GetToken()
	idle, listens := newMCPClient(t, r, token), newMCPClient(t, r, token)
	for listens.send(http.MethodGet, "").StatusCode != http.StatusOK { // it ended before it listened
		listens = newMCPClient(t, r, token)
	}
	eventually(t, "the idle session ends", func() bool { return r.gateway.MCPSessions() == 1 })
	if code, _ := idle.list(); code != http.StatusNotFound {
		t.Errorf("the session that was idle: %d", code)
	}
	if code, answer := listens.list(); code != http.StatusOK {
		t.Errorf("the session of the client that listens: %d, %s", code, answer)
	}
}

// TestMCPSessionLivesWithItsPanelsTokens lets the token of a session expire, after the client has sent another one or has not.
func TestMCPSessionLivesWithItsPanelsTokens(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	panels := ctxfsv1.NewPanelServiceClient(r.host(t))
	further := r.openPanel(t, "p").GetToken()
	var ends, goesOn *mcpClient
	for life := int64(500); ; life *= 2 { // until both sessions have begun while the token lives
		short, err := panels.OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "p", TtlMs: life})
		if err != nil {
			t.Fatal(err)
		}
		ends, goesOn = mcpClientOf(t, r, short.GetToken()), mcpClientOf(t, r, short.GetToken())
		first, _ := ends.begin()
		second, _ := goesOn.begin()
		goesOn.token = further
		if code, _ := goesOn.list(); first == http.StatusOK && second == http.StatusOK && code == http.StatusOK {
			break
		}
	}
	_ = answered(t, ends.send(http.MethodGet, "")) // it ends with the token
	if code, _ := ends.list(); code != http.StatusUnauthorized {
		t.Errorf("with the token that has expired: %d", code)
	}
	ends.token = further
	if code, _ := ends.list(); code != http.StatusNotFound {
		t.Errorf("the session whose token has expired: %d", code)
	}
	if code, answer := goesOn.list(); code != http.StatusOK {
		t.Errorf("the session that has another token: %d, %s", code, answer)
	}
}

// TestMCPSessionsEndWithTheServer stops a server while clients listen.
func TestMCPSessionsEndWithTheServer(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	p := r.openPanel(t, "p")
	m := newMCPClient(t, r, p.GetToken())
	resp := m.send(http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"ctxfs://`+p.GetContextId()+`/"}}`)
	if got := answered(t, resp); !strings.Contains(got, `"result":{}`) {
		t.Fatalf("subscribe: %s", got)
	}
	stream := m.send(http.MethodGet, "")
	r.stop()
	if _, err := bufio.NewReader(stream.Body).ReadString(0); err != io.EOF {
		t.Errorf("the stream of notifications ended with %v", err)
	}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

// TestMCPCallsAreRecorded looks for the panel in the log of a tool's call.
func TestMCPCallsAreRecorded(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
	r := start(t, cfg)
	m := newMCPClient(t, r, r.openPanel(t, "p").GetToken())
	resp := m.send(http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"/a.txt","content":"x"}}}`)
	if got := answered(t, resp); !strings.Contains(got, "Successfully wrote") {
		t.Fatalf("write_file: %s", got)
	}
	all := audits(t, cfg.AuditLog)
	if want := "panel|p|ctx_p|WriteFile|/a.txt|||ok|1"; !slices.Contains(all, want) {
		t.Errorf("the audit log has no %s:\n%s", want, strings.Join(all, "\n"))
	}
}

// call begins a call of a tool.
func (m *mcpClient) call(ctx context.Context, tool, path string) (*http.Response, error) {
	m.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"path":%q}}}`, rand.Text(), tool, path)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, strings.NewReader(body))
	if err != nil {
		m.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {bearerOf(m.token)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {m.id}}
	return m.client.Do(r)
}

// TestMCPMessagesStayInBudget leaves answers unread, sends half a message, leaves while a call waits, and closes the panel.
func TestMCPMessagesStayInBudget(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive, cfg.MemoryPerConnection, cfg.MemoryPerPanel = time.Hour, 1<<20, 1<<20
	core, log := observer.New(zap.DebugLevel)
	r := startDeps(t, cfg, Deps{Log: zap.New(core)}, func(*Server) {})
	const size = 3 << 20
	m := mcpClientOf(t, r, r.openPanel(t, "p").GetToken())
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // less than the answer
		}
		return conn, err
	}
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	m.client = &http.Client{Transport: transport}
	if code, answer := m.begin(); code != http.StatusOK {
		t.Fatalf("initialize: %d, %s", code, answer)
	}
	if err := os.Truncate(write(t, filepath.Join(r.folder("ctx_p"), "a.bin"), ""), size); err != nil {
		t.Fatal(err)
	}
	held, inFlight := r.calls.limits.memory.Held, r.calls.limits.use("p").inFlight.Load
	unread, err := m.call(t.Context(), "read_media_file", "/a.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Body.Close()
	if held() < jsonCost*size {
		t.Errorf("an answer that is not read holds %d bytes, want %d", held(), jsonCost*size)
	}
	alone := inFlight()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		resp, err := m.call(ctx, "read_media_file", "/a.bin")
		if err == nil {
			_ = resp.Body.Close()
		}
		left <- err
	}()
	eventually(t, "a second call waits for memory", func() bool { return inFlight() > alone })
	leave()
	if err := <-left; err == nil {
		t.Error("the second call was answered, though there is no memory for it")
	}
	eventually(t, "the call ends with its request", func() bool { return inFlight() == alone })
	eventually(t, "the log has one read that was cancelled", func() bool { // a call leaves its panel's count before it is logged
		return log.FilterField(zap.String("errno", "ECANCELED")).FilterField(zap.String("op", ctxfsv1.FsService_ReadFile_FullMethodName)).Len() == 1
	})
	before := held()
	conn, err := net.Dial("tcp", r.Info().Addresses.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /v1/mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n{", bearerOf(m.token), size); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half a message is counted", func() bool { return held() >= before+size })
	if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	eventually(t, "nothing is held", func() bool { return held() == 0 })
}

// TestMCPCallsHaveTheTokenOfTheirRequest writes with a token that may only read, in a session that another token of the panel uses at the
// same time.
func TestMCPCallsHaveTheTokenOfTheirRequest(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	writes := newMCPClient(t, r, r.openPanel(t, "p").GetToken())
	reader, err := ctxfsv1.NewPanelServiceClient(r.host(t)).OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "p", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	const change = `{"jsonrpc":"2.0","id":"%d-%d","method":"tools/call","params":{"name":"create_directory","arguments":{"path":"%s"}}}`
	var all sync.WaitGroup
	for n := range 4 {
		m := mcpClientOf(t, r, writes.token)
		want, path := "Successfully", "/written"
		if n%2 == 0 {
			m.token, want, path = reader.GetToken(), "EROFS", "/forged"
		}
		m.id = writes.id
		all.Go(func() {
			for i := range 25 {
				if got := answered(t, m.send(http.MethodPost, fmt.Sprintf(change, n, i, path))); !strings.Contains(got, want) {
					t.Errorf("the answer lacks %s: %s", want, got)
				}
			}
		})
	}
	all.Wait()
}

// TestMCPIsForPanels sends the tokens of a host and of a console.
func TestMCPIsForPanels(t *testing.T) {
	t.Parallel()
	c := startConsole(t, func(*Config) {}, func(*Server) {})
	c.openPanel(t, "p")
	for name, header := range map[string]http.Header{
		"host": {"Authorization": {bearerOf(readToken(t, c.running))}}, "console": {"Authorization": {bearerOf(c.open())}},
		"console for a panel": {"Authorization": {bearerOf(c.open())}, "Ctxfs-Panel": {"p"}},
	} {
		m := mcpClientOf(t, c.running, "")
		m.header = header
		if code, answer := m.begin(); code != http.StatusForbidden || strings.Contains(answer, "serverInfo") {
			t.Errorf("%s: %d, %s", name, code, answer)
		}
	}
	m := mcpClientOf(t, c.running, readToken(t, c.running))
	m.header = http.Header{"Ctxfs-Panel": {"p"}}
	if code, answer := m.begin(); code != http.StatusOK {
		t.Errorf("a host that acts for a panel: %d, %s", code, answer)
	}
}

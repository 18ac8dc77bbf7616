package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestRPCDoor sends requests that the HTTP side answers itself, and callers of each kind.
func TestRPCDoor(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Origins = []string{"http://localhost:5173"}
	r := start(t, cfg)
	token, host := bearerOf(r.openPanel(t, "p").GetToken()), bearerOf(readToken(t, r))
	write(t, filepath.Join(r.folder("ctx_p"), "a"), "x")
	const stat, kind, page = "FsService/Stat", "Content-Type", "http://localhost:5173"
	for _, c := range []struct {
		name, method, rpc string
		// headers are pairs. Without Content-Type the body is JSON.
		headers []string
		status  int
		// header and value are a header of the answer, and want is a part of its body.
		header, value, want string
	}{
		{"a panel's token", "POST", stat, []string{"Authorization", token}, 200, "Content-Type", "application/json", `"size":"1"`},
		{"JSON in UTF-8", "POST", stat, []string{"Authorization", token, kind, "application/json; charset=UTF-8"}, 200, "Cache-Control", "no-store", ""},
		{"JSON in another charset", "POST", stat, []string{"Authorization", token, kind, "application/json; charset=latin1"}, 415, "Ctxfs-Error", "EINVAL", "curl --json"},
		{"a form", "POST", stat, []string{"Authorization", token, kind, "application/x-www-form-urlencoded"}, 415, "Ctxfs-Error", "EINVAL", "Content-Type: application/json"},
		{"text", "POST", stat, []string{"Authorization", token, kind, "text/plain"}, 415, "Ctxfs-Error", "EINVAL", ""},
		{"no type", "POST", stat, []string{"Authorization", token, kind, ""}, 415, "Ctxfs-Error", "EINVAL", ""},
		{"GET", "GET", stat, []string{"Authorization", token}, 405, "Allow", "POST, OPTIONS", "POST"},
		{"HEAD", "HEAD", stat, []string{"Authorization", token}, 405, "Allow", "POST, OPTIONS", ""},
		{"DELETE", "DELETE", stat, []string{"Authorization", token}, 405, "Allow", "POST, OPTIONS", ""},
		{"no token", "POST", stat, nil, 401, "WWW-Authenticate", "Bearer", "no token"},
		{"a wrong token", "POST", stat, []string{"Authorization", "Bearer x"}, 401, "Ctxfs-Error", "EACCES", `"code":16`},
		{"a token in the query", "POST", stat + "?authorization=" + token[len("Bearer "):], nil, 401, "Ctxfs-Error", "EACCES", ""},
		{"a cookie", "POST", stat, []string{"Cookie", "authorization=" + token}, 401, "Ctxfs-Error", "EACCES", ""},
		{"the host's token", "POST", "PanelService/ListPanels", []string{"Authorization", host}, 200, "", "", `"panelId":"p"`},
		{"the host for a panel", "POST", stat, []string{"Authorization", host, "Ctxfs-Panel", "p"}, 200, "", "", `"size":"1"`},
		{"the host without a panel", "POST", stat, []string{"Authorization", host}, 400, "Ctxfs-Error", "EINVAL", ""},
		{"a panel for another", "POST", stat, []string{"Authorization", token, "Ctxfs-Panel", "q"}, 403, "Ctxfs-Error", "EACCES", ""},
		{"a host's call by a panel", "POST", "ContextService/ListContexts", []string{"Authorization", token}, 403, "Ctxfs-Error", "EACCES", ""},
		{"a request ID", "POST", "PanelService/ListPanels", []string{"Authorization", token, "X-Request-Id", "mine"}, 403, "X-Request-Id", "mine", ""},
		{"a page that is listed", "POST", stat, []string{"Authorization", token, "Origin", page}, 200, "Access-Control-Allow-Origin", page, ""},
		{"a page that is listed, refused", "POST", stat, []string{"Origin", page}, 401, "Access-Control-Allow-Origin", page, ""},
		{"a page that is not", "POST", stat, []string{"Authorization", token, "Origin", "http://evil.example"}, 403, "Access-Control-Allow-Origin", "", "--origin"},
		{"a sandboxed page", "POST", stat, []string{"Authorization", token, "Origin", "null"}, 403, "Access-Control-Allow-Origin", "", ""},
		{"a page that asks first", "OPTIONS", stat, []string{"Origin", page}, 204, "Access-Control-Allow-Headers", "Authorization, Content-Type, Ctxfs-Panel, Ctxfs-Timeout, X-Request-Id", ""},
		{"a page that asks first, not listed", "OPTIONS", stat, []string{"Origin", "http://evil.example"}, 403, "Access-Control-Allow-Headers", "", ""},
		{"a bad timeout", "POST", stat, []string{"Authorization", token, "Ctxfs-Timeout", "5"}, 400, "Ctxfs-Error", "EINVAL", "5s or 500ms"},
		{"a negative timeout", "POST", stat, []string{"Authorization", token, "Ctxfs-Timeout", "-5s"}, 400, "Ctxfs-Error", "EINVAL", ""},
		{"a timeout that has passed", "POST", stat, []string{"Authorization", token, "Ctxfs-Timeout", "1ns"}, 504, "Ctxfs-Error", "ETIMEDOUT", ""},
		{"the document", "GET", "openapi.json", nil, 200, "Content-Type", "application/json", `"openapi": "3.1.0"`},
		{"the document, for a page that is not listed", "GET", "openapi.json", []string{"Origin", "http://evil.example"}, 403, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+r.Info().Addresses.HTTP+"/v1/"+c.rpc, strings.NewReader(`{"path":"/a"}`))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(c.rpc, "PanelService") || strings.HasPrefix(c.rpc, "ContextService") {
				req.Body, req.ContentLength = nil, 0
			}
			req.Header.Set(kind, "application/json")
			for i := 0; i < len(c.headers); i += 2 {
				req.Header.Set(c.headers[i], c.headers[i+1])
			}
			if req.Header.Get(kind) == "" {
				req.Header.Del(kind)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := answered(t, resp)
			if resp.StatusCode != c.status || resp.Header.Get(c.header) != c.value || !strings.Contains(body, c.want) {
				t.Errorf("%d, %s %q: %.300s; want %d, %q, %s", resp.StatusCode, c.header, resp.Header.Get(c.header), body, c.status, c.value, c.want)
			}
		})
	}
}

// TestRPCBodySizes sends requests around the limit, with their length and in chunks.
func TestRPCBodySizes(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.MaxRequest = 1 << 20
	r := start(t, cfg)
	a := askBy(t, r, r.openPanel(t, "p").GetToken())["http"]
	for _, c := range []struct {
		name string
		// size is that of the text.
		size, status int
	}{
		{"it fits", 1 << 20, 200},
		{"the text is too long, though the body is not", 1<<20 + 128<<10, 413},
		{"the body is too long", 2 << 20, 413},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"with its length": func(r io.Reader) io.Reader { return r }, "in chunks": func(r io.Reader) io.Reader { return io.MultiReader(r) },
		} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				a.T = t
				resp := a.rpcFrom("FsService/WriteFile", wrap(strings.NewReader(`{"path":"/a","text":"`+strings.Repeat("x", c.size)+`"}`)))
				body := answered(t, resp)
				st, err := os.Stat(filepath.Join(r.folder("ctx_p"), "a"))
				switch {
				case resp.StatusCode != c.status:
					t.Errorf("%d, want %d: %.300s", resp.StatusCode, c.status, body)
				case c.status == 200 && (err != nil || st.Size() != int64(c.size)):
					t.Errorf("%v, %v", st, err)
				case c.status != 200 && (resp.Header.Get("Ctxfs-Error") != "EFBIG" || !strings.Contains(body, "/v1/content") || err == nil):
					t.Errorf("it says %s, and there is a file: %v", body, err == nil)
				}
				_ = os.Remove(filepath.Join(r.folder("ctx_p"), "a"))
			})
		}
	}
}

// TestRPCBodyThatIsAnnouncedTooLargeIsNotReceived sends no body at all.
// TestRPCWithTwoLengthsClosesItsConnection asks for what is refused for other reasons too.
func TestRPCWithTwoLengthsClosesItsConnection(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	for _, request := range []string{
		"POST /v1/FsService/Stat HTTP/1.1\r\nContent-Type: application/json", "POST /v1/FsService/Stat HTTP/1.1\r\nContent-Type: text/plain", "POST /v1/FsService/None HTTP/1.1",
		"PUT /v1/FsService/Stat HTTP/1.1", "OPTIONS /v1/FsService/Stat HTTP/1.1", "POST /v1/FsService/WriteStream HTTP/1.1", "POST /v1/FsService/Stat HTTP/1.1\r\nOrigin: http://evil.example",
	} {
		conn := dialRaw(t, r)
		if _, err := io.WriteString(conn, request+"\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := answered(t, resp)
		evil := strings.Contains(request, "evil")
		if !resp.Close || evil != (resp.StatusCode == http.StatusForbidden) || evil == strings.Contains(body, "Content-Length and Transfer-Encoding in one request") {
			t.Errorf("%q: %d, close=%t, %s", request, resp.StatusCode, resp.Close, body)
		}
	}
}

func TestRPCBodyThatIsAnnouncedTooLargeIsNotReceived(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	conn := dialRaw(t, r)
	head := fmt.Sprintf("POST /v1/FsService/WriteFile HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		r.openPanel(t, "p").GetToken(), 1<<30)
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", resp.StatusCode)
	}
}

// TestRPCStreamEnds watches a folder, sees an event at once, and ends the stream from either side.
func TestRPCStreamEnds(t *testing.T) {
	t.Parallel()
	closePanel := func(t *testing.T, r *running, _ func()) {
		if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		headers []string
		end     func(t *testing.T, r *running, leave func())
		// errno is that of the last line; "" when there is none.
		errno string
	}{
		"the panel is closed":  {nil, closePanel, "EACCES"},
		"the server stops":     {nil, func(_ *testing.T, r *running, _ func()) { r.stop() }, "EAGAIN"},
		"its time is over":     {[]string{"Ctxfs-Timeout", "1500ms"}, func(*testing.T, *running, func()) {}, "ETIMEDOUT"},
		"the client goes away": {nil, func(_ *testing.T, _ *running, leave func()) { leave() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, sessionConfig(t))
			a := askBy(t, r, r.openPanel(t, "p").GetToken())["http"]
			resp := a.rpc("FsService/Watch", `{"path":"/"}`, c.headers...)
			lines := bufio.NewScanner(resp.Body)
			next := func(want string) {
				t.Helper()
				if !lines.Scan() || !strings.Contains(lines.Text(), want) {
					t.Fatalf("%s, %v: want %s", lines.Text(), lines.Err(), want)
				}
			}
			next(`{"ready":`)
			write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "x")
			next("a.txt")
			c.end(t, r, func() { _ = resp.Body.Close() })
			eventually(t, "the stream has ended", func() bool { return r.streams.count() == 0 })
			last := ""
			for lines.Scan() {
				last = lines.Text()
			}
			if c.errno == "" {
				return
			}
			if !strings.HasPrefix(last, `{"error":{"code":`) || !strings.Contains(last, `"reason":"`+c.errno+`"`) || !json.Valid([]byte(last)) {
				t.Errorf("the last line is %s, %v", last, lines.Err())
			}
			if resp.Trailer.Get("Ctxfs-Error") != c.errno || resp.Trailer.Get("X-Request-Id") == "" {
				t.Errorf("trailers %v", resp.Trailer)
			}
		})
	}
}

// blocking is a server whose Cp waits for its context, or for release.
type blocking struct {
	*running
	began, release chan struct{}
	ended          chan error
	a              *asker
}

func startBlocking(t *testing.T) *blocking {
	t.Helper()
	b := &blocking{began: make(chan struct{}), release: make(chan struct{}), ended: make(chan error, 1)}
	const cp = ctxfsv1.FsService_Cp_FullMethodName
	b.running = startWith(t, sessionConfig(t), func(s *Server) {
		s.rpcs[cp] = func(stream grpc.ServerStream) error {
			return s.calls.serveUnary(cp, func(_ any, ctx context.Context, decode func(any) error, inner grpc.UnaryServerInterceptor) (any, error) {
				req := &ctxfsv1.CpRequest{}
				if err := decode(req); err != nil {
					return nil, err
				}
				return inner(ctx, req, nil, b.wait)
			}, nil, stream)
		}
	})
	b.a = askBy(t, b.running, b.openPanel(t, "p").GetToken())["http"]
	return b
}

func (b *blocking) wait(ctx context.Context, _ any) (any, error) {
	close(b.began)
	select {
	case <-ctx.Done():
	case <-b.release:
	}
	b.ended <- ctx.Err()
	return &ctxfsv1.CpResponse{}, ctx.Err()
}

// copy makes the call.
func (b *blocking) copy(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.a.base+"/v1/FsService/Cp", strings.NewReader(`{"path":"/a","dest":"/b"}`))
	if err != nil {
		return nil, err
	}
	req.Header = b.a.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	return b.a.client.Do(req)
}

func TestRPCClientThatLeavesCancelsItsCall(t *testing.T) {
	t.Parallel()
	b := startBlocking(t)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-b.began
		leave()
	}()
	if resp, err := b.copy(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", resp, err)
	}
	if err := <-b.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
}

func TestRPCEndsBeforeTheServerStops(t *testing.T) {
	t.Parallel()
	b := startBlocking(t)
	answer := make(chan string, 1)
	go func() {
		resp, err := b.copy(t.Context())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		answer <- fmt.Sprint(resp.StatusCode, " ", string(body), err)
	}()
	<-b.began
	b.stop()
	eventually(t, "further requests are refused", func() bool {
		resp, err := b.a.client.Get(b.a.base + "/v1/openapi.json")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil || resp.StatusCode == http.StatusServiceUnavailable
	})
	close(b.release)
	if got := <-answer; got != "200 {}\n<nil>" {
		t.Error(got)
	}
}

// TestRPCReplyThatIsNotReadIsBounded counts what a client does not read, and cuts it off.
func TestRPCReplyThatIsNotReadIsBounded(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = time.Second
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	const size = 3 << 20
	if err := os.Truncate(write(t, filepath.Join(r.folder("ctx_p"), "a"), ""), size); err != nil {
		t.Fatal(err)
	}
	a := askBy(t, r, token)["unix"] // a socket that buffers little
	for _, rpc := range []string{"FsService/ReadFile", "FsService/ReadStream"} {
		resp := a.rpc(rpc, `{"path":"/a"}`)
		if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if held := r.calls.limits.memory.Held(); rpc == "FsService/ReadFile" && held < jsonCost*size {
			t.Errorf("%d bytes are held, want %d", held, jsonCost*size)
		}
		eventually(t, rpc+" has ended", func() bool { return r.streams.count() == 0 && r.calls.limits.memory.Held() == 0 })
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%s: %d bytes, and a good end", rpc, n)
		}
	}
}

// writesWait reports whether a goroutine that answers a call in JSON waits for its client to read.
func writesWait() bool {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if head, rest, _ := bytes.Cut(stack, []byte("\n")); bytes.Contains(head, []byte("[IO wait")) && bytes.Contains(rest, []byte("(*rpcStream).write(")) {
			return true
		}
	}
	return false
}

// TestRPCOfAClosedPanelEndsThoughNothingIsRead closes the panel of a client that would be waited for much longer.
func TestRPCOfAClosedPanelEndsThoughNothingIsRead(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = time.Hour
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	if err := os.Truncate(write(t, filepath.Join(r.folder("ctx_p"), "a"), ""), 64<<20); err != nil {
		t.Fatal(err)
	}
	resp := askBy(t, r, token)["http"].rpc("FsService/ReadStream", `{"path":"/a"}`)
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call waits for its client", writesWait)
	if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		r.streams.wait()
		close(done)
	}()
	eventually(t, "the handler has returned", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	// A line may have been sent as a whole just then.
	if rest, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(string(rest), `{"error":`) {
		t.Errorf("%d bytes more, %v", len(rest), err)
	}
}

// TestRPCIsRecorded looks for a call in the audit log, and for a handle that no later request can use.
func TestRPCIsRecorded(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
	r := start(t, cfg)
	panel := askBy(t, r, r.openPanel(t, "p").GetToken())["http"]
	host := askBy(t, r, readToken(t, r))["http"]
	for _, c := range []struct {
		a         *asker
		rpc, body string
		status    int
	}{
		{panel, "FsService/WriteFile", `{"path":"/a","text":"secret content"}`, 200},
		{panel, "FsService/Rename", `{"path":"/nope","dest":"/b"}`, 404},
		{panel, "PanelService/ClosePanel", `{"panelId":"p"}`, 403},
		{host, "FsService/Open", `{"contextId":"ctx_p","path":"/a","flags":"r"}`, 200},
	} {
		if resp := c.a.rpc(c.rpc, c.body); resp.StatusCode != c.status {
			t.Errorf("%s: %d, %s", c.rpc, resp.StatusCode, answered(t, resp))
		}
	}
	want := []string{
		"panel|p|ctx_p|WriteFile|/a|||ok|14", "panel|p|ctx_p|Rename|/nope|/b||ENOENT", "panel|p|ctx_p|ClosePanel||||EACCES",
	}
	if got := audits(t, cfg.AuditLog); fmt.Sprint(got[1:]) != fmt.Sprint(want) { // the first opened the panel
		t.Errorf("the audit log has %q", got)
	}
	eventually(t, "the host's handle is closed with its request", func() bool { return r.parts.handles.Count() == 0 })
}

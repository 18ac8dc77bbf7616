package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// asker asks for content.
type asker struct {
	*testing.T
	client *http.Client
	base   string
	header http.Header
}

// askBy returns one for each way: by the HTTP address, by TCP and by the unix socket of gRPC.
func askBy(t *testing.T, r *running, token string) map[string]*asker {
	t.Helper()
	a, out := r.Info().Addresses, map[string]*asker{}
	for name, addr := range map[string]string{"http": a.HTTP, "tcp": a.TCP[0]} {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		out[name] = &asker{t, &http.Client{Transport: transport}, "http://" + addr, http.Header{}}
	}
	out["unix"] = askByUnix(t, a.Socket)
	for _, a := range out {
		a.header.Set("Authorization", bearerOf(token))
	}
	return out
}

// askByUnix returns one that asks as the host.
func askByUnix(t *testing.T, socket string) *asker {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &asker{t, &http.Client{Transport: transport}, "http://localhost", http.Header{}}
}

func (a *asker) get(query string) *http.Response { return a.do(http.MethodGet, query, nil) }

func (a *asker) do(method, query string, body io.Reader) *http.Response {
	a.Helper()
	r, err := http.NewRequestWithContext(a.Context(), method, a.base+"/v1/content?"+query, body)
	if err != nil {
		a.Fatal(err)
	}
	r.Header = a.header
	resp, err := a.client.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (r *running) folder(context string) string { return r.claim.layout.Folder(contexts.ID(context)) }

func TestContent(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	folder := r.folder("ctx_p")
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	write(t, filepath.Join(folder, "large"), string(large))
	write(t, filepath.Join(folder, "a b?.txt"), "0123456789")
	write(t, filepath.Join(folder, "also-large"), string(large))
	write(t, filepath.Join(folder, "empty"), "")
	write(t, filepath.Join(folder, "\xff"), "raw")
	if err := os.Symlink("../../../../../../../../etc/passwd", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	name := url.Values{"path": {"/a b?.txt"}}.Encode()
	session := beginWeb(t, r.Info().Addresses.TCP[0], token, "")
	handle := fmt.Sprintf("fd=%d", session.works(opOpen("/a b?.txt", "r")).GetOpen().GetFd())
	writing := fmt.Sprintf("fd=%d", session.works(opOpen("/also-large", "a")).GetOpen().GetFd())
	for _, c := range []struct {
		name, query string
		status      int
		// want is the body, or what an error says.
		want, errno string
	}{
		{"large", "path=/large", 200, string(large), ""},
		{"all", name, 200, "0123456789", ""},
		{"a range", name + "&start=2&end=4", 200, "234", ""},
		{"from", name + "&start=7", 200, "789", ""},
		{"to beyond the end", name + "&start=7&end=700", 200, "789", ""},
		{"beyond the end", name + "&start=10", 200, "", ""},
		{"empty", "path=/empty", 200, "", ""},
		{"raw", "raw_path=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("/\xff"))), 200, "raw", ""},
		{"absent", "path=/nope", 404, "open '/nope'", "ENOENT"},
		{"a directory", "path=/", 400, "EISDIR", "EISDIR"},
		{"above", "path=/../../etc/passwd", 403, "EACCES", "EACCES"},
		{"an escaping link", "path=/link", 403, "EACCES", "EACCES"},
		{"another context", "path=/a&context_id=ctx_q", 403, "EACCES", "EACCES"},
		{"end before start", name + "&start=4&end=2", 400, "end 2 is before start 4", "EINVAL"},
		{"start of no number", name + "&start=x", 400, "start is no number", "EINVAL"},
		{"a negative start", name + "&start=-1", 400, "EINVAL", "EINVAL"},
		{"an unknown parameter", name + "&mode=3", 400, "no parameter is called 'mode'", "EINVAL"},
		{"a handle", handle + "&start=3", 200, "3456789", ""},
		{"a handle without a start", handle, 400, "is read from a start", "EINVAL"},
		{"a handle that only writes", writing + "&start=0", 400, "EBADF", "EBADF"},
		{"a malformed query", "path=/large&start=3;", 400, "the query is malformed", "EINVAL"},
		{"a badly encoded one", "path=%zz", 400, "the query is malformed", "EINVAL"},
		{"a path too many", "path=/large&path=/empty", 400, "path is given twice", "EINVAL"},
		{"no handle", "fd=77&start=0", 400, "EBADF", "EBADF"},
		{"not even a number of a handle", "fd=77777777777&start=0", 400, "fd is no handle", "EINVAL"},
		{"no base64", "raw_path=*", 400, "raw_path is no base64", "EINVAL"},
	} {
		for by, a := range askBy(t, r, token) {
			t.Run(c.name+"/"+by, func(t *testing.T) {
				a.T = t
				resp := a.get(c.query)
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != c.status || resp.Header.Get("Ctxfs-Error") != c.errno {
					t.Fatalf("%v, %d, errno %q: %.200s", err, resp.StatusCode, resp.Header.Get("Ctxfs-Error"), body)
				}
				if c.status != 200 {
					if !strings.Contains(string(body), c.want) || strings.Contains(string(body), folder) {
						t.Errorf("it says %s, want %q", body, c.want)
					}
					return
				}
				if string(body) != c.want {
					t.Errorf("%d bytes, want %d: %.40q", len(body), len(c.want), body)
				}
				stat, m := resp.Header.Get("Ctxfs-Stat"), new(ctxfsv1.Stat)
				b, err := base64.StdEncoding.DecodeString(stat)
				if err != nil || proto.Unmarshal(b, m) != nil || m.GetMode()&0o170000 != 0o100000 {
					t.Errorf("stat %q: %v", stat, m)
				}
			})
		}
	}
}

func TestContentNeedsAnIdentity(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "a"), "x")
	for _, c := range []struct {
		name, by string
		header   http.Header
		query    string
		want     int
	}{
		{"no token", "tcp", http.Header{}, "path=/a", 401},
		{"no token", "http", http.Header{}, "path=/a", 401},
		{"a wrong token", "tcp", http.Header{"Authorization": {"Bearer x"}}, "path=/a", 401},
		{"a page", "http", http.Header{"Origin": {"http://evil.example"}, "Authorization": {bearerOf(readToken(t, r))}}, "path=/a&context_id=ctx_p", 403},
		{"the host's token", "http", http.Header{"Authorization": {bearerOf(readToken(t, r))}}, "path=/a&context_id=ctx_p", 200},
		{"the host by its user", "unix", http.Header{}, "path=/a&context_id=ctx_p", 200},
		{"the host for a panel", "unix", http.Header{"Ctxfs-Panel": {"p"}}, "path=/a", 200},
	} {
		t.Run(c.name+"/"+c.by, func(t *testing.T) {
			a := askBy(t, r, "")[c.by]
			a.header = c.header
			if resp := a.get(c.query); resp.StatusCode != c.want {
				body, _ := io.ReadAll(resp.Body)
				t.Errorf("%d, want %d: %s", resp.StatusCode, c.want, body)
			}
		})
	}
}

// TestPagesOfListedOriginsReadAndWriteContent sends what a browser sends for a page's fetch.
func TestPagesOfListedOriginsReadAndWriteContent(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.HTTP, cfg.Origins = "127.0.0.1:0", []string{"http://localhost:5173"}
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	write(t, filepath.Join(r.folder("ctx_p"), "a"), "0123456789")
	own := "http://" + r.Info().Addresses.HTTP
	for _, c := range []struct {
		name, origin, method, query, body string
		anonymous                         bool
		status                            int
		// shared says that the page may read the response.
		shared bool
	}{
		{"preflight", "http://localhost:5173", http.MethodOptions, "path=/a", "", true, 204, true},
		{"read", "http://localhost:5173", http.MethodGet, "path=/a&start=2&end=4", "", false, 200, true},
		{"head", "http://localhost:5173", http.MethodHead, "path=/a", "", false, 200, true},
		{"write", "http://localhost:5173", http.MethodPut, "path=/b", "written", false, 204, true},
		{"no such file", "http://localhost:5173", http.MethodGet, "path=/none", "", false, 404, true},
		{"no token", "http://localhost:5173", http.MethodGet, "path=/a", "", true, 401, true},
		{"a stranger's preflight", "http://evil.example", http.MethodOptions, "path=/a", "", true, 403, false},
		{"a stranger's read", "http://evil.example", http.MethodGet, "path=/a", "", false, 403, false},
		{"a stranger's write", "http://evil.example", http.MethodPut, "path=/c", "x", false, 403, false},
		{"an opaque page", "null", http.MethodOptions, "path=/a", "", true, 403, false},
		{"the same host, another port", "http://localhost:5174", http.MethodOptions, "path=/a", "", true, 403, false},
		{"the server's own origin", own, http.MethodGet, "path=/a", "", false, 200, false},
		{"no page", "", http.MethodGet, "path=/a", "", false, 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := askBy(t, r, token)["http"]
			if c.anonymous {
				a.header.Del("Authorization")
			}
			if c.origin != "" {
				a.header.Set("Origin", c.origin)
			}
			resp := a.do(c.method, c.query, strings.NewReader(c.body))
			h := resp.Header
			if resp.StatusCode != c.status {
				t.Errorf("%s", resp.Status)
			}
			if got := h.Get("Access-Control-Allow-Origin"); (got != "") != c.shared || c.shared && (got != c.origin || h.Get("Vary") != "Origin") {
				t.Errorf("shared with %q, Vary %q", got, h.Get("Vary"))
			}
			if h.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("credentials are allowed")
			}
			allowed := h.Get("Access-Control-Allow-Headers") + h.Get("Access-Control-Allow-Methods")
			if preflight := c.method == http.MethodOptions && c.shared; strings.Contains(allowed, "Authorization") != preflight || strings.Contains(allowed, "PUT") != preflight {
				t.Errorf("allows %q", allowed)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(r.folder("ctx_p"), "b")); err != nil || string(b) != "written" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(r.folder("ctx_p"), "c")); err == nil {
		t.Error("a stranger wrote")
	}
}

// TestContentThatEndsEarly has what is being sent become less, go away, or be forbidden.
func TestContentThatEndsEarly(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	for _, c := range []struct {
		name string
		end  func(t *testing.T, r *running, path string)
	}{
		{"the file is cut", func(t *testing.T, _ *running, path string) {
			if err := os.Truncate(path, 1<<20); err != nil {
				t.Error(err)
			}
		}},
		{"the panel is closed", func(t *testing.T, r *running, _ string) {
			if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
				t.Error(err)
			}
		}},
		{"the server stops", func(_ *testing.T, r *running, _ string) { r.stop() }},
	} {
		for _, by := range []string{"http", "tcp", "unix"} {
			t.Run(c.name+"/"+by, func(t *testing.T) {
				r := start(t, sessionConfig(t))
				token := r.openPanel(t, "p").GetToken()
				path := write(t, filepath.Join(r.folder("ctx_p"), "a"), "")
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
				resp := askBy(t, r, token)[by].get("path=/a")
				if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
				c.end(t, r, path)
				if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("after %d bytes more: %v", n, err)
				}
				eventually(t, "the stream has ended", func() bool { return r.streams.count() == 0 })
			})
		}
	}
}

// TestAClientThatTakesNoContentIsCutOff asks, and reads nothing.
func TestAClientThatTakesNoContentIsCutOff(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = time.Second
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	if err := os.Truncate(write(t, filepath.Join(r.folder("ctx_p"), "a"), ""), 64<<20); err != nil {
		t.Fatal(err)
	}
	for _, a := range askBy(t, r, token) {
		a.get("path=/a")
	}
	eventually(t, "the streams have ended", func() bool { return r.streams.count() == 0 })
}

func TestContentOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cfg := sessionConfig(t)
	cfg.TLSCert, cfg.TLSKey = ca.files(t)
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	text := strings.Repeat("x", 3<<20)
	write(t, filepath.Join(r.folder("ctx_p"), "a"), text)
	for _, addr := range []string{r.Info().Addresses.HTTP, r.Info().Addresses.TCP[0]} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}}}
		t.Cleanup(client.CloseIdleConnections)
		a := &asker{t, client, "https://" + addr, http.Header{"Authorization": {bearerOf(token)}}}
		if body, err := io.ReadAll(a.get("path=/a").Body); err != nil || string(body) != text {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	}
}

func TestPutContent(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	folder := r.folder("ctx_p")
	large := strings.Repeat("0123456789abcdef", 3<<20/16)
	if err := os.Symlink("../../../../../../../../tmp", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, query, body string
		status            int
		// want is what the file "a", which held "0123456789", holds then, or what an error says.
		want string
	}{
		{"replaced", "path=/a", "new", 204, "new"},
		{"empty", "path=/a", "", 204, ""},
		{"large", "path=/a&flush=true", large, 204, large},
		{"appended", "path=/a&flag=a", "x", 204, "0123456789x"},
		{"in place", "path=/a&start=2", "x", 204, "01x3456789"},
		{"exclusive", "path=/a&flag=wx", "x", 409, "EEXIST"},
		{"a directory", "path=/", "x", 400, "EISDIR"},
		{"no such directory", "path=/nope/b", "x", 404, "ENOENT"},
		{"above", "path=/../b", "x", 403, "EACCES"},
		{"through an escaping link", "path=/link/b", "x", 403, "EACCES"},
		{"a bad flag", "path=/a&flag=q", "x", 400, "EINVAL"},
		{"a bad mode", "path=/a&mode=9", "x", 400, "EINVAL"},
		{"a bad start", "path=/a&start=x", "x", 400, "start is no number"},
		{"a malformed query", "path=/a&flag=wx;", "x", 400, "the query is malformed"},
		{"a bad flush", "path=/a&flush=x", "x", 400, "flush is neither true nor false"},
		{"an end", "path=/a&end=3", "x", 400, "no parameter is called 'end'"},
	} {
		for by, a := range askBy(t, r, token) {
			t.Run(c.name+"/"+by, func(t *testing.T) {
				a.T = t
				path := write(t, filepath.Join(folder, "a"), "0123456789")
				resp := a.do(http.MethodPut, c.query, strings.NewReader(c.body))
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != c.status {
					t.Fatalf("%v, %d: %.200s", err, resp.StatusCode, body)
				}
				got, err := os.ReadFile(path)
				switch {
				case err != nil:
					t.Error(err)
				case c.status == 204 && (string(got) != c.want || resp.Header.Get("Ctxfs-Written") != strconv.Itoa(len(c.body))):
					t.Errorf("it holds %.40q, written %q", got, resp.Header.Get("Ctxfs-Written"))
				case c.status != 204 && (!strings.Contains(string(body), c.want) || string(got) != "0123456789"):
					t.Errorf("it says %s, want %q, and holds %q", body, c.want, got)
				}
			})
		}
	}
	for by, a := range askBy(t, r, token) {
		a.do(http.MethodPut, "path=/mode-"+by+"&mode=0640", strings.NewReader("x"))
		if st, err := os.Stat(filepath.Join(folder, "mode-"+by)); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v, %v", by, st, err)
		}
	}
}

func TestPutContentNeedsTheRight(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	resp, err := ctxfsv1.NewPanelServiceClient(r.host(t)).OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "p", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{resp.GetToken(): "EROFS", "x": "EACCES"} {
		for by, a := range askBy(t, r, token) {
			resp := a.do(http.MethodPut, "path=/a", strings.NewReader("x"))
			if got := resp.Header.Get("Ctxfs-Error"); got != want {
				t.Errorf("%s: %d, %q, want %q", by, resp.StatusCode, got, want)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(r.folder("ctx_p"), "a")); err == nil {
		t.Error("there is a file")
	}
}

// TestABodyThatEndsEarlyChangesNothing has the client, its panel or the server go away in the middle, and a client be silent.
func TestABodyThatEndsEarlyChangesNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *running, net.Conn){
		"the client goes": func(_ *testing.T, _ *running, conn net.Conn) { _ = conn.Close() },
		"the panel is closed": func(t *testing.T, r *running, _ net.Conn) {
			if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
				t.Error(err)
			}
		},
		"the server stops":     func(_ *testing.T, r *running, _ net.Conn) { r.stop() },
		"the client is silent": func(*testing.T, *running, net.Conn) {},
		"a chunk is none":      func(_ *testing.T, _ *running, conn net.Conn) { _, _ = io.WriteString(conn, "zz\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sessionConfig(t)
			cfg.Keepalive = time.Second
			r := start(t, cfg)
			token := r.openPanel(t, "p").GetToken()
			folder := r.folder("ctx_p")
			path := write(t, filepath.Join(folder, "a"), "before")
			conn := dialRaw(t, r)
			chunk := strings.Repeat("x", 600<<10)
			head := fmt.Sprintf("PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", token, len(chunk), chunk)
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the stream is there", func() bool { return r.streams.count() == 1 })
			end(t, r, conn)
			eventually(t, "the stream has ended", func() bool { return r.streams.count() == 0 })
			if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
				t.Errorf("it holds %d bytes, %v", len(got), err)
			}
			entries, err := os.ReadDir(folder)
			if err != nil || len(entries) != 1 {
				t.Errorf("%v is there, %v", entries, err)
			}
		})
	}
}

// TestContentWithoutContent asks for the head alone, and sends no body.
func TestContentWithoutContent(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	path := write(t, filepath.Join(r.folder("ctx_p"), "a"), "0123456789")
	for by, a := range askBy(t, r, token) {
		resp := a.do(http.MethodHead, "path=/a", nil)
		if body, err := io.ReadAll(resp.Body); err != nil || len(body) > 0 || resp.ContentLength != 10 || resp.Header.Get("Ctxfs-Stat") == "" {
			t.Errorf("%s: %v, %d bytes of %d", by, err, len(body), resp.ContentLength)
		}
	}
	conn := dialRaw(t, r)
	head := fmt.Sprintf("PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := os.ReadFile(path); err != nil || resp.StatusCode != http.StatusBadRequest || string(got) != "0123456789" {
		t.Errorf("without a length: %d, it holds %q, %v", resp.StatusCode, got, err)
	}
}

// TestASlowReaderIsNotCutOff takes content steadily, and slowly for its keepalive: by the
// unix socket, where nothing but the reader sets the pace.
func TestASlowReaderIsNotCutOff(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.Keepalive = 5 * time.Second // a part takes half a second, or more on a busy machine; all take eight seconds
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	const size, step, pace = 2 << 20, 16 << 10, 60 * time.Millisecond
	if err := os.Truncate(write(t, filepath.Join(r.folder("ctx_p"), "a"), ""), size); err != nil {
		t.Fatal(err)
	}
	body := askBy(t, r, token)["unix"].get("path=/a").Body
	tick := time.NewTicker(pace)
	defer tick.Stop()
	n, buf := 0, make([]byte, step)
	for n < size {
		<-tick.C
		got, err := io.ReadFull(body, buf)
		if n += got; err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// TestALateInterruptHitsNobodyElse closes panels while others use the same connections.
func TestALateInterruptHitsNobodyElse(t *testing.T) {
	t.Parallel()
	r := start(t, sessionConfig(t))
	stays := askBy(t, r, r.openPanel(t, "stays").GetToken())["tcp"]
	write(t, filepath.Join(r.folder("ctx_stays"), "a"), "x")
	other := http.Header{}
	for i := range 200 {
		name := fmt.Sprintf("p%d", i)
		other.Set("Authorization", bearerOf(r.openPanel(t, name).GetToken()))
		write(t, filepath.Join(r.folder("ctx_"+name), "a"), "x")
		closed := make(chan error, 1)
		go func() {
			_, err := r.parts.panels.Close(context.Background(), name)
			closed <- err
		}()
		mine := stays.header
		stays.header = other
		_, _ = io.Copy(io.Discard, stays.get("path=/a").Body) // which is refused, or not
		stays.header = mine
		if body, err := io.ReadAll(stays.get("path=/a").Body); err != nil || string(body) != "x" {
			t.Fatalf("%q, %v", body, err)
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
	}
}

// TestMalformedBodiesAreRefused sends bodies that HTTP does not allow. Each is the second request of its connection, which
// the server then closes.
func TestMalformedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, encrypted := range []bool{false, true} {
		cfg := sessionConfig(t)
		if encrypted {
			cfg.TLSCert, cfg.TLSKey = ca.files(t)
		}
		r := start(t, cfg)
		token := r.openPanel(t, "p").GetToken()
		folder := r.folder("ctx_p")
		request := func(query, fields, body string) string {
			return fmt.Sprintf("PUT /v1/content?path=/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", query, token, fields, body)
		}
		for name, c := range map[string]struct{ fields, body, words string }{
			"no chunk":             {"Transfer-Encoding: chunked", "zz\r\nabc\r\n0\r\n\r\n", "malformed"},
			"a chunk without end":  {"Transfer-Encoding: chunked", "3\r\nabcdef\r\n0\r\n\r\n", "malformed"},
			"a huge chunk":         {"Transfer-Encoding: chunked", "fffffffffffffffff\r\n", "malformed"},
			"two lengths":          {"Content-Length: 3\r\nTransfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n", "Content-Length and Transfer-Encoding"},
			"two lengths, swapped": {"transfer-encoding: chunked\r\nA: b\r\ncontent-length: 3", "3\r\nabc\r\n0\r\n\r\n", "Content-Length and Transfer-Encoding"},
			"two lengths, far":     {"Transfer-Encoding: chunked\r\nA: " + strings.Repeat("a", 15<<10) + "\r\nContent-Length: 3", "3\r\nabc\r\n0\r\n\r\n", "Content-Length and Transfer-Encoding"},
		} {
			for network, address := range map[string]string{"tcp": r.Info().Addresses.TCP[0], "http": r.Info().Addresses.HTTP} {
				for _, pipelined := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s over %s, tls=%t, pipelined=%t", name, network, encrypted, pipelined), func(t *testing.T) {
						conn := dialPlain(t, "tcp", address)
						if encrypted {
							conn = tls.Client(conn, &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
						}
						replies := bufio.NewReader(conn)
						next := func(want int) string {
							resp, err := http.ReadResponse(replies, nil)
							if err != nil {
								t.Fatal(err)
							}
							defer resp.Body.Close()
							body, err := io.ReadAll(resp.Body)
							if err != nil || resp.StatusCode != want {
								t.Fatalf("%d %s, %v, want %d", resp.StatusCode, body, err, want)
							}
							return string(body)
						}
						first := request("good", "Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n")
						second := request("bad", c.fields, c.body)
						if pipelined {
							first, second = first+second, ""
						}
						if _, err := io.WriteString(conn, first); err != nil {
							t.Fatal(err)
						}
						next(http.StatusNoContent)
						if _, err := io.WriteString(conn, second); err != nil {
							t.Fatal(err)
						}
						if body := next(http.StatusBadRequest); !strings.Contains(body, c.words) {
							t.Errorf("it says %s", body)
						}
						wantClosed(t, conn)
						if _, err := os.Lstat(filepath.Join(folder, "bad")); err == nil {
							t.Error("there is a file")
						}
					})
				}
			}
		}
	}
}

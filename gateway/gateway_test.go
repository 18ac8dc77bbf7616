package gateway

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckOrigin(t *testing.T) {
	for origin, ok := range map[string]bool{
		"http://localhost:5173": true, "https://app.example": true, "app://panels": true, "file://": true,
		"http://localhost:5173/": false, "localhost:5173": false, "*": false, "https://*.example": false, "null": false, "": false,
		"https://": false, "https://a@b": false, "https://a/b": false, "https://a?b": false,
	} {
		if err := CheckOrigin(origin); (err == nil) != ok {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

// FuzzContentQuery looks for a query that is accepted though it says something else than what is made of it.
func FuzzContentQuery(f *testing.F) {
	for _, q := range []string{
		"path=/a", "path=/a&start=0&end=9", "raw_path=L/8=", "raw_path=%2F&path=a", "raw_path=001=", "fd=3", "fd=4294967296", "fd=-1", "path=/a&path=/b", "start=x", "flush=maybe",
		"path=%00", "path=%zz", "a;b", "=", "&&&", "mode=0644&flag=wx", "context_id=ctx_b&path=/a", "ctxfs-panel=p", "start=-9223372036854775808", "path=%ff",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		values, parseErr := url.ParseQuery(raw)
		req, err := readQuery(raw)
		open, writeErr := writeQuery(raw)
		for _, err := range []error{err, writeErr} {
			if err != nil && fserr.CodeOf(err) != fserr.EINVAL {
				t.Errorf("%q: %v", raw, err)
			}
			if err == nil && (parseErr != nil || len(values["path"]) > 1) {
				t.Errorf("%q is accepted", raw)
			}
		}
		if err == nil && (req.GetPath() != values.Get("path") || base64.StdEncoding.EncodeToString(req.GetRawPath()) != plainBase64(values.Get("raw_path"))) {
			t.Errorf("%q is read as %v", raw, req)
		}
		if writeErr == nil && open.GetPath() != values.Get("path") {
			t.Errorf("%q is written as %v", raw, open)
		}
	})
}

// plainBase64 leaves out what a decoder passes over.
func plainBase64(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }

// FuzzLocalNames looks for a name of another host that is taken for this machine's.
func FuzzLocalNames(f *testing.F) {
	for _, host := range []string{
		"localhost", "127.0.0.1:80", "[::1]:80", "evil.example", "127.0.0.1.evil.example", "localhost:80.evil.example", "[::1", "::1", "127.1", "0x7f.1", "2130706433",
		"localhost.", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "0.0.0.0", "", "LOCALHOST", "[localhost]", "[[::1]]", "evil.example:127.0.0.1", "127.0.0.1%0",
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		reached := false
		g := &Gateway{}
		h := g.ownNamesOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		h.ServeHTTP(discard{http.Header{}}, &http.Request{Host: host})
		if !reached {
			return
		}
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		name = strings.Trim(name, "[]")
		if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			t.Errorf("%q is taken for this machine", host)
		}
	})
}

// discard is a response that goes nowhere.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// parts keeps what is written to a connection, by write.
type parts struct {
	net.Conn
	written []string
}

// Write implements net.Conn.
func (p *parts) Write(b []byte) (int, error) {
	p.written = append(p.written, string(b))
	return len(b), nil
}

func TestHeldWritesLeaveAtOnce(t *testing.T) {
	t.Parallel()
	below := &parts{}
	conn := &tailConn{Conn: below}
	large := strings.Repeat("x", 2*smallContent) // more than a buffer has room for
	write := func(texts ...string) {
		for _, text := range texts {
			if n, err := conn.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
	}
	write("a", "b")
	conn.hold()
	write("head ", large)
	if len(below.written) != 2 {
		t.Errorf("%d writes while they are held", len(below.written)-2)
	}
	if err := conn.release(); err != nil {
		t.Fatal(err)
	}
	write("c")
	if want := []string{"a", "b", "head " + large, "c"}; !slices.Equal(below.written, want) {
		t.Errorf("%d writes: %.20q", len(below.written), below.written)
	}
}

package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"golang.org/x/net/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// public stands for the address of a permitted name.
var public = netip.MustParseAddr("93.184.216.34")

// world is a proxy, and an internet that has one server.
type world struct {
	*Proxy
	web, socks string

	mu      sync.Mutex
	uses    []Use
	dialed  []netip.AddrPort
	lookups int
}

// newWorld serves a proxy. All connections lead to upstream, whatever their address is.
func newWorld(t *testing.T, upstream string, change func(*Config)) *world {
	t.Helper()
	w := &world{}
	cfg := Config{
		Rules:  Rules{Names: []string{"good.test", "*.wild.test"}, Ports: []uint16{80, 443}},
		Report: func(u Use) { w.note(func() { w.uses = append(w.uses, u) }) },
		Upstream: Upstream{
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				w.note(func() { w.lookups++ })
				return []netip.Addr{public}, nil
			},
			Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
				w.note(func() { w.dialed = append(w.dialed, to) })
				return (&net.Dialer{}).DialContext(ctx, "tcp", upstream)
			},
		},
	}
	if change != nil {
		change(&cfg)
	}
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
	}
	w.web, w.socks = listeners[0].Addr().String(), listeners[1].Addr().String()
	w.Proxy = Serve(listeners[0], listeners[1], cfg)
	t.Cleanup(w.Close)
	return w
}

func (w *world) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// patience bounds a wait that only a fault makes long.
const patience = time.Minute

// client asks through the proxy by HTTP.
func (w *world) client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: w.web}),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the server's certificate has another name
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// raw sends a text to the HTTP side, and returns all that comes back until the proxy closes or a response is complete.
func (w *world) raw(t *testing.T, text string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", w.web)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, text) }() // the proxy may close early
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text[:min(len(text), 80)], err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // of a closed connection it is what came
	return resp, string(body)
}

func get(t *testing.T, c *http.Client, target string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// echoHost answers with the Host that it was asked for, and its headers.
var echoHost = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "host=%s uri=%s", r.Host, r.RequestURI)
	for name := range r.Header {
		fmt.Fprintf(w, " %s", name)
	}
})

func server(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestPermittedNamesAreReached(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(echoHost)
	t.Cleanup(secure.Close)
	plain, tunnel := newWorld(t, server(t, echoHost), nil), newWorld(t, secure.Listener.Addr().String(), nil)
	for target, w := range map[string]*world{
		"http://good.test/x": plain, "http://GOOD.test./x": plain, "http://a.b.wild.test/x": plain, "https://good.test/x": tunnel,
	} {
		status, body, err := get(t, w.client(t), target)
		if err != nil || status != 200 || !strings.Contains(body, "uri=/x") {
			t.Errorf("%s: %d, %q, %v", target, status, body, err)
		}
	}
	dialer, err := proxy.SOCKS5("tcp", plain.socks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dialer.Dial("tcp", "good.test:80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /y HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(conn); err != nil || !strings.Contains(string(data), "uri=/y") {
		t.Errorf("by SOCKS: %q, %v", data, err)
	}
	plain.note(func() {
		if len(plain.uses) == 0 || plain.uses[0].Address != netip.AddrPortFrom(public, 80) || plain.uses[0].Refusal != "" || plain.uses[0].Err != nil {
			t.Errorf("reported %+v", plain.uses)
		}
	})
}

// TestReportedNamesAreBounded asks for names as a hostile command does: a report has no more of them than DNS permits, as UTF-8.
func TestReportedNamesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, server(t, echoHost), nil)
	dialer, err := proxy.SOCKS5("tcp", w.socks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 15<<10) // twice in each request, whose headers have at most 32 KiB
	w.raw(t, "CONNECT "+long+":443 HTTP/1.1\r\nHost: "+long+":443\r\n\r\n")
	w.raw(t, "CONNECT "+long+" HTTP/1.1\r\nHost: "+long+"\r\n\r\n") // without a port
	w.raw(t, "GET http://"+long+"/ HTTP/1.1\r\nHost: "+long+"\r\n\r\n")
	for _, name := range []string{"\xff\xfe.test", strings.Repeat("\xff", 255), strings.Repeat("\u00e9", 127) + "x"} {
		if conn, err := dialer.Dial("tcp", name+":443"); err == nil {
			t.Errorf("%q was reached", name)
			_ = conn.Close()
		}
	}
	w.note(func() {
		if len(w.uses) != 6 {
			t.Errorf("%d reports", len(w.uses))
		}
		for _, u := range w.uses {
			if len(u.Name) > 253 || u.Name == "" || !utf8.ValidString(u.Name) || u.Refusal == "" {
				t.Errorf("reported %d bytes: %.60q, %q", len(u.Name), u.Name, u.Refusal)
			}
		}
	})
}

// TestRefusals asks for what the rules forbid, in each of the three ways. Nothing of it may be resolved or dialed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, server(t, echoHost), nil)
	dialer, err := proxy.SOCKS5("tcp", w.socks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for target, reason := range map[string]string{
		"bad.test:80": "name", "good.test.bad.test:443": "name", "xgood.test:443": "name", "wild.test:443": "name", "good.testx:443": "name", "localhost:80": "addresses",
		"good.test:22": "port 22", "good.test:8080": "port 8080", "good.test:0": "port",
		"169.254.169.254:80": "addresses", "127.0.0.1:80": "addresses", "10.0.0.1:443": "addresses", "[::1]:80": "addresses", "[::ffff:127.0.0.1]:80": "addresses",
		"[64:ff9b::a9fe:a9fe]:80": "addresses", "[fe80::1%25lo]:80": "addresses", "93.184.216.34:80": "addresses",
		"2130706433:80": "addresses", "127.1:80": "addresses", "0x7f.0.0.1:80": "addresses", "0177.0.0.1:80": "addresses", "127.0.0.1.:80": "addresses",
		"metadata:80": "addresses", "good.test\x00.bad.test:80": "", "good%2etest:80": "",
	} {
		resp, body := w.raw(t, "CONNECT "+target+" HTTP/1.1\r\nHost: good.test:443\r\n\r\n")
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, reason) && resp.StatusCode == http.StatusForbidden {
			t.Errorf("CONNECT %s: %d, %s", target, resp.StatusCode, body)
		}
		resp, body = w.raw(t, "GET http://"+target+"/ HTTP/1.1\r\nHost: good.test\r\n\r\n")
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("GET http://%s: %d, %s", target, resp.StatusCode, body)
		}
		if conn, err := dialer.Dial("tcp", strings.ReplaceAll(target, "%25", "%")); err == nil {
			conn.Close()
			t.Errorf("SOCKS to %s was granted", target)
		}
	}
	w.note(func() {
		if w.lookups > 0 || len(w.dialed) > 0 {
			t.Errorf("%d names were resolved, and %v dialed", w.lookups, w.dialed)
		}
	})
}

// TestNamesWithBadAddresses resolves a permitted name to what is not the public internet.
func TestNamesWithBadAddresses(t *testing.T) {
	t.Parallel()
	for address, reason := range map[string]string{
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "0.0.0.0": "reserved", "::": "reserved",
		"10.1.2.3": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private", "100.64.0.1": "private", "100.100.100.200": "private",
		"fd00:ec2::254": "private", "fc00::1": "private", "fec0::1": "private", "::ffff:10.0.0.1": "private",
		"169.254.169.254": "link-local", "::ffff:169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%lo": "link-local",
		"224.0.0.1": "multicast", "239.255.255.250": "multicast", "ff02::1": "multicast", "255.255.255.255": "reserved", "240.0.0.1": "reserved",
		"64:ff9b::7f00:1": "reserved", "64:ff9b::a9fe:a9fe": "reserved", "64:ff9b:1::1": "reserved", "::127.0.0.1": "reserved", "2002:7f00:1::": "reserved",
		"2001:0:1::": "reserved", "2001:db8::1": "reserved", "192.0.0.192": "reserved", "198.18.0.1": "reserved", "203.0.113.1": "reserved", "168.63.129.16": "metadata",
	} {
		w := newWorld(t, "127.0.0.1:1", func(c *Config) {
			c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(address)}, nil
			}
		})
		resp, body := w.raw(t, "CONNECT good.test:443 HTTP/1.1\r\n\r\n")
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, reason) || strings.Contains(body, address) {
			t.Errorf("%s: %d, %q; want a refusal with %q, and without the address", address, resp.StatusCode, body, reason)
		}
		w.note(func() {
			if len(w.dialed) > 0 {
				t.Errorf("%s was dialed", address)
			}
		})
	}
	for _, address := range []string{"93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:2800:220:1::1", "2a00:1450::1", "100.128.0.1"} {
		if reason := notPublic(netip.MustParseAddr(address)); reason != "" {
			t.Errorf("%s is %s", address, reason)
		}
	}
}

// TestRebindingName answers each lookup with a private address but the first, and gives a mix of both.
func TestRebindingName(t *testing.T) {
	t.Parallel()
	var lookups int
	private := netip.MustParseAddr("127.0.0.1")
	w := newWorld(t, server(t, echoHost), func(c *Config) {
		c.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			if lookups++; lookups == 1 {
				return []netip.Addr{private, public}, nil
			}
			return []netip.Addr{private}, nil
		}
	})
	dialer, err := proxy.SOCKS5("tcp", w.socks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dialer.Dial("tcp", "good.test:80")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := dialer.Dial("tcp", "good.test:80"); err == nil {
		t.Error("the private address was reached")
	}
	w.note(func() {
		if len(w.dialed) != 1 || w.dialed[0].Addr() != public || lookups != 2 {
			t.Errorf("dialed %v in %d lookups", w.dialed, lookups)
		}
	})
}

func TestSmugglingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, server(t, echoHost), nil)
	resp, body := w.raw(t, "GET http://good.test/a HTTP/1.1\r\nHost: bad.test\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: Basic eA==\r\nX-End: 1\r\n\r\n")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "host=good.test ") || strings.Contains(body, "X-Hop") || strings.Contains(body, "Proxy-") || !strings.Contains(body, "X-End") {
		t.Errorf("%d, %q", resp.StatusCode, body)
	}
	for _, text := range []string{
		"GET http://good.test@bad.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET http://bad.test#@good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET http://bad.test\\@good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nA\r\n b: c\r\n\r\n",
		"GET http://good.test/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nX: " + strings.Repeat("x", 2*headerBytes) + "\r\n\r\n",
		"CONNECT " + strings.Repeat("x", 2*headerBytes) + ":443 HTTP/1.1\r\n\r\n",
	} {
		if resp, body := w.raw(t, text); resp.StatusCode < 400 || resp.StatusCode == http.StatusBadGateway {
			t.Errorf("%.60q: %d, %q", text, resp.StatusCode, body)
		}
	}
}

// TestSlowClientsAreCut sends parts of requests and then nothing.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, server(t, echoHost), func(c *Config) { c.headerTime = 200 * time.Millisecond })
	for address, text := range map[string]string{w.web: "CONNECT good.test:443 HTTP/1.1\r\nA: ", w.socks: "\x05\x01\x00\x05"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text) // the proxy may be quicker
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTrafficIsBounded downloads more than the bound, and asks again.
func TestTrafficIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	flood := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 4*bound)) })
	w := newWorld(t, server(t, flood), func(c *Config) { c.Bytes = bound })
	if _, body, err := get(t, w.client(t), "http://good.test/"); err == nil || len(body) > bound {
		t.Errorf("got %d bytes, %v", len(body), err)
	}
	if status, body, err := get(t, w.client(t), "http://good.test/"); status != http.StatusForbidden || !strings.Contains(body, "traffic") {
		t.Errorf("after the bound: %d, %q, %v", status, body, err)
	}
}

// TestCloseEndsTunnels closes a proxy whose clients and targets are silent.
func TestCloseEndsTunnels(t *testing.T) {
	t.Parallel()
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for range 2 {
			if c, err := target.Accept(); err == nil {
				accepted <- c
			}
		}
	}()
	w := newWorld(t, target.Addr().String(), nil)
	dialer, err := proxy.SOCKS5("tcp", w.socks, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := dialer.Dial("tcp", "good.test:443")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := net.Dial("tcp", w.web)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := io.WriteString(second, "CONNECT good.test:443 HTTP/1.1\r\n\r\nearly"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "early"} {
		c := <-accepted
		defer c.Close()
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("the target got %q, %v; want %q", got, err, want)
		}
	}
	w.Close()
	for _, c := range []net.Conn{first, second} {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("the tunnel is open: %v", err)
		}
	}
}

// TestManyConnectionsWait opens more connections than are served at once. The further one is served when another ends.
func TestManyConnectionsWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, server(t, echoHost), nil)
	var idle []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", w.web)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	last, err := net.Dial("tcp", w.web)
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	if _, err := io.WriteString(last, "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// clock: the read must block; a slow proxy passes too
	if err := last.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := last.Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d bytes of an answer came while %d connections were open", n, maxConns)
	}
	_ = idle[0].Close()
	if err := last.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(last); err != nil || !strings.Contains(string(data), "host=good.test") {
		t.Errorf("%q, %v", data, err)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"example.com", "*.example.com", "*", "a-b.c_d.xn--p1ai"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "localhost", "Example.com", "example.com:443", "127.0.0.1", "::1", "1.2", "*x.com", "a.*.com", "**.com", ".com", "a..b", "a b.com", "-a.com", "https://a.com", strings.Repeat("a", 64) + ".com"} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestOwnAddressesAreKnown(t *testing.T) {
	t.Parallel()
	_, own, err := net.ParseCIDR("203.0.114.0/24")
	if err != nil {
		t.Fatal(err)
	}
	own.IP = net.ParseIP("203.0.114.7")
	if !isOwn([]net.Addr{own}, netip.MustParseAddr("203.0.114.7")) || isOwn([]net.Addr{own}, netip.MustParseAddr("203.0.114.8")) {
		t.Error("the address of an interface is not told from others")
	}
}

// FuzzSOCKS sends anything. A request that is taken names a target, and the answers are well-formed.
func FuzzSOCKS(f *testing.F) {
	for _, seed := range []string{"\x05\x01\x00\x05\x01\x00\x03\x09good.test\x01\xbb", "\x04\x01", "\x05\x02\x01\x02", "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", "\x05\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		client := &recorded{in: bytes.NewReader(data)}
		target, code, err := readSOCKS(client)
		if err == nil {
			if _, _, err := net.SplitHostPort(target); err != nil && !strings.ContainsAny(target, "[]:") {
				t.Errorf("the target %q: %v", target, err)
			}
		} else if code == socksGranted {
			t.Errorf("%v is answered as granted", err)
		}
		if out := client.out.Bytes(); len(out) > 0 && !bytes.Equal(out, []byte{socksVersion, socksNoPassword}) {
			t.Errorf("answered %x", out)
		}
	})
}

type recorded struct {
	in  io.Reader
	out bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error)  { return r.in.Read(p) }
func (r *recorded) Write(p []byte) (int, error) { return r.out.Write(p) }

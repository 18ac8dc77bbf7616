package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const testDomain = "apps.example.com"

// domainConfig shows sites on a domain of their own, on all interfaces, and has an API with TLS on a name of its own.
func domainConfig(t *testing.T, ca *authority) Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Gateway, cfg.GatewayDomain = "0.0.0.0:0", testDomain
	cfg.GatewayTLSCert, cfg.GatewayTLSKey = ca.files(t, "*."+testDomain)
	cfg.HTTP = "127.0.0.1:0"
	cfg.TLSCert, cfg.TLSKey = ca.files(t, "api.example.com")
	return cfg
}

// pagesTLSAddress returns the address of sites as this machine reaches it.
func (r *running) pagesTLSAddress() string {
	_, port, _ := net.SplitHostPort(r.Info().Addresses.Gateway)
	return "127.0.0.1:" + port
}

// secureServer connects to an address with TLS, by the name of a host.
func secureServer(t *testing.T, address, host string, ca *authority) fileServer {
	name, _, _ := net.SplitHostPort(host)
	return fileServer{t, host, func() (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: ca.pool(), ServerName: name, MinVersion: tls.VersionTLS12}}
		return d.DialContext(t.Context(), "tcp", address)
	}}
}

// newSecureBrowser is newBrowser with TLS and HTTP/2.
func newSecureBrowser(t *testing.T, r *running, ca *authority) *browser {
	t.Helper()
	transport := &http.Transport{
		DisableCompression: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", r.pagesTLSAddress())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// onDomain is a server with a site in each form on testDomain.
type onDomain struct {
	*running
	ca                   *authority
	folder               string
	site, inPath         *ctxfsv1.OpenSiteResponse
	host, port, inPathAt string
}

func startOnDomain(t *testing.T) *onDomain {
	t.Helper()
	d := &onDomain{ca: newAuthority(t)}
	d.running = start(t, domainConfig(t, d.ca))
	d.openPanel(t, "p")
	d.folder = d.running.folder("ctx_p")
	plantPages(t, d.folder)
	write(t, filepath.Join(d.folder, "long.txt"), strings.Repeat("0123456789abcdef", 256))
	write(t, filepath.Join(d.folder, "long.png"), strings.Repeat("0123456789abcdef", 256))
	write(t, filepath.Join(d.folder, "long.html"), "<!doctype html><p>"+strings.Repeat("0123456789abcdef", 256))
	d.site = d.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true, Listing: true, Hub: true})
	d.inPath = d.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Form: ctxfsv1.SiteForm_SITE_FORM_PATH})
	_, d.port, _ = net.SplitHostPort(d.Info().Addresses.Gateway)
	d.host = strings.TrimPrefix(d.site.GetOrigin(), "https://")
	u, err := url.Parse(d.inPath.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	d.inPathAt = u.Path
	return d
}

func TestSitesOnADomain(t *testing.T) {
	t.Parallel()
	d := startOnDomain(t)
	capability, _, _ := strings.Cut(d.host, ".")
	if want := "https://" + capability + "." + testDomain + ":" + d.port + "/"; d.site.GetUrl() != want || len(capability) != 26 {
		t.Errorf("the site is at %s, want %s", d.site.GetUrl(), want)
	}
	if want := "https://files." + testDomain + ":" + d.port + "/"; !strings.HasPrefix(d.inPath.GetUrl(), want) {
		t.Errorf("the site is at %s, want it below %s", d.inPath.GetUrl(), want)
	}
	if got, want := d.Info().Addresses.Sites, "https://*."+testDomain+":"+d.port; got != want {
		t.Errorf("sites are at %s, want %s", got, want)
	}
	b := newSecureBrowser(t, d.running, d.ca)
	for _, site := range []string{d.site.GetUrl(), d.inPath.GetUrl()} {
		if got := b.ask(site, "/a.txt"); got.status != http.StatusOK || got.body != "0123456789" {
			t.Errorf("%s: %d %q", site, got.status, got.body)
		}
	}
	resp, err := b.client.Get(d.site.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Proto != "HTTP/2.0" {
		t.Errorf("a browser gets %s", resp.Proto)
	}
	d.hostRows(t, capability)
	d.http2Rows(t)
}

// hostRows sends requests by names of all kinds, over HTTP/1.1.
func (d *onDomain) hostRows(t *testing.T, capability string) {
	t.Helper()
	pages := secureServer(t, d.pagesTLSAddress(), d.host, d.ca)
	api := secureServer(t, d.Info().Addresses.HTTP, "api.example.com", d.ca)
	files := "files." + testDomain + ":" + d.port
	for _, c := range []struct {
		name   string
		at     fileServer
		target string
		header []string
		status int
	}{
		{"a site's name", pages, "/a.txt", nil, 200},
		{"the path form", pages, d.inPathAt + "a.txt", []string{"Host", files}, 200},
		{"capitals", pages, "/a.txt", []string{"Host", strings.ToUpper(d.host)}, 200},
		{"a target that is a whole URL", pages, "https://" + d.host + "/a.txt", []string{"Host", d.host}, 421},
		{"a target that is a whole URL, and another Host", pages, "https://" + d.host + "/a.txt", []string{"Host", "evil.example"}, 421},
		{"a target that is the URL of another host", pages, "https://evil.example/a.txt", []string{"Host", d.host}, 421},
		{"a target that is the URL of the same host in capitals", pages, "HTTPS://" + strings.ToUpper(d.host) + "/a.txt", []string{"Host", d.host}, 421},
		{"a target that is the URL of another port", pages, "https://" + capability + "." + testDomain + ":1/a.txt", []string{"Host", d.host}, 421},
		{"a target that is the URL of the same host with a dot", pages, "https://" + capability + "." + testDomain + ".:" + d.port + "/a.txt", []string{"Host", d.host}, 421},
		{"a target that is a URL with a user", pages, "https://" + d.host + "@evil.example/a.txt", []string{"Host", d.host}, 421},
		{"a target that is a URL with a user, and another Host", pages, "https://evil.example@" + d.host + "/a.txt", []string{"Host", "evil.example"}, 421},
		{"a target that is a URL without a host", pages, "https:///a.txt", []string{"Host", d.host}, 421},
		{"a target that is a URL without slashes", pages, "https:a.txt", []string{"Host", d.host}, 421},
		{"a path that begins with a host", pages, "//evil.example/a.txt", []string{"Host", d.host}, 400},
		{"a name of another domain (rebinding)", pages, "/a.txt", []string{"Host", "evil.example:" + d.port}, 421},
		{"the domain as the beginning of another", pages, "/a.txt", []string{"Host", capability + "." + testDomain + ".evil.example:" + d.port}, 421},
		{"the domain as the end of another", pages, "/a.txt", []string{"Host", capability + ".evil" + testDomain + ":" + d.port}, 421},
		{"a name below a site's", pages, "/a.txt", []string{"Host", "x." + d.host}, 421},
		{"the domain itself", pages, "/a.txt", []string{"Host", testDomain + ":" + d.port}, 421},
		{"a name that is no capability", pages, "/a.txt", []string{"Host", "www." + testDomain + ":" + d.port}, 421},
		{"a capability that was never given", pages, "/a.txt", []string{"Host", strings.Repeat("a", 26) + "." + testDomain + ":" + d.port}, 404},
		{"a dot at the end", pages, "/a.txt", []string{"Host", capability + "." + testDomain + ".:" + d.port}, 421},
		{"another port", pages, "/a.txt", []string{"Host", capability + "." + testDomain + ":1"}, 421},
		{"no port", pages, "/a.txt", []string{"Host", capability + "." + testDomain}, 421},
		{"the name of localhost", pages, "/a.txt", []string{"Host", capability + ".localhost:" + d.port}, 421},
		{"an IPv4 address", pages, "/a.txt", []string{"Host", "127.0.0.1:" + d.port}, 421},
		{"an IPv6 address", pages, "/a.txt", []string{"Host", "[::1]:" + d.port}, 421},
		{"a user before the name", pages, "/a.txt", []string{"Host", "x@" + d.host}, 400},
		{"two hosts", pages, "/a.txt", []string{"Host", d.host, "Host", "evil.example"}, 400},
		{"two hosts that are the same", pages, "/a.txt", []string{"Host", d.host, "Host", d.host}, 400},
		{"an empty host", pages, "/a.txt", []string{"Host", ""}, 421},
		{"a forwarded host", pages, "/a.txt", []string{"Host", "evil.example:" + d.port, "X-Forwarded-Host", d.host, "Forwarded", "host=" + d.host}, 421},
		{"another forwarded host", pages, "/a.txt", []string{"X-Forwarded-Host", "evil.example"}, 200},
		{"a session at a site", pages, "/v1/session", []string{"Upgrade", "websocket"}, 404},
		{"the API by its name", api, "/livez", nil, 200},
		{"the API by the name of a site", api, "/livez", []string{"Host", d.host}, 421},
		{"the API by a name of the domain with a dot", api, "/v1/content?path=/a.txt", []string{"Host", "X." + testDomain + ".:1"}, 421},
		{"the API, and a target that is a whole URL", api, "https://api.example.com/livez", []string{"Host", "evil.example"}, 421},
		{"the API, and a target that is the URL of another host", api, "https://evil.example/livez", nil, 421},
		{"the API, and a target that is the URL of a site", api, "https://" + d.host + "/livez", nil, 421},
		{"the API by the domain", api, "/livez", []string{"Host", testDomain}, 421},
	} {
		c.at.T = t
		if got := c.at.ask("GET", c.target, c.header...); got.status != c.status {
			t.Errorf("%s: %d %q, want %d", c.name, got.status, got.body, c.status)
		}
	}
}

// http2Rows sends requests whose parts name several hosts, over HTTP/2, where a client writes each of them.
func (d *onDomain) http2Rows(t *testing.T) {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: d.ca.pool(), ServerName: "files." + testDomain, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}}).
		DialContext(t.Context(), "tcp", d.pagesTLSAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := beginFrames(t, conn)
	c.must(c.framer.WriteSettings())
	for i, row := range []struct {
		name, status string
		fields       []string
	}{
		{"a site's name", "200", []string{":authority", d.host, ":path", "/a.txt"}},
		{"another site's name on the same connection", "200", []string{":authority", "files." + testDomain + ":" + d.port, ":path", d.inPathAt + "a.txt"}},
		{"another domain", "421", []string{":authority", "evil.example", ":path", "/a.txt"}},
		{"a Host alone", "200", []string{":path", "/a.txt", "host", d.host}},
		{"a Host of another domain", "421", []string{":authority", d.host, ":path", "/a.txt", "host", "evil.example"}},
		{"an :authority of another domain", "421", []string{":authority", "evil.example", ":path", "/a.txt", "host", d.host}},
		{"a path that is a URL of another host", "421", []string{":authority", d.host, ":path", "https://evil.example/a.txt"}},
		{"a path that is a URL of the same host", "421", []string{":authority", d.host, ":path", "https://" + d.host + "/a.txt"}},
		{"a path that is a URL with a user", "421", []string{":authority", d.host, ":path", "https://evil.example@" + d.host + "/a.txt"}},
		{"a Host of another port", "421", []string{":authority", d.host, ":path", "/a.txt", "host", d.host + "1"}},
		{"a forwarded host", "421", []string{":authority", "evil.example", ":path", "/a.txt", "x-forwarded-host", d.host}},
	} {
		c.block.Reset()
		fields := append([]string{":method", "GET", ":scheme", "https"}, row.fields...)
		for i := 0; i < len(fields); i += 2 {
			c.must(c.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
		}
		stream := uint32(2*i + 1)
		c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true}))
		if got := c.statusOf(stream); got != row.status {
			t.Errorf("%s over HTTP/2: %s, want %s", row.name, got, row.status)
		}
	}
}

// statusOf reads until the head of a response, and returns its status.
func (c *frames) statusOf(stream uint32) string {
	c.Helper()
	for {
		f, err := c.next()
		c.must(err)
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "reset"
			}
		}
	}
}

// TestSitesOnADomainAreCompressed looks at what nginx does not have: documents with a snippet, listings, events, and a file that shrinks.
func TestSitesOnADomainAreCompressed(t *testing.T) {
	t.Parallel()
	d := startOnDomain(t)
	b := newSecureBrowser(t, d.running, d.ca)
	b.strong(d.site.GetUrl(), "/long.html")
	navigation := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	server := fileServer{T: t}
	for i := range 40 {
		write(t, filepath.Join(d.folder, "many", fmt.Sprintf("a file with a number %d", i)), "")
	}
	tags := map[string]string{}
	for _, c := range []struct {
		name, path, accepted, coding string
		header                       []string
	}{
		{"a document with the reload script", "/long.html", "gzip", "gzip", navigation},
		{"the same in zstd", "/long.html", "gzip, zstd", "zstd", navigation},
		{"the same as it is", "/long.html", "", "", navigation},
		{"the file without the script", "/long.html", "gzip", "gzip", nil},
		{"the reload script", "/__ctxfs/reload.js", "gzip", "gzip", nil},
		{"the hub's script", "/__ctxfs/hub.js", "gzip", "gzip", nil},
		{"a short listing", "/list/", "gzip", "", nil},
		{"a long listing", "/many/", "gzip", "gzip", nil},
		{"a short file", "/a.txt", "gzip", "", nil},
	} {
		got := b.ask(d.site.GetUrl(), c.path, append([]string{"Accept-Encoding", c.accepted}, c.header...)...)
		if got.status != http.StatusOK || got.header.Get("Content-Encoding") != c.coding {
			t.Errorf("%s: %d in %q, want %q", c.name, got.status, got.header.Get("Content-Encoding"), c.coding)
		}
		plain := b.ask(d.site.GetUrl(), c.path, c.header...)
		if server.decoded(got) != server.decoded(plain) {
			t.Errorf("%s: another content than without a coding", c.name)
		}
		tag := got.header.Get("ETag")
		if other, ok := tags[tag]; ok && tag != "" {
			t.Errorf("%s has the ETag of %s: %s", c.name, other, tag)
		}
		tags[tag] = c.name
		if again := b.ask(d.site.GetUrl(), c.path, append([]string{"Accept-Encoding", c.accepted, "If-None-Match", tag}, c.header...)...); tag != "" &&
			(again.status != http.StatusNotModified || again.header.Get("ETag") != tag || again.header.Get("Content-Encoding") != "") {
			t.Errorf("%s again: %d, %v", c.name, again.status, again.header)
		}
	}
	next := b.events(d.site.GetUrl(), "Accept-Encoding", "gzip")
	write(t, filepath.Join(d.folder, "a.txt"), "changed")
	if got := next(); got != "reload" {
		t.Errorf("the event is %q", got)
	}
}

func TestShrunkFileEndsACompressedResponseWithoutItsEnd(t *testing.T) {
	t.Parallel()
	d := startOnDomain(t)
	content := make([]byte, 16<<20)
	rand.NewChaCha8([32]byte{}).Read(content)
	file := write(t, filepath.Join(d.folder, "large.txt"), string(content))
	b := newSecureBrowser(t, d.running, d.ca)
	for _, coding := range []string{"gzip", "zstd"} {
		write(t, file, string(content))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.site.GetUrl()+"large.txt", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", coding)
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil || resp.Header.Get("Content-Encoding") != coding {
			t.Fatalf("%v in %q", err, resp.Header.Get("Content-Encoding"))
		}
		if err := os.Truncate(file, 1<<20); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%s: %d further bytes and no error, want a reset stream", coding, n)
		}
	}
}

func TestGatewayDomainIsChecked(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, c := range []struct {
		name   string
		change func(*Config)
		words  string
	}{
		{"without an address", func(c *Config) { c.Gateway = "" }, "--gateway as well"},
		{"without a certificate", func(c *Config) { c.GatewayTLSCert, c.GatewayTLSKey = "", "" }, "give --gateway-tls-cert and --gateway-tls-key, or listen on 127.0.0.1 behind a proxy"},
		{"half a certificate", func(c *Config) { c.GatewayTLSKey = "" }, "both --gateway-tls-cert and --gateway-tls-key"},
		{"a certificate without a domain", func(c *Config) { c.GatewayDomain = "" }, "is missing"},
		{"all interfaces without a domain", func(c *Config) { c.GatewayDomain, c.GatewayTLSCert, c.GatewayTLSKey = "", "", "" }, "give --gateway-domain"},
		{"no file", func(c *Config) { c.GatewayTLSCert = "/nowhere.pem" }, "/nowhere.pem"},
		{"a certificate of another domain", func(c *Config) { c.GatewayDomain = "sites.example.com" }, "is a certificate of *.apps.example.com, and sites need one of *.sites.example.com"},
		{"a certificate of the path form alone", func(c *Config) { c.GatewayTLSCert, c.GatewayTLSKey = ca.files(t, "files."+testDomain) }, "sites need one of *.apps.example.com"},
		{"the API's certificate for sites", func(c *Config) { c.TLSCert, c.TLSKey = c.GatewayTLSCert, c.GatewayTLSKey }, "the certificate of --tls-cert has a name of it"},
		{"the API's certificate for the domain", func(c *Config) { c.TLSCert, c.TLSKey = ca.files(t, testDomain) }, "the certificate of --tls-cert has a name of it"},
		{"the API in the domain", func(c *Config) { c.HTTP = "api." + testDomain + ":7421" }, "names no address of --http or --listen"},
		{"the API at the domain", func(c *Config) { c.Listen = []string{testDomain + ":7420"} }, "names no address of --http or --listen"},
		{"a site as --origin", func(c *Config) { c.Origins = []string{"https://files." + testDomain} }, "must not open sessions"},
		{"an address as a domain", func(c *Config) { c.GatewayDomain = "127.0.0.1" }, "no domain such as"},
		{"IPv6 as a domain", func(c *Config) { c.GatewayDomain = "[::1]:443" }, "no domain such as"},
		{"a wildcard", func(c *Config) { c.GatewayDomain = "*.example.com" }, "no domain such as"},
		{"a URL", func(c *Config) { c.GatewayDomain = "https://apps.example.com" }, "no port such as"},
		{"a dot at the end", func(c *Config) { c.GatewayDomain = testDomain + "." }, "no domain such as"},
		{"one label", func(c *Config) { c.GatewayDomain = "apps" }, "no domain such as"},
		{"an underscore", func(c *Config) { c.GatewayDomain = "my_apps.example.com" }, "no domain such as"},
		{"a long domain", func(c *Config) { c.GatewayDomain = strings.Repeat("a.", 120) + "example.com" }, "no domain such as"},
		{"localhost", func(c *Config) { c.GatewayDomain = "apps.localhost" }, "below localhost"},
		{"no number as a port", func(c *Config) { c.GatewayDomain = testDomain + ":https" }, "no port such as"},
	} {
		cfg := domainConfig(t, ca)
		c.change(&cfg)
		s, err := New(t.Context(), cfg, Deps{})
		if err == nil {
			err = errors.Join(errors.New("it is accepted"), s.Close())
		}
		var bad *ConfigError
		if !errors.As(err, &bad) || !strings.HasPrefix(bad.Key, "gateway") && bad.Key != "origin" || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.name, err, c.words)
		}
	}
}

// TestSitesBehindAProxy: the proxy speaks TLS, and passes the Host on.
func TestSitesBehindAProxy(t *testing.T) {
	t.Parallel()
	for domain, suffix := range map[string]string{testDomain: "." + testDomain, "Apps.Example.com:8443": "." + testDomain + ":8443"} {
		cfg := testConfig(t)
		cfg.Gateway, cfg.GatewayDomain = "127.0.0.1:0", domain
		r := start(t, cfg)
		r.openPanel(t, "p")
		plantPages(t, r.folder("ctx_p"))
		write(t, filepath.Join(r.folder("ctx_p"), "long.txt"), strings.Repeat("0123456789abcdef", 256))
		origin := r.openSite(t, "ctx_p", nil).GetOrigin()
		host, ok := strings.CutPrefix(origin, "https://")
		if !ok || !strings.HasSuffix(host, suffix) {
			t.Errorf("the site is at %s, want https and %s", origin, suffix)
		}
		got := plainServer(t, r.Info().Addresses.Gateway, host).ask("GET", "/long.txt", "Accept-Encoding", "gzip")
		if got.status != http.StatusOK || got.header.Get("Content-Encoding") != "" || got.header.Get("Vary") != "" {
			t.Errorf("%d %v, want the file as it is", got.status, got.header)
		}
		if got := plainServer(t, r.Info().Addresses.Gateway, "127.0.0.1").ask("GET", "/a.txt", "X-Forwarded-Host", host); got.status != http.StatusMisdirectedRequest {
			t.Errorf("a forwarded host: %d", got.status)
		}
	}
}

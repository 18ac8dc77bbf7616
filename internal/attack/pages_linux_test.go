package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// openSite opens a site of a panel. Its capability must not appear anywhere.
func (w *world) openSite(p panel, o *ctxfsv1.SiteOptions) *ctxfsv1.OpenSiteResponse {
	w.Helper()
	site, err := ctxfsv1.NewGatewayServiceClient(w.cc).OpenSite(p.ctx, &ctxfsv1.OpenSiteRequest{Options: o})
	w.must(err)
	w.needles[capabilityOf(site)] = "a site's capability"
	return site
}

// capabilityOf returns the secret of a site's URL.
func capabilityOf(site *ctxfsv1.OpenSiteResponse) string {
	rest := strings.TrimPrefix(site.GetUrl(), "http://")
	if path, ok := strings.CutPrefix(rest, "files.localhost"); ok {
		return strings.Split(path, "/")[1]
	}
	return strings.Split(rest, ".")[0]
}

// answer is a response that was read. It is zero if the server closed the connection.
type answer struct {
	status int
	header http.Header
	body   string
}

// raw sends a request byte for byte, and checks what comes back.
func (w *world) raw(addr, request string) answer {
	w.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	w.must(err)
	defer conn.Close()
	w.must(conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, request)
	w.must(err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return answer{}
	}
	w.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// trySite reads a path from the attacker's site.
func (w *world) trySite(path string, mustFail bool) {
	u, err := url.Parse(w.site.GetUrl())
	w.must(err)
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	for _, suffix := range []string{"", "/"} {
		got := w.raw(w.server.Info().Addresses.Gateway, fmt.Sprintf("GET /%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", strings.Join(segments, "/"), suffix, u.Host))
		w.checkBytes("a site's "+path, []byte(got.body))
		for _, values := range got.header {
			w.checkBytes("a site's header", []byte(strings.Join(values, " ")))
		}
		if mustFail && got.status < 300 {
			w.leak("a site shows %q: %d", path+suffix, got.status)
		}
	}
}

// TestSitesAreKeptApart tries to get from a site, or with what belongs to one, to anything else.
func TestSitesAreKeptApart(t *testing.T) {
	w := newWorld(t, configs(t)[0])
	w.file("page.html", "the attacker's page")
	w.must(os.WriteFile(filepath.Join(w.victim.dir, "page.html"), []byte(w.secret), 0o644))
	own := w.site
	inPath := w.openSite(w.attacker, &ctxfsv1.SiteOptions{Form: ctxfsv1.SiteForm_SITE_FORM_PATH})
	victim := w.openSite(w.victim, nil)
	victimInPath := w.openSite(w.victim, &ctxfsv1.SiteOptions{Form: ctxfsv1.SiteForm_SITE_FORM_PATH})
	closed := w.openSite(w.victim, nil)
	_, err := ctxfsv1.NewGatewayServiceClient(w.cc).CloseSite(w.victim.ctx, &ctxfsv1.CloseSiteRequest{SiteId: closed.GetSite().GetSiteId()})
	w.must(err)
	pages, web := w.server.Info().Addresses.Gateway, w.server.Info().Addresses.HTTP
	_, port, err := net.SplitHostPort(pages)
	w.must(err)
	get := func(host, path string, header ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(header, "Connection: close"), "\r\n") + "\r\n\r\n"
	}
	hostOf := func(site *ctxfsv1.OpenSiteResponse) string { return strings.TrimPrefix(site.GetOrigin(), "http://") }
	ownCapability, victimCapability := capabilityOf(own), capabilityOf(victim)
	if got := w.raw(pages, get(hostOf(own), "/page.html")); got.body != "the attacker's page" {
		t.Fatalf("the attacker's own page: %d %q", got.status, got.body)
	}
	if got := w.raw(pages, get(hostOf(victim), "/page.html")); got.body != w.secret {
		t.Fatalf("the victim's own page: %d %q", got.status, got.body)
	}
	for _, row := range []struct {
		name, addr, request string
		status              int
	}{
		{"a name of the attacker's domain (rebinding)", pages, get("evil.example:"+port, "/page.html"), 421},
		{"a site's name in the attacker's domain", pages, get(victimCapability+".localhost.evil.example:"+port, "/page.html"), 421},
		{"a name below a site's", pages, get("x."+victimCapability+".localhost:"+port, "/page.html"), 421},
		{"the address itself", pages, get(pages, "/page.html"), 421},
		{"localhost", pages, get("localhost:"+port, "/page.html"), 421},
		{"another port", pages, get(victimCapability+".localhost:1", "/page.html"), 421},
		{"no port", pages, get(victimCapability+".localhost", "/page.html"), 421},
		{"a dot at the end", pages, get(victimCapability+".localhost.:"+port, "/page.html"), 421},
		{"a user before the name", pages, get("x@"+victimCapability+".localhost:"+port, "/page.html"), 400},
		{"a target with another host", pages, get(hostOf(victim), "http://evil.example:"+port+"/page.html"), 421},
		{"two hosts", pages, "GET /page.html HTTP/1.1\r\nHost: evil.example\r\nHost: " + hostOf(victim) + "\r\nConnection: close\r\n\r\n", 400},
		{"no host", pages, "GET /page.html HTTP/1.0\r\n\r\n", 421},
		{"a forwarded host", pages, get("evil.example:"+port, "/page.html", "X-Forwarded-Host: "+hostOf(victim)), 421},
		{"a capability that differs in its last character", pages, get(victimCapability[:25]+next(victimCapability[25:])+".localhost:"+port, "/page.html"), 404},
		{"the beginning of a capability", pages, get(victimCapability[:25]+".localhost:"+port, "/page.html"), 421},
		{"a capability of the host form in the path", pages, get("files.localhost:"+port, "/"+victimCapability+"/page.html"), 404},
		{"a capability of the path form in the host", pages, get(capabilityOf(victimInPath)+".localhost:"+port, "/page.html"), 404},
		{"out of a site in the path form", pages, get("files.localhost:"+port, "/"+capabilityOf(inPath)+"/../"+capabilityOf(victimInPath)+"/page.html"), 400},
		{"out of it, encoded", pages, get("files.localhost:"+port, "/"+capabilityOf(inPath)+"/%2e%2e/page.html"), 400},
		{"the list of sites in the path form", pages, get("files.localhost:"+port, "/"), 404},
		{"a closed site", pages, get(hostOf(closed), "/page.html"), 404},
		{"a site's ID in the path", pages, get("files.localhost:"+port, "/"+victim.GetSite().GetSiteId()+"/page.html"), 404},
		{"a panel's token in the path", pages, get("files.localhost:"+port, "/"+w.attacker.token+"/page.html"), 404},
		{"a panel's token at a site", pages, get(hostOf(own), "/v1/content?path=/page.html", "Authorization: Bearer "+w.attacker.token), 404},
		{"a session at a site", pages, get(hostOf(own), "/v1/session", "Authorization: Bearer "+w.attacker.token, "Upgrade: websocket", "Connection: Upgrade"), 404},
		{"another context at a site", pages, get(hostOf(own), "/target?context_id=ctx_ab&path=/target", "ctxfs-panel: ab"), 404},
		{"a site's page that asks for content", web, get(web, "/v1/content?path=/page.html", "Origin: "+victim.GetOrigin(), "Authorization: Bearer "+w.attacker.token), 403},
		{"a sandboxed page that asks for content", web, get(web, "/v1/content?path=/page.html", "Origin: null", "Authorization: Bearer "+w.attacker.token), 403},
		{"a site's page that opens a session", web, get(web, "/v1/session", "Origin: "+own.GetOrigin(), "Upgrade: websocket", "Connection: Upgrade"), 403},
		{"a site's page at --http by the site's name", web, get(hostOf(own), "/v1/content?path=/page.html", "Authorization: Bearer "+w.attacker.token), 403},
		{"a capability as a token", web, get(web, "/v1/content?path=/page.html", "Authorization: Bearer "+ownCapability), 401},
		{"a worker's script", pages, get(hostOf(own), "/page.html", "Service-Worker: script"), 403},
		{"a write", pages, "PUT /page.html HTTP/1.1\r\nHost: " + hostOf(own) + "\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx", 405},
		{"a deletion", pages, "DELETE /page.html HTTP/1.1\r\nHost: " + hostOf(own) + "\r\nConnection: close\r\n\r\n", 405},
		{"a line in the path", pages, get(hostOf(own), "/page.html%0d%0aSet-Cookie:x=1"), 404},
		{"a redirect to another host", pages, get(hostOf(own), "//evil.example/.."), 400},
	} {
		got := w.raw(row.addr, row.request)
		if got.status != row.status {
			t.Errorf("%s: %d %.80q, want %d", row.name, got.status, got.body, row.status)
		}
		w.checkBytes(row.name, []byte(got.body+fmt.Sprint(got.header)))
		if got.header.Get("Set-Cookie") != "" || strings.Contains(got.body, "the attacker's page") {
			t.Errorf("%s: %q, %v", row.name, got.body, got.header)
		}
	}
	_, err = ctxfsv1.NewFsServiceClient(w.cc).Stat(w.with("authorization", "Bearer "+ownCapability), &ctxfsv1.StatRequest{Path: "/"})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a capability as a token of a gRPC call: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "page.html")); err != nil || string(data) != "the attacker's page" {
		t.Errorf("the page is %q, %v", data, err)
	}
	w.checkLog("sites")
	for _, leak := range w.takeLeaks() {
		t.Error(leak)
	}
}

// next returns another character of base32.
func next(c string) string {
	if c == "a" {
		return "b"
	}
	return "a"
}

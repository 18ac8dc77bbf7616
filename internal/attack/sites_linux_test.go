package attack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// siteRow is one attack on sites by HTTP.
type siteRow struct {
	name string
	// to is "pages", the address of sites, or "web", that of --http.
	to, request string
	// status is what the server must answer.
	status int
	// leaks tells what the attacker gained; "" means nothing. Without it every success, and all content of other contexts, is a gain.
	leaks func(all []answer) string
}

// siteStage is a world with sites, or the naive server in its place.
type siteStage struct {
	*world
	pages, web string
	// capabilities by what they are for.
	capability map[string]string
	// caller makes the attacker's calls: without the protection it is a host.
	caller context.Context
	// n is the naive server; nil for the real one.
	n *naiveSites
}

// host returns the host name of a site, with the port.
func (s *siteStage) at(site string) string {
	return s.capability[site] + ".localhost:" + s.port()
}

func (s *siteStage) port() string {
	_, port, err := net.SplitHostPort(s.pages)
	s.must(err)
	return port
}

func get(host, path string, header ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(header, "Connection: close"), "\r\n") + "\r\n\r\n"
}

// gained is what a row gains unless it says otherwise.
func (s *siteStage) gained(all []answer) string {
	for _, got := range all {
		switch {
		case strings.Contains(got.body, s.secret):
			return "content of another context"
		case strings.Contains(got.body, "the attacker's page"):
			return "a page"
		case got.status < 300:
			return fmt.Sprintf("an answer: %d", got.status)
		}
	}
	return ""
}

// header returns a check of the first answer's header: value must not be in it, or, without one, the header must be there.
func header(name, value string) func([]answer) string {
	return func(all []answer) string {
		switch got := strings.Join(all[0].header.Values(name), ", "); {
		case value == "" && got == "":
			return "an answer without " + name
		case value != "" && strings.Contains(got, value):
			return name + ": " + got
		}
		return ""
	}
}

// text returns a check that no body has a text.
func text(part string) func([]answer) string {
	return func(all []answer) string {
		if strings.Contains(all[0].body, part) {
			return part
		}
		return ""
	}
}

// elsewhere tells that a redirect leads to another host.
func elsewhere(all []answer) string {
	location := all[0].header.Get("Location")
	if strings.HasPrefix(location, "//") || strings.HasPrefix(location, `/\`) || !strings.HasPrefix(location, "/") {
		return "a redirect to " + location
	}
	return ""
}

// several tells that a body was taken for a request.
func several(all []answer) string {
	if len(all) > 1 {
		return "a second answer"
	}
	return ""
}

// hostRows name the victim's site, or no site, by something that is not its host name.
func (s *siteStage) hostRows() []siteRow {
	port, victim := s.port(), s.capability["victim"]
	var all []siteRow
	for _, row := range []struct {
		name, request string
		status        int
	}{
		{"a name of the attacker's domain (rebinding)", get("evil.example:"+port, "/page.html"), 421},
		{"a name of the attacker's domain, and the path form", get("evil.example:"+port, "/"+s.capability["victim in path"]+"/page.html"), 421},
		{"a site's name in the attacker's domain", get(victim+".localhost.evil.example:"+port, "/page.html"), 421},
		{"the path form's name in the attacker's domain", get("files.localhost.evil.example:"+port, "/"+s.capability["victim in path"]+"/page.html"), 421},
		{"a name below a site's", get("x."+s.at("victim"), "/page.html"), 421},
		{"a name that ends in a site's", get("evil"+s.at("victim"), "/page.html"), 421},
		{"the address itself", get(s.pages, "/page.html"), 421},
		{"the address in IPv6", get("[::1]:"+port, "/page.html"), 421},
		{"the address in IPv6, and the path form", get("[::1]:"+port, "/"+s.capability["victim in path"]+"/page.html"), 421},
		{"localhost", get("localhost:"+port, "/page.html"), 421},
		{"another port", get(victim+".localhost:1", "/page.html"), 421},
		{"no port", get(victim+".localhost", "/page.html"), 421},
		{"a dot at the end", get(victim+".localhost.:"+port, "/page.html"), 421},
		{"an encoded name", get("%"+fmt.Sprintf("%x", victim[0])+victim[1:]+".localhost:"+port, "/page.html"), 421},
		{"two names in one", get("evil.example, "+s.at("victim"), "/page.html"), 400},
		{"a user before the name", get("x@"+s.at("victim"), "/page.html"), 400},
		{"a target with another host", get(s.at("victim"), "http://evil.example:"+port+"/page.html"), 421},
		{"two hosts", "GET /page.html HTTP/1.1\r\nHost: evil.example\r\nHost: " + s.at("victim") + "\r\nConnection: close\r\n\r\n", 400},
		{"two hosts, the site's first", "GET /page.html HTTP/1.1\r\nHost: " + s.at("victim") + "\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 400},
		{"a host that goes on in the next line", "GET /page.html HTTP/1.1\r\nHost: evil.example\r\n " + s.at("victim") + "\r\nConnection: close\r\n\r\n", 400},
		{"an :authority beside the host", get("evil.example:"+port, "/page.html", ":authority: "+s.at("victim")), 400},
		{"no host", "GET /page.html HTTP/1.0\r\nConnection: close\r\n\r\n", 421},
		{"a forwarded host", get("evil.example:"+port, "/page.html", "X-Forwarded-Host: "+s.at("victim")), 421},
		{"a capability that differs in its last character", get(victim[:25]+next(victim[25:])+".localhost:"+port, "/page.html"), 404},
		{"the beginning of a capability", get(victim[:25]+".localhost:"+port, "/page.html"), 421},
		{"a capability of the host form in the path", get("files.localhost:"+port, "/"+victim+"/page.html"), 404},
		{"a capability of the path form in the host", get(s.at("victim in path"), "/page.html"), 404},
		{"a closed site", get(s.at("closed"), "/page.html"), 404},
		{"a closed site of the path form", get("files.localhost:"+port, "/"+s.capability["closed in path"]+"/page.html"), 404},
		{"an expired site", get(s.at("expired"), "/page.html"), 404},
		{"a site of a deleted context", get(s.at("deleted"), "/page.html"), 404},
		{"a site of a closed panel", get(s.at("of a closed panel"), "/page.html"), 404},
		{"a panel's token in the path", get("files.localhost:"+port, "/"+s.attacker.token+"/page.html"), 404},
	} {
		all = append(all, siteRow{"a host that is none: " + row.name, "pages", row.request, row.status, nil})
	}
	return all
}

// pathRows lead out of the attacker's site, or to what the victim's hides.
func (s *siteStage) pathRows() []siteRow {
	files, own, other := "files.localhost:"+s.port(), s.capability["in path"], s.capability["victim in path"]
	var all []siteRow
	for _, up := range []string{"..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%2f", "..%5c", "%2e%2e%2f", "%c0%ae%c0%ae", ";/..", "x/../.."} {
		status := 400
		if strings.Contains(up, "%25") || strings.Contains(up, "%5c") || strings.Contains(up, "%c0") {
			status = 404 // they are names
		}
		all = append(all, siteRow{"a path that leads up: " + up, "pages", get(files, "/"+own+"/"+up+"/"+other+"/page.html"), status, nil})
	}
	for _, hidden := range []string{".env", "%2eenv", "%2Eenv", ".%65nv", ".env/", ".env;x", ".env%20", ".env%00.html", ".env%3bx", "%252eenv", ".well-known/.env", "d/.git/config", "d/%2egit/config", "d/.git%5cconfig"} {
		status := 404
		if strings.Contains(hidden, "%00") {
			status = 400
		}
		all = append(all, siteRow{"a hidden name: " + hidden, "pages", get(s.at("victim"), "/"+hidden), status, nil})
	}
	for _, link := range []string{"out.html", "absolute.html", "folder/page.html", "folder/", "magic/target", "index/"} {
		status := 403
		if link == "absolute.html" || link == "magic/target" {
			status = 404 // an absolute link leads to the context's root
		}
		all = append(all, siteRow{"a link that leads out: " + link, "pages", get(s.at("own"), "/"+link), status, nil})
	}
	return append(all,
		siteRow{"a FIFO that someone writes to", "pages", get(s.at("own"), "/fifo"), 404, nil},
		siteRow{"another context by a parameter", "pages", get(s.at("own"), "/page.html?context_id=ctx_ab", "ctxfs-panel: ab"), 200, text(s.secret)},
		siteRow{"a directory's name as a header", "pages", get(s.at("own"), "/x%0d%0aSet-Cookie:%20a=1"), 308, header("Set-Cookie", "a=1")},
		siteRow{"a directory's name as another host", "pages", get(s.at("own"), "/%5Cevil.example"), 308, elsewhere},
		siteRow{"a path that is reflected", "pages", get(s.at("own"), "/%3Cscript%3Ealert(1)", "Sec-Fetch-Mode: navigate"), 404, text("<script>")},
		siteRow{"a file's name in a listing", "pages", get(s.at("own"), "/names/"), 200, text("<img src=x")},
		siteRow{"a document without its type", "pages", get(s.at("own"), "/note.unknown"), 200, header("Content-Type", "text/html")},
	)
}

// serverRows try methods, origins and what else the server has.
func (s *siteStage) serverRows() []siteRow {
	own, victim := s.at("own"), "http://"+s.at("victim")
	bearer := "Authorization: Bearer " + s.attacker.token
	method := func(name, path string, header ...string) string {
		return name + strings.TrimPrefix(get(own, path, header...), "GET")
	}
	return []siteRow{
		{"a panel's token at a site", "pages", get(own, "/v1/content?path=/page.html", bearer), 404, nil},
		{"a session at a site", "pages", get(own, "/v1/session", bearer, "Upgrade: websocket"), 404, nil},
		{"a site's page that asks for content", "web", get(s.web, "/v1/content?path=/page.html", "Origin: "+victim, bearer), 403, nil},
		{"a sandboxed page that asks for content", "web", get(s.web, "/v1/content?path=/page.html", "Origin: null", bearer), 403, nil},
		{"two origins that ask for content", "web", get(s.web, "/v1/content?path=/page.html", "Origin: http://"+s.web, "Origin: "+victim, bearer), 403, nil},
		{"a site's page that opens a session", "web", get(s.web, "/v1/session", "Origin: "+victim, "Upgrade: websocket"), 403, nil},
		{"a site's page at --http by the site's name", "web", get(own, "/v1/content?path=/page.html", bearer), 403, nil},
		{"a capability as a token", "web", get(s.web, "/v1/content?path=/page.html", "Authorization: Bearer "+s.capability["victim"]), 401, nil},
		{"a capability as a cookie", "web", get(s.web, "/v1/content?path=/page.html", "Cookie: token="+s.capability["victim"]), 401, nil},
		{"a worker's script", "pages", get(own, "/page.html", "Service-Worker: script"), 403, nil},
		{"a worker's script of a site without a hub", "pages", get(own, "/__ctxfs/sw.js", "Service-Worker: script"), 403, nil},
		{"a write", "pages", "PUT /page.html HTTP/1.1\r\nHost: " + own + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 405, nil},
		{"a deletion", "pages", method("DELETE", "/left.html"), 405, nil},
		{"a page of anybody that reads", "pages", get(own, "/page.html", "Origin: http://evil.example"), 200, header("Access-Control-Allow-Origin", "evil")},
		{"a page of anybody that reads with cookies", "pages", get("files.localhost:"+s.port(), "/"+s.capability["in path"]+"/page.html", "Origin: null"), 200, header("Access-Control-Allow-Credentials", "true")},
		{"a page of the web that asks to reach this machine", "pages", method("OPTIONS", "/page.html", "Origin: https://evil.example", "Access-Control-Request-Private-Network: true"), 204, header("Access-Control-Allow-Private-Network", "true")},
		{"a file that is sniffed", "pages", get(own, "/page.html"), 200, header("X-Content-Type-Options", "")},
		{"an error without a policy", "pages", get(own, "/nope.html"), 404, header("Content-Security-Policy", "")},
		{"a redirect without a policy", "pages", get(own, "/names"), 308, header("Content-Security-Policy", "")},
		{"a URL in the Referer", "pages", get(own, "/page.html"), 200, header("Referrer-Policy", "")},
		{"data of a closed site", "pages", get(s.at("closed"), "/page.html"), 404, header("Clear-Site-Data", "")},
	}
}

// smugglingRows send a second request as the body of the first. A proxy in front would take it for one.
func (s *siteStage) smugglingRows() []siteRow {
	second := get(s.at("victim"), "/page.html")
	body := "0\r\n\r\n" + second
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	var all []siteRow
	for _, row := range []struct {
		name, fields, body string
		status             int
	}{
		{"a length and chunks", length(len(body)) + "Transfer-Encoding: chunked\r\n", body, 400},
		{"chunks and a length", "Transfer-Encoding: chunked\r\n" + length(len(body)), body, 400},
		{"chunks after an unknown coding", length(len(body)) + "Transfer-Encoding: x, chunked\r\n", body, 501},
		{"chunks in the next line", length(len(body)) + "Transfer-Encoding:\r\n chunked\r\n", body, 400},
		{"chunks with a space before the colon", length(len(body)) + "Transfer-Encoding : chunked\r\n", body, 400},
		{"two lengths", length(0) + length(len(second)), second, 400},
		{"a length with a sign", "Content-Length: +" + fmt.Sprint(len(second)) + "\r\n", second, 400},
		{"a length of a GET", length(len(second)), second, 400},
		{"a chunk with a bare line feed", "Transfer-Encoding: chunked\r\n", "1;\n" + body, 400},
		{"an offer to go on", length(len(second)) + "Expect: 100-continue\r\n", second, 400},
	} {
		all = append(all, siteRow{"a request in a body: " + row.name, "pages", "GET /page.html HTTP/1.1\r\nHost: " + s.at("own") + "\r\n" + row.fields + "\r\n" + row.body, row.status, several})
	}
	return all
}

// TestSitesAreKeptApart tries to get from a site, or with what belongs to one, to anything else. Each row is tried on a naive server as
// well, where it must gain something.
func TestSitesAreKeptApart(t *testing.T) {
	s := newSiteStage(t)
	if got := s.raw(s.pages, get(s.at("own"), "/page.html")); got.body != "the attacker's page" {
		t.Fatalf("the attacker's own page: %d %q", got.status, got.body)
	}
	if got := s.raw(s.pages, get(s.at("victim"), "/page.html")); got.body != s.secret {
		t.Fatalf("the victim's own page: %d %q", got.status, got.body)
	}
	rows := func(s *siteStage) []siteRow {
		return append(append(s.hostRows(), s.pathRows()...), append(s.serverRows(), s.smugglingRows()...)...)
	}
	s.checkLog("the sites are opened")
	leaks, all := 0, rows(s)
	for _, row := range all {
		answers, gained := s.attackSite(row)
		for _, got := range answers {
			s.checkBytes(row.name, []byte(got.body+fmt.Sprint(got.header)))
			if got.header.Get("Set-Cookie") != "" {
				s.leak("%s: a cookie", row.name)
			}
		}
		if named := s.log.take(); !strings.Contains(strings.Join(named, ""), "/"+s.capability["victim in path"]+"/page.html") { // a file that has its name
			for _, line := range named {
				s.checkBytes(row.name+": the log", []byte(line))
			}
		}
		if len(answers) == 0 || answers[0].status != row.status {
			t.Errorf("%s: %.80q, want %d", row.name, fmt.Sprint(answers), row.status)
		}
		if gained != "" {
			leaks++
			t.Errorf("%s: %s", row.name, gained)
		}
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, "page.html")); err != nil || string(data) != "the attacker's page" {
		t.Errorf("the page is %q, %v", data, err)
	}
	for name, path := range map[string]string{"the list of sites": "/", "a site's ID": "/" + s.site.GetSite().GetSiteId() + "/page.html"} {
		if got := s.raw(s.pages, get("files.localhost:"+s.port(), path)); got.status != http.StatusNotFound {
			t.Errorf("%s in the path form: %d", name, got.status)
		}
	}
	_, err := ctxfsv1.NewFsServiceClient(s.cc).Stat(s.with("authorization", "Bearer "+s.capability["own"]), &ctxfsv1.StatRequest{Path: "/"})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a capability as a token of a gRPC call: %v", err)
	}
	naive := s.naive()
	for _, row := range rows(naive) {
		if _, gained := naive.attackSite(row); gained == "" {
			t.Errorf("%s: the naive server gives nothing away, so that the row cannot fail", row.name)
		}
		naive.file("page.html", "the attacker's page")
	}
	s.report()
	fmt.Printf("attack: %d rows of sites, %d leaks\n", len(all), leaks)
}

// attackSite tries a row, and returns what it gained.
func (s *siteStage) attackSite(row siteRow) (all []answer, gained string) {
	s.Helper()
	address := s.pages
	if row.to == "web" {
		address = s.web
	}
	all = s.exchange(address, row.request)
	if row.leaks == nil {
		return all, s.gained(all)
	}
	if len(all) == 0 {
		return all, ""
	}
	return all, row.leaks(all)
}

// newSiteStage makes a world with sites that are open and sites that have ended.
func newSiteStage(t *testing.T) *siteStage {
	t.Helper()
	w := newWorld(t, config{driver: "copy", implementation: "openat2", transport: "unary", configure: func(c *server.Config) {
		c.AuditLog, c.MemoryPerPanel = filepath.Join(filepath.Dir(c.Workspace), "audit.log"), 2<<20
		c.WatchesPerPanel = 4
	}})
	s := &siteStage{w, w.server.Info().Addresses.Gateway, w.server.Info().Addresses.HTTP, map[string]string{}, w.attacker.ctx, nil}
	third := w.openPanel("third", nil)
	gateway, inPath := ctxfsv1.NewGatewayServiceClient(w.cc), &ctxfsv1.SiteOptions{Form: ctxfsv1.SiteForm_SITE_FORM_PATH}
	opened := map[string]*ctxfsv1.OpenSiteResponse{"own": w.site}
	for name, site := range map[string]struct {
		of panel
		o  *ctxfsv1.SiteOptions
	}{
		"in path": {w.attacker, inPath}, "victim": {w.victim, nil}, "victim in path": {w.victim, inPath}, "closed": {w.victim, nil}, "closed in path": {w.victim, inPath},
		"expired": {w.victim, nil}, "of a closed panel": {third, nil},
	} {
		opened[name] = w.openSite(site.of, site.o)
	}
	for name, site := range opened {
		s.capability[name] = capabilityOf(site)
	}
	for _, name := range []string{"closed", "closed in path"} {
		_, err := gateway.CloseSite(w.victim.ctx, &ctxfsv1.CloseSiteRequest{SiteId: opened[name].GetSite().GetSiteId()})
		w.must(err)
	}
	_, err := gateway.RenewSite(w.victim.ctx, &ctxfsv1.RenewSiteRequest{SiteId: opened["expired"].GetSite().GetSiteId(), TtlMs: 1})
	w.must(err)
	_, err = ctxfsv1.NewPanelServiceClient(w.cc).ClosePanel(w.host, &ctxfsv1.ClosePanelRequest{PanelId: "third"})
	w.must(err)
	doomed := w.openPanel("doomed", nil)
	s.capability["deleted"] = capabilityOf(w.openSite(doomed, nil))
	_, err = ctxfsv1.NewContextServiceClient(w.cc).DeleteContext(w.host, &ctxfsv1.DeleteContextRequest{ContextId: filepath.Base(doomed.dir)})
	w.must(err)
	s.plantSites()
	for s.raw(s.pages, get(s.at("expired"), "/page.html")).status != http.StatusNotFound {
		w.must(w.Context().Err())
	}
	return s
}

// plantSites fills both contexts.
func (s *siteStage) plantSites() {
	s.Helper()
	for name, content := range map[string]string{
		"page.html": s.secret, ".env": s.secret, ".well-known/.env": s.secret, "d/.git/config": s.secret,
	} {
		path := filepath.Join(s.victim.dir, name)
		s.must(os.MkdirAll(filepath.Dir(path), 0o755))
		s.must(os.WriteFile(path, []byte(content), 0o644))
	}
	for name, content := range map[string]string{
		"page.html": "the attacker's page", "left.html": "", "note.unknown": "<!doctype html><p>x", "names/<img src=x onerror=alert(1)>": "", "x\r\nSet-Cookie: a=1/f": "", "\\evil.example/f": "",
		"evil.example/f": "", "__ctxfs/sw.js": "", "shrinking": "", "swapped": "inside", "swapped.other": "",
	} {
		s.file(name, content)
	}
	s.must(os.Mkdir(filepath.Join(s.dir, "index"), 0o755))
	victim := "../" + filepath.Base(s.victim.dir)
	for name, target := range map[string]string{
		"out.html": victim + "/page.html", "absolute.html": filepath.Join(s.victim.dir, "page.html"), "folder": victim, "index/index.html": "../" + victim + "/page.html",
		"magic": "/proc/self/fd/" + s.outsideFD(),
	} {
		s.link(target, name)
	}
	fifo := filepath.Join(s.dir, "fifo")
	s.must(unix.Mkfifo(fifo, 0o644))
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	s.must(err)
	s.Cleanup(func() { _ = f.Close() })
	_, err = f.WriteString(s.secret)
	s.must(err)
}

// naive puts the naive server in the place of the real one.
func (s *siteStage) naive() *siteStage {
	s.Helper()
	dirs := map[string]string{s.attacker.token: s.victim.dir} // a secret is a secret
	for name, capability := range s.capability {
		if dirs[capability] = s.victim.dir; name == "own" || name == "in path" {
			dirs[capability] = s.dir
		}
	}
	n := newNaiveSites(s.T, s.base, dirs, s.capability["victim"])
	at := n.listener.Addr().String()
	return &siteStage{s.world, at, at, s.capability, s.host, n}
}

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func pagesConfig(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Gateway, cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

// browser sends requests to the address of sites, as a browser does that resolves every name to it.
type browser struct {
	*testing.T
	client *http.Client
}

func newBrowser(t *testing.T, r *running) *browser {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", r.Info().Addresses.Gateway)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request below a site. path is sent as it is. headers are names and values; "Host" and "method" are special.
func (b *browser) ask(site, path string, headers ...string) answer {
	b.Helper()
	u, err := url.Parse(site)
	if err != nil {
		b.Fatal(err)
	}
	u.Opaque = strings.TrimSuffix(u.Path, "/") + path
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "Host":
			req.Host = headers[i+1]
		case "method":
			req.Method = headers[i+1]
		default:
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	resp, err := b.client.Do(req.WithContext(b.Context()))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (r *running) openSite(t *testing.T, contextID string, o *ctxfsv1.SiteOptions) *ctxfsv1.OpenSiteResponse {
	t.Helper()
	resp, err := ctxfsv1.NewGatewayServiceClient(r.host(t)).OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: contextID, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const documentText = "<!doctype html>\n<html><head><title>t</title></head><body>hello</body></html>\n"

// plantPages fills a panel's context.
func plantPages(t *testing.T, folder string) {
	t.Helper()
	for name, content := range map[string]string{
		"index.html": documentText, "a.txt": "0123456789", "app.js": "export default 1\n", "style.css": "a{}", "d/index.html": "<p>d", "empty": "",
		"list/b.txt": "b", "list/<x>&.txt": "x", "list/.hidden": "h", "list/sub/f": "f", ".env": "SECRET=1", ".git/config": "SECRET=1", "git~1": "SECRET=1", "list/.GIT": "SECRET=1", ".well-known/x.json": "{}", "a b?.txt": "odd", "pic.SVG": "<svg/>",
		"back\\slash": "bs", "percent%41": "p", "\xff.txt": "raw", "noext": "\x00\x01", "app/index.html": "<h1>app", "locked": "no",
		".secret/f": "SECRET=2", ".secret/index.html": "SECRET=3", ".secret/.deep/f": "SECRET=4", ".empty/f": "SECRET=5", "d/f": "f",
	} {
		write(t, filepath.Join(folder, name), content)
	}
	for name, target := range map[string]string{
		"out": "../../../../../../../../etc/passwd", "inside": "a.txt", "dirlink": "d", "loop": "loop", "outdir": "/../..", "dangling": "nowhere",
		"config": ".git/config", "gitdir": ".git", "twice": "gitdir", "linked/index.html": "../.git/config",
		"env": ".env", "envabs": "/.env", "envtwice": "env", "app/env": "../.env", "app/inside": "../a.txt", "hiddenindex/index.html": "../.env",
		"secret": ".secret", "secrettwice": "secret", "deep": "d/../.secret/.deep", "emptied": ".empty", "well": ".well-known", "round": ".secret/../a.txt", ".hop": "a.txt", "hop": ".hop",
		".secret/own": "f", ".secret/deep": ".deep", ".secret/env": "../.env", ".secret/visible": "../a.txt", "app/spa": "../.secret",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755), os.Symlink(target, filepath.Join(folder, name))); err != nil {
			t.Fatal(err)
		}
	}
}

// strong waits until files were changed so long ago that they have validators.
func (b *browser) strong(site, path string) {
	b.Helper()
	for b.ask(site, path, "method", "HEAD").header.Get("ETag") == "" {
		if b.Context().Err() != nil {
			b.Fatal(b.Context().Err())
		}
	}
}

// wantHeader are headers that a response must have, as name and value; "-" stands for an absent one, "~" begins a part of the value.
func wantHeaders(t *testing.T, got http.Header, want ...string) {
	t.Helper()
	for i := 0; i < len(want); i += 2 {
		value, has := got.Get(want[i]), len(got.Values(want[i])) > 0
		part, isPart := strings.CutPrefix(want[i+1], "~")
		switch {
		case want[i+1] == "-" && has, want[i+1] != "-" && !isPart && value != want[i+1], isPart && !strings.Contains(value, part):
			t.Errorf("%s is %q, want %q", want[i], value, want[i+1])
		}
	}
}

func TestSitesAnswerAsHTTPSays(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	plantPages(t, r.folder("ctx_p"))
	site := r.openSite(t, "ctx_p", nil).GetUrl()
	inPath := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Form: ctxfsv1.SiteForm_SITE_FORM_PATH}).GetUrl()
	full := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Listing: true, Spa: true, Hidden: true, Parents: []string{"http://localhost:5173"}}).GetUrl()
	listed := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Listing: true}).GetUrl()
	hiddenRoot := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Root: ".secret"}).GetUrl()
	linkedRoot := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Root: "secret", Listing: true}).GetUrl()
	isolated := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Isolate: true}).GetUrl()
	framed := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Isolate: true, Parents: []string{"http://localhost:5173"}}).GetUrl()
	isolatedInPath := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Isolate: true, Form: ctxfsv1.SiteForm_SITE_FORM_PATH}).GetUrl()
	app := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Root: "app", Spa: true, Policy: ctxfsv1.SitePolicy_SITE_POLICY_STRICT}).GetUrl()
	hub := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Hub: true, Parents: []string{"http://localhost:5173"}}).GetHubUrl()
	hubSite, hubPage, _ := strings.Cut(hub, "__ctxfs/")
	_, err := ctxfsv1.NewGatewayServiceClient(r.host(t)).OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Hub: true, Form: ctxfsv1.SiteForm_SITE_FORM_PATH}})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "host form")
	b := newBrowser(t, r)
	b.strong(site, "/a.txt")
	tag := b.ask(site, "/a.txt").header.Get("ETag")
	navigation := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	long := strings.Repeat("n", 256)
	for _, c := range []struct {
		name, site, path string
		request          []string
		status           int
		// body is what the body must be, or with "~" contain; "*" is anything.
		body   string
		header []string
	}{
		{"a file", site, "/a.txt", nil, 200, "0123456789", []string{"Content-Type", "text/plain; charset=utf-8", "Content-Length", "10", "Cache-Control", "no-cache", "Accept-Ranges", "bytes", "Last-Modified", "-"}},
		{"a script", site, "/app.js", nil, 200, "*", []string{"Content-Type", "text/javascript; charset=utf-8", "X-Content-Type-Options", "nosniff"}},
		{"an extension in capitals", site, "/pic.SVG", nil, 200, "<svg/>", []string{"Content-Type", "image/svg+xml"}},
		{"no extension", site, "/noext", nil, 200, "\x00\x01", []string{"Content-Type", "application/octet-stream"}},
		{"an empty file", site, "/empty", nil, 200, "", []string{"Content-Length", "0"}},
		{"an encoded name", site, "/a%20b%3F.txt", nil, 200, "odd", nil},
		{"a backslash in a name", site, "/back%5Cslash", nil, 200, "bs", nil},
		{"a percent sign in a name", site, "/percent%2541", nil, 200, "p", nil},
		{"a name that is not UTF-8", site, "/%FF.txt", nil, 200, "raw", nil},
		{"a query", site, "/a.txt?v=1", nil, 200, "0123456789", nil},
		{"the index of the root", site, "/", nil, 200, documentText, []string{"Content-Type", "text/html; charset=utf-8"}},
		{"the index of a directory", site, "/d/", nil, 200, "<p>d", nil},
		{"a directory without a slash", site, "/d", nil, 308, "*", []string{"Location", "/d/", "Cache-Control", "no-store"}},
		{"a directory without a slash, with a query", site, "/d?x=%2F", nil, 308, "*", []string{"Location", "/d/?x=%2F"}},
		{"a directory in the path form", inPath, "/d", nil, 308, "*", []string{"Location", "~/d/"}},
		{"a directory without an index", site, "/list/", nil, 404, "not found\n", []string{"Cache-Control", "no-store"}},
		{"a file with a slash", site, "/a.txt/", nil, 404, "*", nil},
		{"absent", site, "/nope", nil, 404, "not found\n", []string{"Content-Type", "text/plain; charset=utf-8"}},
		{"absent, for a user", site, "/<nope>", navigation, 404, "~/&lt;nope&gt;", []string{"Content-Type", "text/html; charset=utf-8"}},
		{"below a file", site, "/a.txt/b", nil, 404, "*", nil},
		{"HEAD", site, "/a.txt", []string{"method", "HEAD"}, 200, "", []string{"Content-Length", "10", "ETag", tag}},
		{"HEAD with a range", site, "/a.txt", []string{"method", "HEAD", "Range", "bytes=0-0"}, 206, "", []string{"Content-Length", "1"}},
		{"OPTIONS", site, "/a.txt", []string{"method", "OPTIONS"}, 204, "", []string{"Allow", "GET, HEAD, OPTIONS", "Access-Control-Allow-Origin", "-"}},
		{"a preflight in the path form", inPath, "/a.txt", []string{"method", "OPTIONS", "Origin", "null"}, 204, "", []string{"Access-Control-Allow-Origin", "*", "Access-Control-Allow-Headers", "~Range"}},
		{"POST", site, "/a.txt", []string{"method", "POST"}, 405, "*", []string{"Allow", "GET, HEAD, OPTIONS"}},
		{"PUT", site, "/a.txt", []string{"method", "PUT"}, 405, "*", nil},
		{"If-None-Match", site, "/a.txt", []string{"If-None-Match", tag}, 304, "", []string{"ETag", tag, "Content-Length", "-", "Cache-Control", "no-cache"}},
		{"If-None-Match, weak", site, "/a.txt", []string{"If-None-Match", `"x", W/` + tag}, 304, "", nil},
		{"If-None-Match *", site, "/a.txt", []string{"If-None-Match", "*"}, 304, "", nil},
		{"If-None-Match of something else", site, "/a.txt", []string{"If-None-Match", `"x"`}, 200, "0123456789", nil},
		{"If-None-Match before a range", site, "/a.txt", []string{"If-None-Match", tag, "Range", "bytes=0-1"}, 304, "", nil},
		{"If-Match", site, "/a.txt", []string{"If-Match", tag}, 200, "0123456789", nil},
		{"If-Match of something else", site, "/a.txt", []string{"If-Match", `"x"`}, 412, "", nil},
		{"If-Match, weak", site, "/a.txt", []string{"If-Match", "W/" + tag}, 412, "", nil},
		{"If-Modified-Since is ignored", site, "/a.txt", []string{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}, 200, "0123456789", nil},
		{"If-Unmodified-Since is ignored", site, "/a.txt", []string{"If-Unmodified-Since", "Fri, 01 Jan 1999 00:00:00 GMT"}, 200, "0123456789", nil},
		{"a range", site, "/a.txt", []string{"Range", "bytes=2-4"}, 206, "234", []string{"Content-Range", "bytes 2-4/10", "ETag", tag}},
		{"the first two bytes", site, "/a.txt", []string{"Range", "bytes=0-1"}, 206, "01", nil},
		{"a range to the end", site, "/a.txt", []string{"Range", "bytes=7-"}, 206, "789", nil},
		{"a range beyond the end", site, "/a.txt", []string{"Range", "bytes=8-99"}, 206, "89", []string{"Content-Range", "bytes 8-9/10"}},
		{"a suffix", site, "/a.txt", []string{"Range", "bytes=-3"}, 206, "789", nil},
		{"a suffix longer than the file", site, "/a.txt", []string{"Range", "bytes=-99"}, 206, "0123456789", nil},
		{"a range that cannot be", site, "/a.txt", []string{"Range", "bytes=10-"}, 416, "*", []string{"Content-Range", "bytes */10"}},
		{"no range", site, "/a.txt", []string{"Range", "bytes=4-2"}, 416, "*", nil},
		{"a range of something else", site, "/a.txt", []string{"Range", "lines=1-2"}, 200, "0123456789", nil},
		{"two ranges", site, "/a.txt", []string{"Range", "bytes=0-0,8-9"}, 206, "~Content-Range: bytes 8-9/10", []string{"Content-Type", "~multipart/byteranges"}},
		{"too many ranges", site, "/a.txt", []string{"Range", "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8"}, 200, "0123456789", nil},
		{"If-Range", site, "/a.txt", []string{"Range", "bytes=2-4", "If-Range", tag}, 206, "234", nil},
		{"If-Range of something else", site, "/a.txt", []string{"Range", "bytes=2-4", "If-Range", `"x"`}, 200, "0123456789", nil},
		{"If-Range, weak", site, "/a.txt", []string{"Range", "bytes=2-4", "If-Range", "W/" + tag}, 200, "0123456789", nil},
		{"If-Range with a date", site, "/a.txt", []string{"Range", "bytes=2-4", "If-Range", "Fri, 01 Jan 2100 00:00:00 GMT"}, 200, "0123456789", nil},
		{"an encoding is not offered", site, "/a.txt", []string{"Accept-Encoding", "gzip, zstd"}, 200, "0123456789", []string{"Content-Encoding", "-"}},
		{"an encoded slash", site, "/d%2Findex.html", nil, 400, "*", nil},
		{"an encoded NUL", site, "/a.txt%00", nil, 400, "*", nil},
		{"dots", site, "/d/../a.txt", nil, 400, "*", nil},
		{"encoded dots", site, "/d/%2e%2e/a.txt", nil, 400, "*", nil},
		{"a dot", site, "/./a.txt", nil, 400, "*", nil},
		{"an empty segment", site, "/d//index.html", nil, 400, "*", nil},
		{"a long name", site, "/" + long, nil, 400, "*", nil},
		{"a long path", site, strings.Repeat("/nnnnnnn", 600), nil, 400, "*", nil},
		{"a link inside", site, "/inside", nil, 200, "0123456789", nil},
		{"a link to a directory", site, "/dirlink/", nil, 200, "<p>d", nil},
		{"a link outside", site, "/out", nil, 403, "*", nil},
		{"a link outside, for a user", site, "/out", navigation, 403, "~leads outside", nil},
		{"a loop of links", site, "/loop", nil, 404, "*", nil},
		{"a dangling link", site, "/dangling", nil, 404, "*", nil},
		{"a hidden name", site, "/.env", nil, 404, "*", nil},
		{"a hidden name, shown", full, "/.env", nil, 200, "SECRET=1", nil},
		{"what git obeys", full, "/.git/config", nil, 404, "*", nil},
		{"what git obeys, in another spelling", full, "/git~1", nil, 404, "*", nil},
		{"what git obeys, below a directory", full, "/list/.GIT", nil, 404, "*", nil},
		{"a link to what git obeys", full, "/config", nil, 404, "*", nil},
		{"a link to a .git, listed", full, "/gitdir/", nil, 404, "*", nil},
		{"below a link to a .git", full, "/gitdir/config", nil, 404, "*", nil},
		{"below a link to a link to a .git", full, "/twice/config", nil, 404, "*", nil},
		{"an index that is a link to what git obeys", site, "/linked/", nil, 404, "*", nil},
		{"a link to a hidden file", site, "/env", nil, 404, "not found\n", nil},
		{"a link to a hidden file, of a site that shows them", full, "/env", nil, 200, "SECRET=1", nil},
		{"a link to a hidden file, in the path form", inPath, "/env", nil, 404, "not found\n", nil},
		{"a link to a hidden file, by HEAD", site, "/env", []string{"method", "HEAD"}, 404, "", []string{"ETag", "-"}},
		{"a link to a hidden file, a range", site, "/env", []string{"Range", "bytes=0-1"}, 404, "not found\n", nil},
		{"a link to a hidden file, if it was not changed", site, "/env", []string{"If-None-Match", "*"}, 404, "not found\n", nil},
		{"a link to a hidden file, for a user", site, "/env", navigation, 404, "*", nil},
		{"an absolute link to a hidden file", site, "/envabs", nil, 404, "not found\n", nil},
		{"a link to a link to a hidden file", site, "/envtwice", nil, 404, "not found\n", nil},
		{"a link to a hidden file outside of the site's root", app, "/env", nil, 404, "not found\n", nil},
		{"a link outside of the site's root", app, "/inside", nil, 200, "0123456789", nil},
		{"an index that is a link to a hidden file", site, "/hiddenindex/", nil, 404, "not found\n", nil},
		{"a link to a hidden directory", listed, "/secret", nil, 404, "not found\n", []string{"Location", "-"}},
		{"a link to a hidden directory, its index", listed, "/secret/", nil, 404, "not found\n", nil},
		{"a link to a hidden directory, listed", listed, "/emptied/", nil, 404, "not found\n", nil},
		{"a link to a hidden directory, listed as JSON", listed, "/emptied/", []string{"Accept", "application/json"}, 404, "not found\n", nil},
		{"a link to a hidden directory, of an SPA", app, "/spa/", nil, 404, "not found\n", nil},
		{"below a link to a hidden directory", site, "/secret/f", nil, 404, "not found\n", nil},
		{"below a link to a link to a hidden directory", site, "/secrettwice/f", nil, 404, "not found\n", nil},
		{"below a link to a directory in a hidden one", site, "/deep/f", nil, 404, "not found\n", nil},
		{"a link to .well-known", site, "/well/x.json", nil, 200, "{}", nil},
		{"a link through a hidden directory and out of it", site, "/round", nil, 200, "0123456789", nil},
		{"a link to a hidden link to a file that is not", site, "/hop", nil, 200, "0123456789", nil},
		{"a site of a hidden directory", hiddenRoot, "/f", nil, 200, "SECRET=2", nil},
		{"a link in a site of a hidden directory", hiddenRoot, "/own", nil, 200, "SECRET=2", nil},
		{"a link in a site of a hidden directory, to a visible file", hiddenRoot, "/visible", nil, 200, "0123456789", nil},
		{"a link in a site of a hidden directory, to what is hidden in it", hiddenRoot, "/deep/f", nil, 404, "not found\n", nil},
		{"a link in a site of a hidden directory, to a hidden file", hiddenRoot, "/env", nil, 404, "not found\n", nil},
		{"a site of a link to a hidden directory", linkedRoot, "/f", nil, 200, "SECRET=2", nil},
		{"a site of a link to a hidden directory, listed", linkedRoot, "/deep/", nil, 404, "not found\n", nil},
		{"well-known", site, "/.well-known/x.json", nil, 200, "{}", []string{"Content-Type", "application/json"}},
		{"a listing", full, "/list/", nil, 200, "~<a href=\"./%3Cx%3E&amp;.txt\">&lt;x&gt;&amp;.txt</a>", []string{"Content-Type", "text/html; charset=utf-8", "Cache-Control", "no-store"}},
		{"a listing as JSON", full, "/list/", []string{"Accept", "application/json"}, 200, `~"name":"sub","url":"./sub/","type":"directory"`, []string{"Content-Type", "application/json"}},
		{"a deep link of an SPA", app, "/users/7", navigation, 200, "<h1>app", []string{"Content-Security-Policy", "~script-src http"}},
		{"a deep link with an extension", app, "/users/7.png", navigation, 404, "*", nil},
		{"a missing script of an SPA", app, "/users/7", []string{"Sec-Fetch-Mode", "no-cors"}, 404, "*", nil},
		{"above the root of a site", app, "/a.txt", nil, 404, "*", nil},
		{"a worker's script", site, "/app.js", []string{"Service-Worker", "script"}, 403, "*", nil},
		{"a worker's script of a site with a hub", hubSite, "/app.js", []string{"Service-Worker", "script"}, 403, "*", nil},
		{"the hub's worker", hubSite, "/__ctxfs/sw.js", []string{"Service-Worker", "script"}, 200, "~addEventListener", []string{"Service-Worker-Allowed", "/", "Content-Type", "text/javascript; charset=utf-8"}},
		{"the hub's page", hubSite, "/__ctxfs/" + hubPage, nil, 200, `~"parents":["http://localhost:5173"]`, []string{"Content-Security-Policy", "frame-ancestors 'self' http://localhost:5173; sandbox allow-scripts allow-same-origin", "Content-Type", "text/html; charset=utf-8"}},
		{"the hub without a hub", site, "/__ctxfs/hub.html", nil, 404, "*", nil},
		{"the hub's worker without a hub", site, "/__ctxfs/sw.js", []string{"Service-Worker", "script"}, 403, "*", nil},
		{"the reload script without live reload", site, "/__ctxfs/reload.js", nil, 404, "*", nil},
		{"the isolation of the host form", site, "/a.txt", nil, 200, "*", []string{"Cross-Origin-Resource-Policy", "same-origin", "Cross-Origin-Opener-Policy", "same-origin", "Access-Control-Allow-Origin", "-", "Origin-Agent-Cluster", "?1", "Referrer-Policy", "no-referrer", "X-Robots-Tag", "noindex", "Permissions-Policy", "~camera=()"}},
		{"the isolation of the path form", inPath, "/a.txt", nil, 200, "*", []string{"Content-Security-Policy", "~sandbox allow-scripts", "Cross-Origin-Resource-Policy", "cross-origin", "Cross-Origin-Opener-Policy", "-", "Access-Control-Allow-Origin", "*"}},
		{"no isolation unless asked for", full, "/a.txt", nil, 200, "*", []string{"Cross-Origin-Embedder-Policy", "-", "Cross-Origin-Resource-Policy", "same-origin"}},
		{"an isolated site", isolated, "/", nil, 200, "*", []string{"Cross-Origin-Embedder-Policy", "require-corp", "Cross-Origin-Resource-Policy", "same-origin", "Cross-Origin-Opener-Policy", "same-origin"}},
		{"an isolated site's worker script", isolated, "/app.js", nil, 200, "*", []string{"Cross-Origin-Embedder-Policy", "require-corp"}},
		{"an isolated site's error", isolated, "/nope", nil, 404, "*", []string{"Cross-Origin-Embedder-Policy", "require-corp"}},
		{"an isolated site with parents", framed, "/", nil, 200, "*", []string{"Cross-Origin-Embedder-Policy", "require-corp", "Cross-Origin-Resource-Policy", "cross-origin", "Content-Security-Policy", "frame-ancestors 'self' http://localhost:5173"}},
		{"an isolated site in the path form", isolatedInPath, "/", nil, 200, "*", []string{"Cross-Origin-Embedder-Policy", "require-corp", "Cross-Origin-Resource-Policy", "cross-origin", "Cross-Origin-Opener-Policy", "-"}},
		{"parents", full, "/a.txt", nil, 200, "*", []string{"Content-Security-Policy", "frame-ancestors 'self' http://localhost:5173"}},
		{"an error has the policy as well", inPath, "/nope", nil, 404, "*", []string{"Content-Security-Policy", "~sandbox", "X-Content-Type-Options", "nosniff"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := *b
			b.T = t
			got := b.ask(c.site, c.path, c.request...)
			part, isPart := strings.CutPrefix(c.body, "~")
			if got.status != c.status || c.body != "*" && !isPart && got.body != c.body || !strings.Contains(got.body, part) && isPart {
				t.Errorf("%d %.200q, want %d %.200q", got.status, got.body, c.status, c.body)
			}
			wantHeaders(t, got.header, c.header...)
			if strings.Contains(got.body, r.claim.layout.Dir) {
				t.Errorf("it shows a path of the server: %s", got.body)
			}
		})
	}
}

func TestPathWithoutItsSlashLeadsToTheSite(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Form: ctxfsv1.SiteForm_SITE_FORM_PATH})
	u, err := url.Parse(site.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	got := newBrowser(t, r).ask(site.GetOrigin(), strings.TrimSuffix(u.Path, "/"))
	if got.status != http.StatusPermanentRedirect || got.header.Get("Location") != u.Path {
		t.Errorf("%d, %q, want a redirect to %s", got.status, got.header.Get("Location"), u.Path)
	}
}

// TestFileThatWasJustChangedHasNoValidator: before Linux 6.13 a second change in the same tick leaves the attributes as they are, and with
// them the validator.
func TestFileThatWasJustChangedHasNoValidator(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	file := write(t, filepath.Join(r.folder("ctx_p"), "f.html"), documentText)
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Base: true}).GetUrl()
	b := newBrowser(t, r)
	for _, dest := range []string{"empty", "document"} { // as it is, and with a snippet
		got := answer{header: http.Header{"Etag": {"none yet"}}}
		for try := 0; got.header.Get("ETag") != "" && try < 2000; try++ { // until the request is fast enough
			write(t, file, documentText)
			got = b.ask(site, "/f.html", "Range", "bytes=0-3", "Sec-Fetch-Dest", dest, "If-Range", got.header.Get("ETag"))
		}
		if got.status != http.StatusOK || !strings.HasSuffix(got.body, "hello</body></html>\n") || got.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %q, %v", dest, got.status, got.body, got.header)
		}
	}
}

// TestEveryChangeHasAnotherValidator: also one that keeps the size and the time of modification.
func TestEveryChangeHasAnotherValidator(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	folder := r.folder("ctx_p")
	file := write(t, filepath.Join(folder, "f.txt"), "one")
	other := write(t, filepath.Join(folder, "g.txt"), "two")
	site := r.openSite(t, "ctx_p", nil).GetUrl()
	b := newBrowser(t, r)
	seen := map[string]string{}
	look := func(what string) {
		t.Helper()
		if got := b.ask(site, "/f.txt", "Range", "bytes=0-0"); got.header.Get("ETag") == "" && got.status != http.StatusOK {
			t.Errorf("%s: a range of a file without a validator: %d", what, got.status)
		}
		b.strong(site, "/f.txt")
		tag := b.ask(site, "/f.txt").header.Get("ETag")
		if before, ok := seen[tag]; ok || tag == "" {
			t.Errorf("%s has the validator of %s: %q", what, before, tag)
		}
		seen[tag] = what
	}
	look("the first content")
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "two")
	if err := os.Chtimes(file, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	look("a rewrite with the same size and time")
	if err := os.Chtimes(other, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	look("another file of the same size and time")
	contexts := ctxfsv1.NewContextServiceClient(r.host(t))
	if _, err := contexts.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: "ctx_p", Name: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := contexts.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: "ctx_p", Name: "s", DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	look("the restored context")
}

func TestShrunkFileEndsTheConnection(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	file := write(t, filepath.Join(r.folder("ctx_p"), "large.bin"), "")
	const size = 256 << 20
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	site := r.openSite(t, "ctx_p", nil).GetUrl()
	for name, header := range map[string]http.Header{"whole": {}, "two ranges": {"Range": {"bytes=0-99999999,100000000-199999999"}}} {
		t.Run(name, func(t *testing.T) {
			if err := os.Truncate(file, size); err != nil {
				t.Fatal(err)
			}
			b := newBrowser(t, r)
			b.strong(site, "/large.bin")
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+"large.bin", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = header
			resp, err := b.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, 1<<20); err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Errorf("%d further bytes and no error, want a closed connection", n)
			}
		})
	}
}

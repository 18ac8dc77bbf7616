package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func gatewayOf(t *testing.T, r *running) ctxfsv1.GatewayServiceClient {
	t.Helper()
	return ctxfsv1.NewGatewayServiceClient(r.host(t))
}

func TestSitesEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, r *running, s *ctxfsv1.Site){
		"when they are closed": func(t *testing.T, r *running, s *ctxfsv1.Site) {
			if _, err := gatewayOf(t, r).CloseSite(t.Context(), &ctxfsv1.CloseSiteRequest{SiteId: s.GetSiteId()}); err != nil {
				t.Fatal(err)
			}
		},
		"with their panel": func(t *testing.T, r *running, _ *ctxfsv1.Site) {
			if _, err := ctxfsv1.NewPanelServiceClient(r.host(t)).ClosePanel(t.Context(), &ctxfsv1.ClosePanelRequest{PanelId: "p"}); err != nil {
				t.Fatal(err)
			}
		},
		"with their context": func(t *testing.T, r *running, _ *ctxfsv1.Site) {
			if _, err := ctxfsv1.NewContextServiceClient(r.host(t)).DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_p", DiscardChanges: true}); err != nil {
				t.Fatal(err)
			}
		},
		"when they expire": func(t *testing.T, r *running, s *ctxfsv1.Site) {
			if _, err := gatewayOf(t, r).RenewSite(t.Context(), &ctxfsv1.RenewSiteRequest{SiteId: s.GetSiteId(), TtlMs: 1}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := pagesConfig(t)
			r := start(t, cfg)
			token := r.openPanel(t, "p").GetToken()
			folder := r.folder("ctx_p")
			write(t, filepath.Join(folder, "index.html"), documentText)
			large := write(t, filepath.Join(folder, "large.bin"), "")
			if err := os.Truncate(large, 256<<20); err != nil {
				t.Fatal(err)
			}
			panel := ctxfsv1.NewGatewayServiceClient(r.host(t))
			site, err := panel.OpenSite(with(t, "authorization", bearerOf(token)), &ctxfsv1.OpenSiteRequest{})
			if err != nil {
				t.Fatal(err)
			}
			b := newBrowser(t, r)
			resp, err := b.client.Get(site.GetUrl() + "large.bin")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			end(t, r, site.GetSite())
			for got := b.ask(site.GetUrl(), "/"); got.status != http.StatusNotFound; got = b.ask(site.GetUrl(), "/") {
				if name != "when they expire" {
					t.Fatalf("its page: %d", got.status)
				}
			}
			got := b.ask(site.GetUrl(), "/")
			wantHeaders(t, got.header, "Clear-Site-Data", `"storage", "cache"`)
			if never := b.ask("http://aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:"+portOf(site.GetUrl()), "/"); never.status != got.status || never.body != got.body {
				t.Errorf("a site that never was answers %d %q, the ended one %d %q", never.status, never.body, got.status, got.body)
			}
			buf := make([]byte, 1<<20)
			for err == nil {
				_, err = resp.Body.Read(buf)
			}
			if !strings.Contains(err.Error(), "unexpected EOF") && !strings.Contains(err.Error(), "reset") {
				t.Errorf("the transfer ended with %v, want a closed connection", err)
			}
			list, err := gatewayOf(t, r).ListSites(t.Context(), &ctxfsv1.ListSitesRequest{})
			if err != nil || len(list.GetSites()) != 0 {
				t.Errorf("listed: %v, %v", list.GetSites(), err)
			}
		})
	}
}

func portOf(site string) string {
	_, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(site, "http://"), "/"), ":")
	return port
}

func TestSitesOutliveARestart(t *testing.T) {
	t.Parallel()
	cfg := pagesConfig(t)
	r := start(t, cfg)
	r.openPanel(t, "p")
	r.openPanel(t, "closed")
	write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "kept")
	kept := r.openSite(t, "ctx_p", nil)
	acting := with(t, "ctxfs-panel", "closed")
	ended, err := gatewayOf(t, r).OpenSite(acting, &ctxfsv1.OpenSiteRequest{})
	if err != nil || ended.GetSite().GetPanelId() != "closed" {
		t.Fatal(ended, err)
	}
	rec, err := r.parts.store.Panels().Get(t.Context(), "closed")
	if err != nil {
		t.Fatal(err)
	}
	rec.ClosedAt = time.Now() // as if the server had been killed before it removed the panel's sites
	if err := r.parts.store.Panels().Update(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	cfg.Gateway = r.Info().Addresses.Gateway
	r = start(t, cfg)
	b := newBrowser(t, r)
	if got := b.ask(kept.GetUrl(), "/a.txt"); got.body != "kept" {
		t.Errorf("after a restart: %d %q", got.status, got.body)
	}
	if got := b.ask(ended.GetUrl(), "/"); got.status != http.StatusNotFound {
		t.Errorf("the site of a closed panel: %d", got.status)
	}
	if list, err := r.parts.store.Sites().List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("records: %v, %v", list, err)
	}
}

func TestPanelsHaveSitesOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	p, q := r.openPanel(t, "p"), r.openPanel(t, "q")
	c := gatewayOf(t, r)
	asP, asQ := with(t, "authorization", bearerOf(p.GetToken())), with(t, "authorization", bearerOf(q.GetToken()))
	site, err := c.OpenSite(asP, &ctxfsv1.OpenSiteRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if site.GetSite().GetExpiresNs() > p.GetExpiresNs() {
		t.Error("the site outlives the panel's token")
	}
	id := site.GetSite().GetSiteId()
	_, err = c.OpenSite(asQ, &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p"})
	wantError(t, err, codes.PermissionDenied, "EACCES", "is not this panel's")
	_, err = c.CloseSite(asQ, &ctxfsv1.CloseSiteRequest{SiteId: id})
	wantError(t, err, codes.NotFound, "ENOENT", "no open site")
	_, err = c.RenewSite(asQ, &ctxfsv1.RenewSiteRequest{SiteId: id})
	wantError(t, err, codes.NotFound, "ENOENT", "no open site")
	for ctx, want := range map[context.Context]int{asP: 1, asQ: 0, t.Context(): 1} {
		list, err := c.ListSites(ctx, &ctxfsv1.ListSitesRequest{})
		if err != nil || len(list.GetSites()) != want {
			t.Errorf("%d sites, %v, want %d", len(list.GetSites()), err, want)
		}
	}
	if !clocktest.IsFromNow(time.Minute, func() time.Time {
		renewed, err := c.RenewSite(asP, &ctxfsv1.RenewSiteRequest{SiteId: id, TtlMs: time.Minute.Milliseconds()})
		if err != nil {
			t.Error(err)
		}
		return time.Unix(0, renewed.GetSite().GetExpiresNs())
	}) {
		t.Error("it was not renewed for a minute")
	}
}

func TestOpenSiteRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "file"), "")
	c := gatewayOf(t, r)
	for name, row := range map[string]struct {
		req          *ctxfsv1.OpenSiteRequest
		code         codes.Code
		errno, words string
	}{
		"a context that does not exist":   {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_none"}, codes.NotFound, "ESTALE", "ctx_none"},
		"no context":                      {&ctxfsv1.OpenSiteRequest{}, codes.InvalidArgument, "EINVAL", "no context"},
		"a root that is missing":          {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Root: "/nope"}}, codes.NotFound, "ENOENT", "/nope"},
		"a root that is a file":           {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Root: "/file"}}, codes.FailedPrecondition, "ENOTDIR", "file"},
		"a root above":                    {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Root: "/.."}}, codes.PermissionDenied, "EACCES", ""},
		"a root with dots":                {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Root: "/./"}}, codes.InvalidArgument, "EINVAL", "root"},
		"an index that is a path":         {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Index: "a/b"}}, codes.InvalidArgument, "EINVAL", "index"},
		"a parent with a further rule":    {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Parents: []string{"http://a;script-src *"}}}, codes.InvalidArgument, "EINVAL", "parent"},
		"every parent":                    {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Parents: []string{"*"}}}, codes.InvalidArgument, "EINVAL", "parent"},
		"an unknown form":                 {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Form: 9}}, codes.InvalidArgument, "EINVAL", "form"},
		"an unknown policy":               {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Policy: 9}}, codes.InvalidArgument, "EINVAL", "policy"},
		"a negative life":                 {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", TtlMs: -1}, codes.InvalidArgument, "EINVAL", "ttl_ms"},
		"a parent with a wildcard domain": {&ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Parents: []string{"http://*.example.com"}}}, codes.InvalidArgument, "EINVAL", "parent"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.OpenSite(t.Context(), row.req)
			wantError(t, err, row.code, row.errno, row.words)
		})
	}
	for range 256 {
		r.openSite(t, "ctx_p", nil)
	}
	_, err := c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p"})
	wantError(t, err, codes.ResourceExhausted, "EMFILE", "256 sites")

	cfg := testConfig(t)
	without := start(t, cfg)
	without.openPanel(t, "p")
	_, err = gatewayOf(t, without).OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p"})
	wantError(t, err, codes.Unimplemented, "EOPNOTSUPP", "--gateway")
}

func TestGatewayAddressIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"--gateway 0.0.0.0": func(c *Config) { c.Gateway = "0.0.0.0:7422" },
		"not an address":    func(c *Config) { c.Gateway = "here" },
		"a site as --origin": func(c *Config) {
			c.Gateway, c.Origins = "127.0.0.1:7422", []string{"http://files.localhost:7422"}
		},
	} {
		cfg := pagesConfig(t)
		change(&cfg)
		if err := cfg.Validate(nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// events reads the stream of a site's changes. A query of site is the stream's. headers are further ones of the request, as names and values.
func (b *browser) events(site string, headers ...string) (next func() string) {
	b.Helper()
	base, query, _ := strings.Cut(site, "?")
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"__ctxfs/events?"+query, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		for lines.Scan() {
			if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				return kind
			}
		}
		return "end"
	}
}

func TestLiveReload(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	token := r.openPanel(t, "p").GetToken()
	folder := r.folder("ctx_p")
	write(t, filepath.Join(folder, "app/index.html"), documentText)
	write(t, filepath.Join(folder, "app/a.css"), "")
	write(t, filepath.Join(folder, "app/node_modules/x.js"), "")
	c := gatewayOf(t, r)
	site, err := c.OpenSite(with(t, "authorization", bearerOf(token)), &ctxfsv1.OpenSiteRequest{Options: &ctxfsv1.SiteOptions{Root: "/app", LiveReload: true, Base: true}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, r)
	b.strong(site.GetUrl(), "/")
	plain, shown := b.ask(site.GetUrl(), "/"), b.ask(site.GetUrl(), "/", "Sec-Fetch-Dest", "iframe")
	const snippet = `<base href="/"><script src="/__ctxfs/reload.js"></script>`
	if shown.body != strings.Replace(documentText, "<head>", "<head>"+snippet, 1) || plain.body != documentText {
		t.Errorf("a script gets %q, a frame %q", plain.body, shown.body)
	}
	wantHeaders(t, shown.header, "Vary", "Accept, Sec-Fetch-Dest", "Content-Type", "text/html; charset=utf-8")
	if tag := shown.header.Get("ETag"); tag == plain.header.Get("ETag") || b.ask(site.GetUrl(), "/", "Sec-Fetch-Dest", "iframe", "If-None-Match", tag).status != http.StatusNotModified {
		t.Errorf("the validator of the document with the script is %q", tag)
	}
	if part := b.ask(site.GetUrl(), "/", "Sec-Fetch-Dest", "iframe", "Range", "bytes=0-39"); part.body != shown.body[:40] {
		t.Errorf("a range has %q", part.body)
	}
	if script := b.ask(site.GetUrl(), "/__ctxfs/reload.js"); script.status != http.StatusOK || !strings.Contains(script.body, "EventSource") {
		t.Errorf("the script: %d %q", script.status, script.body)
	}
	next := b.events(site.GetUrl())
	write(t, filepath.Join(folder, "app/node_modules/x.js"), "1")
	write(t, filepath.Join(folder, "elsewhere.txt"), "1")
	write(t, filepath.Join(folder, "app/a.css"), "a{}")
	if got := next(); got != "css" {
		t.Errorf("a style sheet was changed: %s", got)
	}
	write(t, filepath.Join(folder, "app/index.html"), "<p>new")
	if got := next(); got != "reload" {
		t.Errorf("the page was changed: %s", got)
	}
	if _, err := c.CloseSite(t.Context(), &ctxfsv1.CloseSiteRequest{SiteId: site.GetSite().GetSiteId()}); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "end" {
		t.Errorf("the site was closed: %s", got)
	}
}

// TestRestoreReloadsPages checks that pages listen on after a restore of the context, and that validators change with it.
func TestRestoreReloadsPages(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "same")
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true})
	contexts := ctxfsv1.NewContextServiceClient(r.host(t))
	r.snapshot(t, "ctx_p", "s")
	b := newBrowser(t, r)
	b.strong(site.GetUrl(), "/a.txt")
	before := b.ask(site.GetUrl(), "/a.txt")
	next := b.events(site.GetUrl())
	if _, err := contexts.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: "ctx_p", Name: "s", DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "reload" {
		t.Fatalf("after a restore: %s", got)
	}
	after := b.ask(site.GetUrl(), "/a.txt", "If-None-Match", before.header.Get("ETag"))
	if after.status != http.StatusOK || after.body != "same" || after.header.Get("ETag") == before.header.Get("ETag") {
		t.Errorf("with the validator of before the restore: %d %q", after.status, after.body)
	}
	for kind := "reload"; kind != "css"; kind = next() { // reloads of the restore may come first
		if kind == "end" {
			t.Fatal("the stream ended")
		}
		write(t, filepath.Join(r.folder("ctx_p"), "new.css"), "")
	}
}

// TestPageThatWasEditedWhileItLoaded checks that a stream begins with what happened since the page was requested, and with nothing older.
func TestPageThatWasEditedWhileItLoaded(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	folder := r.folder("ctx_p")
	write(t, filepath.Join(folder, "index.html"), documentText)
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true}).GetUrl()
	b := newBrowser(t, r)
	next := b.events(site)
	write(t, filepath.Join(folder, "a.css"), "a{}")
	if got := next(); got != "css" {
		t.Fatalf("the first page gets %s", got)
	}
	if got := b.events(site + "?age=60000")(); got != "reload" {
		t.Errorf("a page that was requested before the change gets %s", got)
	}
	later := b.events(site + "?age=0")
	write(t, filepath.Join(folder, "a.css"), "a{b:c}")
	if got := later(); got != "css" {
		t.Errorf("a page that was requested after the change gets %s", got)
	}
}

// TestLiveReloadOutlivesItsFolder checks that pages listen on while a build removes its output and makes it anew.
func TestLiveReloadOutlivesItsFolder(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	folder := filepath.Join(r.folder("ctx_p"), "dist")
	write(t, filepath.Join(folder, "index.html"), documentText)
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true, Root: "dist"}).GetUrl()
	b := newBrowser(t, r)
	next := b.events(site)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if got := b.ask(site, "/", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); got.status != http.StatusNotFound || !strings.Contains(got.body, "reload.js") {
		t.Errorf("the page of a missing file, which should be shown when there is one: %d %q", got.status, got.body)
	}
	write(t, filepath.Join(folder, "index.html"), "<p>new")
	if got := next(); got != "reload" {
		t.Fatalf("the folder was made anew: %s", got)
	}
	for kind := "reload"; kind != "css"; kind = next() {
		write(t, filepath.Join(folder, "a.css"), "")
	}
}

// TestManyPagesOfASiteShareAWatch opens 200 streams.
func TestManyPagesOfASiteShareAWatch(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	folder := r.folder("ctx_p")
	write(t, filepath.Join(folder, "index.html"), documentText)
	one := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true}).GetUrl()
	two := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true}).GetUrl()
	b := newBrowser(t, r)
	var streams []func() string
	for range 200 {
		streams = append(streams, b.events(one))
	}
	streams = append(streams, b.events(two))
	if got := r.gateway.Watches(); got != 2 {
		t.Errorf("two sites have %d watches", got)
	}
	write(t, filepath.Join(folder, "a.css"), "")
	for i, next := range streams {
		if got := next(); got != "css" {
			t.Fatalf("stream %d gets %s", i, got)
		}
	}
}

func TestSiteOfADeletedContextStaysClosed(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	contexts := ctxfsv1.NewContextServiceClient(r.host(t))
	ensure := func() {
		t.Helper()
		stream, err := contexts.EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{ContextId: "ctx_c"})
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		write(t, filepath.Join(r.folder("ctx_c"), "index.html"), documentText)
	}
	ensure()
	site := r.openSite(t, "ctx_c", nil).GetUrl()
	b := newBrowser(t, r)
	if got := b.ask(site, "/"); got.status != http.StatusOK {
		t.Fatalf("before: %d", got.status)
	}
	if _, err := contexts.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: "ctx_c", DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	ensure()
	if got := b.ask(site, "/"); got.status != http.StatusNotFound {
		t.Errorf("after a context of the same ID was made: %d", got.status)
	}
}

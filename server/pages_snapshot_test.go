package server

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const immutable = "private, max-age=31536000, immutable"

// mountedPages is pagesConfig with contexts that are mounts.
func mountedPages(t *testing.T) Config {
	t.Helper()
	cfg := overlaid(t)
	cfg.Gateway, cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

func (r *running) snapshot(t *testing.T, contextID, name string) {
	t.Helper()
	if _, err := ctxfsv1.NewContextServiceClient(r.host(t)).Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: contextID, Name: name}); err != nil {
		t.Fatal(err)
	}
}

// TestSiteOfASnapshot checks that a snapshot's site shows the same whatever becomes of the context, over a restart of the server.
func TestSiteOfASnapshot(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(*testing.T) Config{"copy": pagesConfig, "overlay": mountedPages} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.SeedRoot = "."
			write(t, filepath.Join(cfg.Workspace, "app/seeded.txt"), "seeded")
			write(t, filepath.Join(cfg.Workspace, "app/gone.txt"), "later deleted")
			r := start(t, cfg)
			token := r.openPanel(t, "p").GetToken()
			app := filepath.Join(r.folder("ctx_p"), "app")
			write(t, filepath.Join(app, "index.html"), documentText)
			write(t, filepath.Join(app, "a.txt"), "before")
			r.snapshot(t, "ctx_p", "s")
			opened, err := gatewayOf(t, r).OpenSite(with(t, "authorization", bearerOf(token)), &ctxfsv1.OpenSiteRequest{
				Options: &ctxfsv1.SiteOptions{Root: "app", Snapshot: "s", Spa: true, Listing: true},
			})
			if err != nil || opened.GetSite().GetOptions().GetSnapshot() != "s" {
				t.Fatal(opened, err)
			}
			site := opened.GetUrl()
			inPath := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Root: "app", Snapshot: "s", Form: ctxfsv1.SiteForm_SITE_FORM_PATH, Base: true}).GetUrl()
			live := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Root: "app"}).GetUrl()
			b := newBrowser(t, r)
			first := b.ask(site, "/a.txt")
			wantHeaders(t, first.header, "Cache-Control", immutable, "ETag", `~"`)
			check := func(when string) {
				t.Helper()
				for path, want := range map[string]string{"/": documentText, "/a.txt": "before", "/seeded.txt": "seeded", "/gone.txt": "later deleted"} {
					for _, url := range []string{site, inPath} {
						got := b.ask(url, path)
						if got.status != http.StatusOK || got.body != want {
							t.Errorf("%s, %s is %d %q, want %q", when, path, got.status, got.body, want)
						}
						wantHeaders(t, got.header, "Cache-Control", immutable)
					}
				}
				if got := b.ask(site, "/new.txt"); got.status != http.StatusNotFound {
					t.Errorf("%s, what was made later is %d", when, got.status)
				}
				wantHeaders(t, b.ask(site, "/new.txt").header, "Cache-Control", "no-store")
				fallback := b.ask(site, "/route", "Sec-Fetch-Mode", "navigate")
				wantHeaders(t, fallback.header, "Cache-Control", "no-cache")
				if fallback.body != documentText {
					t.Errorf("%s, a route shows %q", when, fallback.body)
				}
				tag := first.header.Get("ETag")
				if again := b.ask(site, "/a.txt", "If-None-Match", tag); again.status != http.StatusNotModified || again.header.Get("ETag") != tag {
					t.Errorf("%s, asked with its validator %s: %d, %s", when, tag, again.status, again.header.Get("ETag"))
				}
				if part := b.ask(site, "/a.txt", "Range", "bytes=2-3", "If-Range", tag); part.body != "fo" {
					t.Errorf("%s, a range has %q", when, part.body)
				}
			}
			check("before the edit")
			write(t, filepath.Join(app, "a.txt"), "edited")
			write(t, filepath.Join(app, "index.html"), "<p>edited")
			write(t, filepath.Join(app, "new.txt"), "made later")
			if err := os.Remove(filepath.Join(app, "gone.txt")); err != nil {
				t.Fatal(err)
			}
			if got := b.ask(live, "/a.txt"); got.body != "edited" {
				t.Errorf("the live site shows %q", got.body)
			}
			check("after the edit")
			contexts := ctxfsv1.NewContextServiceClient(r.host(t))
			if _, err := contexts.Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: "ctx_p", NewContextId: "ctx_fork"}); err != nil {
				t.Fatal(err)
			}
			r.snapshot(t, "ctx_p", "edited")
			if _, err := contexts.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: "ctx_p", Name: "edited", DiscardChanges: true}); err != nil {
				t.Fatal(err)
			}
			check("after a restore")
			r.stop()
			if err := r.wait(); err != nil {
				t.Fatal(err)
			}
			cfg.Gateway = r.Info().Addresses.Gateway
			r = start(t, cfg)
			b = newBrowser(t, r)
			check("after a restart")
		})
	}
}

func TestSiteEndsWithItsSnapshot(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "kept")
	r.snapshot(t, "ctx_p", "s")
	r.snapshot(t, "ctx_p", "other")
	c := gatewayOf(t, r)
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Snapshot: "s"}).GetUrl()
	other := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Snapshot: "other"}).GetUrl()
	live := r.openSite(t, "ctx_p", nil).GetUrl()
	b := newBrowser(t, r)
	if got := b.ask(site, "/a.txt"); got.body != "kept" {
		t.Fatalf("%d %q", got.status, got.body)
	}
	contexts := ctxfsv1.NewContextServiceClient(r.host(t))
	if _, err := contexts.DeleteSnapshot(t.Context(), &ctxfsv1.DeleteSnapshotRequest{ContextId: "ctx_p", Name: "s"}); err != nil {
		t.Fatal(err)
	}
	gone := b.ask(site, "/a.txt")
	wantHeaders(t, gone.header, "Clear-Site-Data", `"storage", "cache"`, "Cache-Control", "no-store")
	r.snapshot(t, "ctx_p", "s")
	for url, want := range map[string]int{site: http.StatusNotFound, other: http.StatusOK, live: http.StatusOK} {
		if got := b.ask(url, "/a.txt"); got.status != want {
			t.Errorf("%s: %d, want %d", url, got.status, want)
		}
	}
	if list, err := r.parts.store.Sites().List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("records: %v, %v", list, err)
	}
	_, err := c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Snapshot: "nope"}})
	wantError(t, err, codes.NotFound, "ENOENT", `context 'ctx_p' has no snapshot "nope"`)
	_, err = c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Snapshot: "../s"}})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "name of a snapshot")
	_, err = c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Snapshot: "s", Root: "later"}})
	wantError(t, err, codes.NotFound, "ENOENT", "/later")
	_, err = c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Snapshot: "s", LiveReload: true}})
	wantError(t, err, codes.InvalidArgument, "EINVAL", "live_reload")
	_, err = c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_none", Options: &ctxfsv1.SiteOptions{Snapshot: "s"}})
	wantError(t, err, codes.NotFound, "ESTALE", "ctx_none")
	stranger := r.openPanel(t, "q").GetToken()
	_, err = c.OpenSite(with(t, "authorization", bearerOf(stranger)), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Snapshot: "s"}})
	wantError(t, err, codes.PermissionDenied, "EACCES", "is not this panel's")
	mkdir := filepath.Join(r.folder("ctx_p"), "later")
	write(t, filepath.Join(mkdir, "a.txt"), "")
	_, err = c.OpenSite(t.Context(), &ctxfsv1.OpenSiteRequest{ContextId: "ctx_p", Options: &ctxfsv1.SiteOptions{Snapshot: "s", Root: "later"}})
	wantError(t, err, codes.NotFound, "ENOENT", "/later")
}

// TestSiteOfASnapshotThatACrashOutlived checks that a record which was kept leads to no later snapshot of the same name.
func TestSiteOfASnapshotThatACrashOutlived(t *testing.T) {
	t.Parallel()
	cfg := pagesConfig(t)
	r := start(t, cfg)
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "old")
	r.snapshot(t, "ctx_p", "s")
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{Snapshot: "s"}).GetUrl()
	r.stop()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	snapshot := filepath.Join(cfg.Workspace, ".contexts/.ctxfs/snapshots/ctx_p/s")
	if err := os.RemoveAll(snapshot); err != nil { // as if the server had been killed before it removed the records
		t.Fatal(err)
	}
	cfg.Gateway = r.Info().Addresses.Gateway
	r = start(t, cfg)
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "a.txt"), "new")
	r.snapshot(t, "ctx_p", "s")
	if got := newBrowser(t, r).ask(site, "/a.txt"); got.status != http.StatusNotFound {
		t.Errorf("%d %q", got.status, got.body)
	}
}

package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// lastChange returns when one of some files was last changed, in ns since the epoch.
func lastChange(t *testing.T, paths ...string) (ns int64) {
	t.Helper()
	for _, path := range paths {
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		ns = max(ns, st.Sys().(*syscall.Stat_t).Ctim.Nano())
	}
	return ns
}

// TestPageThatNobodySawIsReloadedIfItsFilesChanged opens streams of sites that nobody listened to.
func TestPageThatNobodySawIsReloadedIfItsFilesChanged(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	app := filepath.Join(r.folder("ctx_p"), "app")
	lib, css := filepath.Join(app, "lib"), filepath.Join(app, "lib/a.css")
	file := write(t, filepath.Join(lib, "a.js"), "1")
	hidden := write(t, filepath.Join(lib, "node_modules/x/y.js"), "")
	b := newBrowser(t, r)
	for name, c := range map[string]struct {
		// query is that of the stream, and id its Last-Event-ID. BEFORE and AFTER are times before and after the last change.
		query, id, want string
	}{
		"an event before the change":                      {"since=BEFORE", "", "reload"},
		"an event after it":                               {"since=AFTER", "", "css"},
		"an event before the change, by the browser":      {"age=0", "BEFORE", "reload"},
		"an event after it, by the browser":               {"since=BEFORE", "AFTER", "css"},
		"requested before the change":                     {"age=600000", "", "reload"},
		"requested after it":                              {"age=0", "", "css"},
		"an event at a time that is none":                 {"since=x", "", "css"},
		"an event at a time that is none, by the browser": {"since=BEFORE", "x", "css"},
	} {
		write(t, filepath.Join(r.folder("ctx_p"), "elsewhere"), name)
		write(t, hidden, name)
		changed := lastChange(t, app, lib, file)
		times := strings.NewReplacer("BEFORE", strconv.FormatInt(changed-1, 10), "AFTER", strconv.FormatInt(changed, 10))
		site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true, Root: "app"}).GetUrl()
		next := b.events(site+"?"+times.Replace(c.query), "Last-Event-ID", times.Replace(c.id))
		write(t, css, name)
		if got := next(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err := os.Remove(css); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDocumentsBeginNoWatch requests a document, which is no watch that --watches-per-panel counts.
func TestDocumentsBeginNoWatch(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	write(t, filepath.Join(r.folder("ctx_p"), "index.html"), documentText)
	site := r.openSite(t, "ctx_p", &ctxfsv1.SiteOptions{LiveReload: true}).GetUrl()
	got := newBrowser(t, r).ask(site, "/", "Sec-Fetch-Dest", "document")
	if got.status != http.StatusOK || !strings.Contains(got.body, "reload.js") || r.gateway.Watches() != 0 {
		t.Errorf("%d %q, and %d watches", got.status, got.body, r.gateway.Watches())
	}
}

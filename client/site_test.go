package client_test

import (
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// visit requests a page of a site from the address of sites. Go does not resolve names below localhost.
func visit(t *testing.T, address, page string) (status int, body string) {
	t.Helper()
	u, err := url.Parse(page)
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+u.Path, nil)
	must(t, err)
	req.Host, req.Close = u.Host, true
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(data)
}

func TestSitesOfAPanelAndOfAHost(t *testing.T) {
	t.Parallel()
	r := servertest.Run(t, servertest.Workspace(t), func(c *server.Config) { c.Gateway = "127.0.0.1:0" }, server.Deps{})
	c, err := client.Dial(t.Context(), client.WithAddress(r.Info().Addresses.Target()), client.WithGetenv(func(string) string { return "" }))
	must(t, err)
	defer func() { must(t, c.Close()) }()
	p, err := c.OpenPanel(t.Context(), "p")
	must(t, err)
	must(t, p.FS().WriteFile("src/note.txt", []byte("hello"), 0o644))
	own, err := p.OpenSite(t.Context(), &ctxfsv1.SiteOptions{Root: "src", Form: ctxfsv1.SiteForm_SITE_FORM_PATH}, time.Hour)
	must(t, err)
	host, err := c.OpenSite(t.Context(), p.ContextID(), nil, 0)
	must(t, err)
	if own.GetSite().GetPanelId() != "p" || host.GetSite().GetPanelId() != "" {
		t.Errorf("the panels of the sites are %q and %q", own.GetSite().GetPanelId(), host.GetSite().GetPanelId())
	}
	pages := map[string]string{"the panel's": own.GetUrl() + "note.txt", "the host's": host.GetUrl() + "src/note.txt"}
	for name, page := range pages {
		if status, body := visit(t, r.Info().Addresses.Gateway, page); status != http.StatusOK || body != "hello" {
			t.Errorf("%s: %d %q", name, status, body)
		}
	}
	for life, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: 24 * time.Hour} {
		if !clocktest.IsFromNow(want, func() time.Time {
			renewed, err := c.RenewSite(t.Context(), host.GetSite().GetSiteId(), life)
			must(t, err)
			return time.Unix(0, renewed.GetExpiresNs())
		}) {
			t.Errorf("renewed for %s, it does not last %s", life, want)
		}
	}
	if _, err := c.RenewSite(t.Context(), "site_0", time.Minute); fserr.CodeOf(err) != fserr.ENOENT {
		t.Errorf("an unknown site: %v, want ENOENT", err)
	}
	_, err = c.ClosePanel(t.Context(), "p")
	must(t, err)
	if list, err := c.ListSites(t.Context(), p.ContextID()); err != nil || len(list) != 1 || list[0].GetSiteId() != host.GetSite().GetSiteId() {
		t.Errorf("after the panel was closed: %v, %v", list, err)
	}
	for name, want := range map[string]int{"the panel's": http.StatusNotFound, "the host's": http.StatusOK} {
		if status, _ := visit(t, r.Info().Addresses.Gateway, pages[name]); status != want {
			t.Errorf("after the panel was closed, %s: %d", name, status)
		}
	}
}

package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ctxfs/ctxfs/console"
)

func pageOf(t *testing.T, frames string) *console.Page {
	t.Helper()
	p, err := console.NewPage(fstest.MapFS{
		"index.html": {Data: []byte("<!doctype html>")}, "icon.svg": {Data: []byte("<svg/>")}, "assets/main-a1b2.js": {Data: []byte("0123456789")}, "assets/main-a1b2.css": {Data: []byte("a{}")},
	}, frames)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ask(p *console.Page, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7421/", nil)
	r.URL.Path = path // as it is: a client may send any
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestPageServesItsFilesAlone(t *testing.T) {
	t.Parallel()
	p := pageOf(t, "")
	for name, c := range map[string]struct {
		method, path      string
		code              int
		kind, cache, body string
	}{
		"index":                       {"GET", "/console/", 200, "text/html; charset=utf-8", "no-store", "<!doctype html>"},
		"index by name":               {"GET", "/console/index.html", 200, "text/html; charset=utf-8", "no-store", "<!doctype html>"},
		"script":                      {"GET", "/console/assets/main-a1b2.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "0123456789"},
		"style":                       {"GET", "/console/assets/main-a1b2.css", 200, "text/css; charset=utf-8", "public, max-age=31536000, immutable", "a{}"},
		"icon":                        {"GET", "/console/icon.svg", 200, "image/svg+xml", "no-cache", "<svg/>"},
		"head":                        {"HEAD", "/console/assets/main-a1b2.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", ""},
		"post":                        {"POST", "/console/", 405, "", "", "read only"},
		"missing":                     {"GET", "/console/assets/none.js", 404, "", "no-store", "no such file"},
		"folder":                      {"GET", "/console/assets", 404, "", "no-store", "no such file"},
		"folder with slash":           {"GET", "/console/assets/", 404, "", "no-store", "no such file"},
		"parent":                      {"GET", "/console/../console.go", 404, "", "no-store", "no such file"},
		"parent in the middle":        {"GET", "/console/assets/../index.html", 404, "", "no-store", "no such file"},
		"absolute":                    {"GET", "/console//etc/passwd", 404, "", "no-store", "no such file"},
		"backslash":                   {"GET", `/console/..\index.html`, 404, "", "no-store", "no such file"},
		"NUL":                         {"GET", "/console/index.html\x00.js", 404, "", "no-store", "no such file"},
		"other case":                  {"GET", "/console/INDEX.html", 404, "", "no-store", "no such file"},
		"encoded dots that are names": {"GET", "/console/%2e%2e/index.html", 404, "", "no-store", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(p, c.method, c.path)
			h := w.Header()
			if w.Code != c.code || h.Get("Cache-Control") != c.cache || !strings.Contains(w.Body.String(), c.body) || c.method == "HEAD" && w.Body.Len() > 0 {
				t.Errorf("%d, %v, %q", w.Code, h, w.Body)
			}
			if c.kind != "" && h.Get("Content-Type") != c.kind {
				t.Errorf("it is %q", h.Get("Content-Type"))
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
			} {
				if h.Get(name) != want {
					t.Errorf("%s: %q", name, h.Get(name))
				}
			}
			if h.Get("Content-Security-Policy") == "" || h.Get("Permissions-Policy") == "" {
				t.Error("an answer has no policy")
			}
		})
	}
}

func TestUnchangedFileIsNotSentAgain(t *testing.T) {
	t.Parallel()
	p := pageOf(t, "")
	tag := ask(p, "GET", "/console/icon.svg").Header().Get("ETag")
	if w := ask(p, "GET", "/console/icon.svg", "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("%q: %d", tag, w.Code)
	}
	if w := ask(p, "GET", "/console/assets/main-a1b2.js", "Range", "bytes=2-4"); w.Code != http.StatusPartialContent || w.Body.String() != "234" {
		t.Errorf("a range: %d %q", w.Code, w.Body)
	}
}

func TestPolicyOfThePage(t *testing.T) {
	t.Parallel()
	for frames, want := range map[string]string{"": "frame-src 'none'", "http://*.localhost:7422": "frame-src http://*.localhost:7422"} {
		policy := map[string]bool{}
		for _, directive := range strings.Split(ask(pageOf(t, frames), "GET", "/console/").Header().Get("Content-Security-Policy"), "; ") {
			policy[directive] = true
		}
		for _, directive := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data: blob:", "font-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'", want,
		} {
			if !policy[directive] {
				t.Errorf("the policy has no %s: %v", directive, policy)
			}
		}
	}
}

func TestBadPagesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files fstest.MapFS
		words string
	}{
		"no index":     {fstest.MapFS{"a.js": {}}, "no index.html"},
		"unknown type": {fstest.MapFS{"index.html": {}, "a.php": {}}, "a.php"},
	} {
		if _, err := console.NewPage(c.files, ""); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBinaryHasThePage checks what 'make console' has built: a page without inline scripts and styles, whose files exist.
func TestBinaryHasThePage(t *testing.T) {
	t.Parallel()
	p, err := console.NewPage(console.Files(), "")
	if err != nil {
		t.Fatal(err)
	}
	index := ask(p, "GET", console.Path).Body.String()
	for _, bad := range []string{"<style", "style=", "onload=", "<script>"} {
		if strings.Contains(index, bad) {
			t.Errorf("index.html has %s, which the policy refuses", bad)
		}
	}
	found := 0
	for _, part := range strings.Split(index, `"`) {
		if strings.HasPrefix(part, console.Path) {
			found++
			if w := ask(p, "GET", part); w.Code != http.StatusOK {
				t.Errorf("index.html names %s: %d", part, w.Code)
			}
		}
	}
	if found == 0 {
		t.Errorf("index.html names no files: %s", index)
	}
}

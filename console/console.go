// Package console is the server's side of the console, a page in which a person reviews and watches contexts: the files of the page, the
// codes that open it, and the consoles that are open. It knows no RPC: package server gives a console the calls that the protos allow it,
// and package gateway serves the page and checks where requests come from.
package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Path is where a server has the page. Its files are below.
const Path = "/console/"

// assets is the folder whose files have a hash of their content in their names.
const assets = "assets/"

// types are the types of the page's files by extension. No other file is served.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".json": "application/json",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8", ".wasm": "application/wasm",
	".webmanifest": "application/manifest+json",
}

// file is a file of the page.
type file struct {
	content []byte
	kind    string
	etag    string
	hashed  bool
}

// Page serves the files of the page.
type Page struct {
	files  map[string]file
	policy string
}

// NewPage reads the files of the page from dist, which Vite has built. frames are the origins of the pages that the page may show in a frame,
// in the form of Content-Security-Policy; "" means none. It fails without index.html, and for files of a type that it does not know.
func NewPage(dist fs.FS, frames string) (*Page, error) {
	if frames == "" {
		frames = "'none'"
	}
	// No library of the page makes markup or scripts of text, and so none needs a policy of Trusted Types: 'none' lets no script make one.
	p := &Page{files: map[string]file{}, policy: "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
		"worker-src 'self'; frame-src " + frames + "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"}
	err := fs.WalkDir(dist, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kind, known := types[path.Ext(name)]
		if !known {
			return fmt.Errorf("the console has %s, whose type is not known", name)
		}
		content, err := fs.ReadFile(dist, name)
		sum := sha256.Sum256(content)
		p.files[name] = file{content, kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, strings.HasPrefix(name, assets)}
		return err
	})
	if _, ok := p.files["index.html"]; err == nil && !ok {
		err = errors.New("the console has no index.html")
	}
	return p, err
}

// ServeHTTP answers a request for a file of the page. The names of files are looked up as they are: no path leads out of the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.headers(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "files of the console are read only", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Path)
	if name == "" {
		name = "index.html"
	}
	f, ok := p.files[name]
	if !ok {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "the console has no such file; it is at "+Path, http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	switch {
	case f.hashed:
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	case name == "index.html":
		h.Set("Cache-Control", "no-store")
	default:
		h.Set("Cache-Control", "no-cache")
	}
	if name != "index.html" {
		h.Set("ETag", f.etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// headers sets what every answer has. No other page may read, frame or open the console, and it loads from its server alone.
func (p *Page) headers(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      p.policy,
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"Permissions-Policy": "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), microphone=(), midi=(), " +
			"payment=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()",
		"Origin-Agent-Cluster": "?1",
		"X-Robots-Tag":         "noindex",
	} {
		h.Set(name, value)
	}
}

package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ctxfs/ctxfs/sites"
)

// FuzzSplitPath checks that no path leads above the site, and that each part of a path is decoded once.
func FuzzSplitPath(f *testing.F) {
	for _, path := range []string{
		"/", "/a/b", "/%2e%2e/x", "/a%2Fb", "/%00", "//", "/a//b", "/%", "/%252e", "/..", "/a/", "/%c0%ae", "/a;b=c", "/a%5Cb", "/%FF", "/a%20b", "/.%2e/x", "a",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		names, dir, problem := splitPath(path)
		if problem != "" {
			return
		}
		again := ""
		for _, name := range names {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > 255 {
				t.Errorf("%q has the name %q", path, name)
			}
			again += "/" + url.PathEscape(name)
		}
		if dir {
			again += "/"
		}
		if once, err := url.PathUnescape(path); err != nil || strings.Join(names, "/") != strings.Trim(once, "/") {
			t.Errorf("%q has the names %q, %v", path, names, err)
		}
		if same, sameDir, problem := splitPath(again); !slices.Equal(same, names) || sameDir != dir || problem != "" {
			t.Errorf("%q is %q, and that is %q %s", path, again, same, problem)
		}
	})
}

// FuzzSiteHost looks for a request that reaches a site though a part of it names another host.
func FuzzSiteHost(f *testing.F) {
	const capability = "abcdefghijklmnopqrstuvwx23"
	for _, host := range []string{
		capability + ".apps.example.com:8443", "files.apps.example.com:8443", "FILES.apps.example.com:8443", capability + ".apps.example.com.:8443", capability + ".apps.example.com",
		"x." + capability + ".apps.example.com:8443", capability + ".apps.example.com:8443.evil.example", "[::1]:8443", "", "apps.example.com:8443", capability + ".APPS.EXAMPLE.COM:8443",
	} {
		f.Add(host, "", "")
		f.Add(host, host, host)
		f.Add(host, "evil.example", "")
		f.Add("evil.example", host, host)
	}
	g := &Gateway{cfg: Config{PagesAt: Place{Domain: "apps.example.com", Port: 8443}}}
	f.Fuzz(func(t *testing.T, host, field, target string) {
		r := &http.Request{Host: host, Header: http.Header{}, URL: &url.URL{Host: target, Path: "/" + capability + "/a"}}
		if r.RequestURI = r.URL.Path; target != "" {
			r.RequestURI = "https://" + target + r.URL.Path
		}
		if field != "" {
			r.Header.Set("Host", field)
		}
		form, found, rest, ok := g.locate(r)
		if !ok || !oneHost(r) {
			return
		}
		want := found + ".apps.example.com:8443"
		if form == sites.FormPath {
			want = "files.apps.example.com:8443"
		}
		if !strings.EqualFold(host, want) || field != "" && field != host || target != "" {
			t.Errorf("%q, %q and %q lead to %s", host, field, target, want)
		}
		if form == sites.FormPath && (found != capability || rest != "/a") || form == sites.FormHost && !sites.IsCapability(found) {
			t.Errorf("%q leads to %q, %q", host, found, rest)
		}
	})
}

// FuzzParsePlace looks for a domain that means something else in a URL or in a Content-Security-Policy.
func FuzzParsePlace(f *testing.F) {
	for _, text := range []string{"apps.example.com", "apps.example.com:8443", "A.B", "*.b.c", "a.b.", "1.2.3.4", "[::1]:1", "a.b:99999", "localhost", "a.b;x", "xn--a.b", "a..b", "-a.b", ":1", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlace(text)
		if err != nil {
			return
		}
		origin := p.scheme() + "files" + p.suffix()
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" || u.Scheme+"://"+u.Host != origin || u.Hostname() != "files."+p.Domain || strings.ContainsAny(origin, " ;,'\"*") {
			t.Errorf("%q is at %q: %v", text, origin, err)
		}
		if !p.Has(p.Domain) || !p.Has(u.Host) || p.Has("x"+p.Domain) || p.Has(p.Domain+".evil.example") {
			t.Errorf("%q has other names than those below it", text)
		}
	})
}

// recorder is a response that can have deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

// FuzzResponse sends conditions, ranges and codings to a text, and compares each answer with the text.
func FuzzResponse(f *testing.F) {
	const tag = `"tag"`
	content := make([]byte, 3000)
	rand.NewChaCha8([32]byte{}).Read(content)
	for _, ranges := range []string{
		"", "bytes=0-0", "bytes=-0", "bytes=-1", "bytes=2999-", "bytes=3000-", "bytes=0-0,5-9,-1", "bytes=9-5", "bytes=0-99999999999999999999", "bytes=-99999999999999999999", "BYTES = 1-2",
		"lines=1-2", "bytes", "bytes=", "bytes=,,1-1", "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8", "bytes=0-2999,0-2999", "bytes=+1-2", "bytes=1 - 2", "bytes=0x1-2",
	} {
		f.Add(ranges, "", "", "", "")
		f.Add(ranges, `W/"tag"`, tag, tag, "gzip")
	}
	f.Add("bytes=0-0", "", "", tag+"x", "")
	for _, accepted := range []string{"gzip", "zstd", "gzip;q=0", "*", "gzip;q=NaN", "gzip;q=1e400", ";;q=,", "identity;q=0", "zstd;q=0.1, gzip;q=0.2"} {
		f.Add("", `"x", "tag-gzip"`, "*", `"tag-zstd"`, accepted)
	}
	f.Fuzz(func(t *testing.T, ranges, noneMatch, match, ifRange, accepted string) {
		w := recorder{httptest.NewRecorder()}
		r := &http.Request{Method: http.MethodGet, Header: http.Header{}}
		for name, value := range map[string]string{"Range": ranges, "If-None-Match": noneMatch, "If-Match": match, "If-Range": ifRange, "Accept-Encoding": accepted} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		v := &visit{g: &Gateway{cfg: Config{Compress: true}}, w: w, r: r}
		tr := &transfer{ResponseWriter: w, control: http.NewResponseController(w), keepalive: time.Minute}
		if err := v.respond(context.Background(), tr, "text/plain", tag, bytes.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		resp := w.Result()
		defer resp.Body.Close()
		sent, coding := resp.Header.Get("Etag"), resp.Header.Get("Content-Encoding")
		checkBody(t, resp, content)
		switch resp.StatusCode {
		case http.StatusOK:
			if coding != "" && !strings.Contains(strings.ToLower(accepted), coding) && !strings.Contains(accepted, "*") || sent != tag && sent != withSuffix(tag, coding) {
				t.Errorf("%q gets %q with %s", accepted, coding, sent)
			}
		case http.StatusPartialContent:
			if coding != "" || sent != tag || ifRange != "" && ifRange != tag {
				t.Errorf("a part in %q with %s for If-Range %q", coding, sent, ifRange)
			}
		case http.StatusNotModified:
			if !strings.Contains(noneMatch, sent) && !strings.Contains(noneMatch, "*") {
				t.Errorf("%q is unchanged at %s", noneMatch, sent)
			}
		case http.StatusPreconditionFailed:
			if match == "" {
				t.Errorf("If-Match failed that was not sent")
			}
		case http.StatusRequestedRangeNotSatisfiable:
			if got, want := resp.Header.Get("Content-Range"), fmt.Sprintf("bytes */%d", len(content)); got != want || ranges == "" {
				t.Errorf("%q is not satisfiable in %q", ranges, got)
			}
		default:
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// checkBody compares a body with what its head says of it.
func checkBody(t *testing.T, resp *http.Response, content []byte) {
	t.Helper()
	var body io.Reader = resp.Body
	var err error
	switch resp.Header.Get("Content-Encoding") {
	case "gzip":
		body, err = gzip.NewReader(body)
	case "zstd":
		var d *zstd.Decoder
		d, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
		body = d
		defer d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	switch kind, parameters, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode == http.StatusOK:
		wantPart(t, body, fmt.Sprintf("bytes 0-%d/%[2]d", len(content)-1, len(content)), content)
	case resp.StatusCode != http.StatusPartialContent:
	case kind == "multipart/byteranges":
		parts := multipart.NewReader(body, parameters["boundary"])
		n := 0
		for part, err := parts.NextRawPart(); !errors.Is(err, io.EOF); part, err = parts.NextRawPart() {
			if n++; err != nil || n > maxRanges {
				t.Fatal(n, err)
			}
			wantPart(t, part, part.Header.Get("Content-Range"), content)
		}
	default:
		wantPart(t, body, resp.Header.Get("Content-Range"), content)
	}
}

// wantPart compares a body with the range of the content that it is said to be.
func wantPart(t *testing.T, body io.Reader, contentRange string, content []byte) {
	t.Helper()
	var first, last, size int
	got, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &last, &size); err != nil || first < 0 || first > last || last >= size || size != len(content) {
		t.Fatalf("Content-Range %q: %v", contentRange, err)
	}
	if !bytes.Equal(got, content[first:last+1]) {
		t.Errorf("%s has other bytes, %d of them", contentRange, len(got))
	}
}

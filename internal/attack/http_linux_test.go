package attack

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// tryHTTP reads and writes a path by /v1/content, and reads it from a site.
func (w *world) tryHTTP(path string, mustFail bool) {
	q := url.Values{}
	if utf8.ValidString(path) {
		q.Set("path", path)
	} else {
		q.Set("raw_path", base64.StdEncoding.EncodeToString([]byte(path)))
	}
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		req, err := http.NewRequestWithContext(w.Context(), method, "http://"+w.server.Info().Addresses.HTTP+"/v1/content?"+q.Encode(), nil)
		w.must(err)
		if method == http.MethodPut {
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader("attacked")), int64(len("attacked"))
		}
		req.Header.Set("Authorization", "Bearer "+w.attacker.token)
		resp, err := w.web.Do(req)
		if err != nil {
			w.leak("%s /v1/content %q: %v", method, path, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			w.leak("%s /v1/content %q: %v", method, path, err)
		}
		w.checkBytes(method+" /v1/content", body)
		for _, values := range resp.Header {
			w.checkBytes(method+" /v1/content's header", []byte(strings.Join(values, " ")))
		}
		if mustFail && resp.StatusCode < 300 {
			w.leak("%s /v1/content %q: %s", method, path, resp.Status)
		}
	}
	w.trySite(path, mustFail)
}

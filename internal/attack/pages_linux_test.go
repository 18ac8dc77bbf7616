package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// openSite opens a site of a panel. Its capability must not appear anywhere.
func (w *world) openSite(p panel, o *ctxfsv1.SiteOptions) *ctxfsv1.OpenSiteResponse {
	w.Helper()
	site, err := ctxfsv1.NewGatewayServiceClient(w.cc).OpenSite(p.ctx, &ctxfsv1.OpenSiteRequest{Options: o})
	w.must(err)
	w.needles[capabilityOf(site)] = "a site's capability"
	return site
}

// capabilityOf returns the secret of a site's URL.
func capabilityOf(site *ctxfsv1.OpenSiteResponse) string {
	rest := strings.TrimPrefix(site.GetUrl(), "http://")
	if path, ok := strings.CutPrefix(rest, "files.localhost"); ok {
		return strings.Split(path, "/")[1]
	}
	return strings.Split(rest, ".")[0]
}

// answer is a response that was read. It is zero if the server closed the connection.
type answer struct {
	status int
	header http.Header
	body   string
}

// raw sends a request byte for byte, and returns the first answer.
func (w *world) raw(addr, request string) answer {
	w.Helper()
	if all := w.exchange(addr, request); len(all) > 0 {
		return all[0]
	}
	return answer{}
}

// exchange sends bytes, and returns all answers until the server closes the connection.
func (w *world) exchange(addr, requests string) (all []answer) {
	w.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	w.must(err)
	defer conn.Close()
	w.must(conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, requests)
	w.must(err)
	for r := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			return all
		}
		w.must(err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		w.must(err)
		all = append(all, answer{resp.StatusCode, resp.Header, string(body)})
		if resp.StatusCode == http.StatusSwitchingProtocols || resp.Close {
			return all
		}
	}
}

// trySite reads a path from the attacker's site.
func (w *world) trySite(path string, mustFail bool) {
	u, err := url.Parse(w.site.GetUrl())
	w.must(err)
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	for _, suffix := range []string{"", "/"} {
		got := w.raw(w.server.Info().Addresses.Gateway, fmt.Sprintf("GET /%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", strings.Join(segments, "/"), suffix, u.Host))
		w.checkBytes("a site's "+path, []byte(got.body))
		for _, values := range got.header {
			w.checkBytes("a site's header", []byte(strings.Join(values, " ")))
		}
		if mustFail && got.status < 300 {
			w.leak("a site shows %q: %d", path+suffix, got.status)
		}
	}
}

// next returns another character of base32.
func next(c string) string {
	if c == "a" {
		return "b"
	}
	return "a"
}

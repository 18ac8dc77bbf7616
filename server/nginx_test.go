package server

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// nginxConfig serves a folder as the gateway would: at most 8 ranges, compression of text from 1 KiB on, redirects to paths.
const nginxConfig = `
daemon off;
worker_processes 1;
%s
pid nginx.pid;
error_log stderr crit;
events { worker_connections 64; }
http {
  access_log off;
  default_type application/octet-stream;
  types { text/plain txt; text/html html; image/png png; }
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  absolute_redirect off;
  max_ranges 8;
  gzip on;
  gzip_vary on;
  gzip_min_length 1024;
  gzip_types text/plain;
  server { listen %s; root %s; }
}
`

// startNginx serves a folder with nginx until the test ends, and returns its address. nginx inherits a socket that listens already, as
// at an upgrade of its binary, so that no request comes too early. With -short, and without nginx, the test is skipped.
func startNginx(t *testing.T, folder string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("run without -short: it starts nginx")
	}
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program = "/usr/sbin/nginx"; exec.Command(program, "-v").Run() != nil {
			t.Skip("nginx is not installed (Debian: nginx-light)")
		}
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File() //nolint:forcetypeassert // "tcp" returns this type
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	dir := t.TempDir()
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;"
	}
	config := write(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(nginxConfig, user, l.Addr(), folder))
	cmd := exec.Command(program, "-p", dir, "-c", config, "-e", "stderr")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{socket}, t.Output()
	cmd.Env = append(os.Environ(), "NGINX=3;")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("nginx: %v", err)
		}
	})
	return l.Addr().String()
}

// fileServer is a server of the files that are compared.
type fileServer struct {
	*testing.T
	host string
	dial func() (net.Conn, error)
}

// plainServer connects to an address without TLS.
func plainServer(t *testing.T, address, host string) fileServer {
	return fileServer{t, host, func() (net.Conn, error) { return (&net.Dialer{}).DialContext(t.Context(), "tcp", address) }}
}

// ask sends a request byte for byte. headers are names and values; a Host replaces the peer's.
func (p fileServer) ask(method, target string, headers ...string) answer {
	p.Helper()
	conn, err := p.dial()
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		p.Fatal(err)
	}
	head := method + " " + target + " HTTP/1.1\r\nConnection: close\r\n"
	if !slices.Contains(headers, "Host") {
		head += "Host: " + p.host + "\r\n"
	}
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		p.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		p.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatalf("%s %s: %v", method, target, err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// facts returns what of an answer a client acts on. Texts of errors and redirects are each server's own.
func (p fileServer) facts(a answer) map[string]string {
	f := map[string]string{"status": fmt.Sprint(a.status)}
	for _, name := range []string{"Content-Range", "Content-Encoding", "Vary", "Location", "Accept-Ranges"} {
		f[name] = strings.Join(a.header.Values(name), ", ")
	}
	if a.status == http.StatusPartialContent {
		f["Accept-Ranges"] = "" // the response shows it
	}
	if a.status >= 300 && a.status != http.StatusNotModified {
		f["Accept-Ranges"], f["Vary"] = "", ""
		return f
	}
	switch tag := a.header.Get("ETag"); {
	case strings.HasPrefix(tag, "W/"):
		f["ETag"] = "weak"
	case tag != "":
		f["ETag"] = "strong"
	}
	if a.status < 300 {
		kind, parameters, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
		f["body"] = p.decoded(a)
		if kind == "multipart/byteranges" {
			f["body"] = p.parts(a.body, parameters["boundary"])
		} else if a.header.Get("Content-Encoding") == "" {
			f["Content-Length"] = a.header.Get("Content-Length")
		}
	}
	return f
}

// parts returns the ranges of a multipart body, and their contents.
func (p fileServer) parts(body, boundary string) string {
	var list []string
	r := multipart.NewReader(strings.NewReader(body), boundary)
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return strings.Join(list, ", ")
		}
		if err != nil {
			p.Fatal(err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			p.Fatal(err)
		}
		list = append(list, part.Header.Get("Content-Range")+" "+string(content))
	}
}

// decoded returns a body without its coding, and a hash in place of a long one.
func (p fileServer) decoded(a answer) string {
	p.Helper()
	var body io.Reader = strings.NewReader(a.body)
	var err error
	switch coding := a.header.Get("Content-Encoding"); {
	case a.body == "":
	case coding == "gzip":
		body, err = gzip.NewReader(body)
	case coding == "zstd":
		var decoder *zstd.Decoder
		decoder, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
		body = decoder
	}
	if err != nil {
		p.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		p.Fatal(err)
	}
	if len(content) <= 64 {
		return string(content)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// differences returns what two answers do not have in common, as "name ours/theirs". If one is a refusal, that is all.
func differences(ours, theirs map[string]string) (list []string) {
	if o, t := ours["status"], theirs["status"]; o != t && (o >= "300" || t >= "300") {
		return []string{"status " + o + "/" + t}
	}
	names := map[string]bool{}
	for _, f := range []map[string]string{ours, theirs} {
		for name := range f {
			names[name] = true
		}
	}
	for name := range names {
		if ours[name] != theirs[name] {
			list = append(list, name+" "+cmp.Or(ours[name], "-")+"/"+cmp.Or(theirs[name], "-"))
		}
	}
	slices.Sort(list)
	return list
}

// besideRow is a request to both servers. In headers, $tag is the file's ETag at each server, $coded that of its gzip, and $date its time
// of change.
type besideRow struct {
	name, method, target string
	headers              []string
	// differ is what the answers do not have in common, as differences returns it, and why the reason.
	differ []string
	why    string
}

// compare sends each request to both servers.
func compare(t *testing.T, ours, theirs fileServer, rows []besideRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var facts []map[string]string
			for _, p := range []fileServer{ours, theirs} {
				p.T = t
				dated := theirs // the gateway sends no date
				dated.T = t
				headers := slices.Clone(row.headers)
				for i, value := range headers {
					switch {
					case strings.Contains(value, "$tag"):
						headers[i] = strings.ReplaceAll(value, "$tag", p.ask("HEAD", row.target).header.Get("ETag"))
					case value == "$coded":
						headers[i] = p.ask("HEAD", row.target, "Accept-Encoding", "gzip").header.Get("ETag")
					case value == "$date":
						headers[i] = dated.ask("HEAD", row.target).header.Get("Last-Modified")
					}
				}
				facts = append(facts, p.facts(p.ask(cmp.Or(row.method, "GET"), row.target, headers...)))
			}
			if got := differences(facts[0], facts[1]); !slices.Equal(got, row.differ) {
				t.Errorf("it differs from nginx in %q, and in the table in %q", got, row.differ)
			}
			if (row.why == "") != (len(row.differ) == 0) {
				t.Errorf("it differs in %q, and the reason is %q", row.differ, row.why)
			}
		})
	}
}

// Reasons of more than one row.
const (
	seconds = "a date has seconds, and hides a second change, so the gateway sends and takes none"
	oneName = "a file has one name in a site; browsers and curl resolve dots before they send a path"
	ownTag  = "each coding has a strong ETag of its own; nginx has one weak one for all"
	unseen  = "what is not served looks as if it were not there"
)

// rewrite changes a file and restores its time.
func rewrite(t *testing.T, file, content string) {
	t.Helper()
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, content)
	if err := os.Chtimes(file, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// TestSitesBesideNginx sends the same requests to the gateway and to nginx.
func TestSitesBesideNginx(t *testing.T) {
	t.Parallel()
	r := start(t, pagesConfig(t))
	r.openPanel(t, "p")
	folder := r.folder("ctx_p")
	plantPages(t, folder)
	theirs := plainServer(t, startNginx(t, folder), "localhost")
	site := r.openSite(t, "ctx_p", nil).GetUrl()
	u, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	newBrowser(t, r).strong(site, "/a.txt")
	newBrowser(t, r).strong(site, "/empty")
	past, future := "Fri, 01 Jan 1999 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
	ours := plainServer(t, r.Info().Addresses.Gateway, u.Host)
	compare(t, ours, theirs, []besideRow{
		// Conditions.
		{name: "no condition", target: "/a.txt"},
		{name: "If-None-Match", target: "/a.txt", headers: []string{"If-None-Match", "$tag"}},
		{name: "If-None-Match, weak", target: "/a.txt", headers: []string{"If-None-Match", "W/$tag"}},
		{name: "If-None-Match in a list", target: "/a.txt", headers: []string{"If-None-Match", `"x", $tag, "y"`}},
		{name: "If-None-Match of another", target: "/a.txt", headers: []string{"If-None-Match", `"x"`}},
		{name: "If-None-Match of any", target: "/a.txt", headers: []string{"If-None-Match", "*"}},
		{name: "If-None-Match without quotes", target: "/a.txt", headers: []string{"If-None-Match", "x"}},
		{name: "If-None-Match of an absent file", target: "/nope", headers: []string{"If-None-Match", "*"}},
		{name: "If-None-Match, HEAD", method: "HEAD", target: "/a.txt", headers: []string{"If-None-Match", "$tag"}},
		{name: "If-None-Match of an empty file", target: "/empty", headers: []string{"If-None-Match", "$tag"}},
		{name: "If-None-Match before If-Modified-Since", target: "/a.txt", headers: []string{"If-None-Match", `"x"`, "If-Modified-Since", future}},
		{name: "If-None-Match before a range", target: "/a.txt", headers: []string{"If-None-Match", "$tag", "Range", "bytes=0-0"}},
		{name: "If-Match", target: "/a.txt", headers: []string{"If-Match", "$tag"}},
		{name: "If-Match, weak", target: "/a.txt", headers: []string{"If-Match", "W/$tag"}},
		{name: "If-Match in a list", target: "/a.txt", headers: []string{"If-Match", `"x", $tag`}},
		{name: "If-Match of another", target: "/a.txt", headers: []string{"If-Match", `"x"`}},
		{name: "If-Match of any", target: "/a.txt", headers: []string{"If-Match", "*"}},
		{name: "If-Match of an absent file", target: "/nope", headers: []string{"If-Match", "*"}},
		{name: "If-Match of another before a range", target: "/a.txt", headers: []string{"If-Match", `"x"`, "Range", "bytes=0-0"}},
		{name: "If-Modified-Since, the time of change", target: "/a.txt", headers: []string{"If-Modified-Since", "$date"}, differ: []string{"status 200/304"}, why: seconds},
		{name: "If-Modified-Since, before", target: "/a.txt", headers: []string{"If-Modified-Since", past}},
		{name: "If-Modified-Since, no date", target: "/a.txt", headers: []string{"If-Modified-Since", "yesterday"}},
		{name: "If-Unmodified-Since, after", target: "/a.txt", headers: []string{"If-Unmodified-Since", future}},
		{name: "If-Unmodified-Since, before", target: "/a.txt", headers: []string{"If-Unmodified-Since", past}, differ: []string{"status 200/412"}, why: seconds},
		// Ranges.
		{name: "the first byte", target: "/a.txt", headers: []string{"Range", "bytes=0-0"}},
		{name: "the first two bytes", target: "/a.txt", headers: []string{"Range", "bytes=0-1"}},
		{name: "a range within", target: "/a.txt", headers: []string{"Range", "bytes=2-4"}},
		{name: "an open range", target: "/a.txt", headers: []string{"Range", "bytes=7-"}},
		{name: "all as a range", target: "/a.txt", headers: []string{"Range", "bytes=0-"}},
		{name: "a range beyond the end", target: "/a.txt", headers: []string{"Range", "bytes=8-99"}},
		{name: "a suffix", target: "/a.txt", headers: []string{"Range", "bytes=-3"}},
		{name: "a suffix longer than the file", target: "/a.txt", headers: []string{"Range", "bytes=-99"}},
		{name: "a suffix of nothing", target: "/a.txt", headers: []string{"Range", "bytes=-0"}},
		{name: "a range after the end", target: "/a.txt", headers: []string{"Range", "bytes=10-"}},
		{name: "a range that ends before it begins", target: "/a.txt", headers: []string{"Range", "bytes=4-2"}},
		{name: "two ranges", target: "/a.txt", headers: []string{"Range", "bytes=0-0,8-9"}},
		{name: "two ranges with spaces", target: "/a.txt", headers: []string{"Range", "bytes=0-0 , 8-9"}},
		{name: "two ranges in the other order", target: "/a.txt", headers: []string{"Range", "bytes=8-9,0-0"}},
		{name: "ranges that overlap", target: "/a.txt", headers: []string{"Range", "bytes=0-4,2-6"}},
		{name: "ranges that overlap to more than the file", target: "/a.txt", headers: []string{"Range", "bytes=0-9,1-9"}},
		{name: "a range and one after the end", target: "/a.txt", headers: []string{"Range", "bytes=0-0,99-"}},
		{name: "a range and one that ends before it begins", target: "/a.txt", headers: []string{"Range", "bytes=0-0,4-2"}},
		{name: "a range and a malformed one", target: "/a.txt", headers: []string{"Range", "bytes=0-0,x"}},
		{name: "If-Range with more than the tag", target: "/a.txt", headers: []string{"If-Range", "$tag,", "Range", "bytes=2-4"}},
		{name: "eight ranges", target: "/a.txt", headers: []string{"Range", "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7"}},
		{name: "nine ranges", target: "/a.txt", headers: []string{"Range", "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8"}},
		{name: "an unknown unit", target: "/a.txt", headers: []string{"Range", "lines=0-1"}},
		{name: "a range without a unit", target: "/a.txt", headers: []string{"Range", "0-1"}},
		{name: "a range without numbers", target: "/a.txt", headers: []string{"Range", "bytes=-"}},
		{name: "a range of words", target: "/a.txt", headers: []string{"Range", "bytes=a-b"}},
		{name: "an empty range", target: "/a.txt", headers: []string{"Range", "bytes="}},
		{name: "a range of numbers that are too large", target: "/a.txt", headers: []string{"Range", "bytes=0-99999999999999999999"}, differ: []string{"status 206/416"}, why: "a range may end beyond the file, by however much"},
		{name: "a range in capitals", target: "/a.txt", headers: []string{"Range", "BYTES=0-0"}},
		{name: "a range of an empty file", target: "/empty", headers: []string{"Range", "bytes=0-0"}},
		{name: "a suffix of an empty file", target: "/empty", headers: []string{"Range", "bytes=-1"}},
		{name: "a range of an absent file", target: "/nope", headers: []string{"Range", "bytes=0-0"}},
		{name: "HEAD with a range", method: "HEAD", target: "/a.txt", headers: []string{"Range", "bytes=0-0"}},
		{name: "HEAD with a range after the end", method: "HEAD", target: "/a.txt", headers: []string{"Range", "bytes=10-"}},
		{name: "If-Range", target: "/a.txt", headers: []string{"If-Range", "$tag", "Range", "bytes=2-4"}},
		{name: "If-Range, weak", target: "/a.txt", headers: []string{"If-Range", "W/$tag", "Range", "bytes=2-4"}},
		{name: "If-Range of another", target: "/a.txt", headers: []string{"If-Range", `"x"`, "Range", "bytes=2-4"}},
		{name: "If-Range with the time of change", target: "/a.txt", headers: []string{"If-Range", "$date", "Range", "bytes=2-4"}, differ: []string{"Accept-Ranges bytes/-", "Content-Length 10/3", "Content-Range -/bytes 2-4/10", "body 0123456789/234", "status 200/206"}, why: seconds},
		{name: "If-Range of another with a range that cannot be", target: "/a.txt", headers: []string{"If-Range", `"x"`, "Range", "bytes=10-"}},
		{name: "If-Range without a range", target: "/a.txt", headers: []string{"If-Range", "$tag"}},
		// Methods.
		{name: "HEAD", method: "HEAD", target: "/a.txt"},
		{name: "HEAD of an absent file", method: "HEAD", target: "/nope"},
		{name: "OPTIONS", method: "OPTIONS", target: "/a.txt", differ: []string{"status 204/405"}, why: "pages of the path form send preflights"},
		{name: "POST", method: "POST", target: "/a.txt", headers: []string{"Content-Length", "0"}},
		{name: "PUT", method: "PUT", target: "/a.txt", headers: []string{"Content-Length", "0"}},
		{name: "DELETE", method: "DELETE", target: "/a.txt"},
		{name: "TRACE", method: "TRACE", target: "/a.txt"},
		{name: "an unknown method", method: "BREW", target: "/a.txt"},
		{name: "a method in small letters", method: "get", target: "/a.txt", differ: []string{"status 405/400"}, why: "net/http takes any token for a method"},
		// Paths.
		{name: "the index", target: "/d/"},
		{name: "a directory without a slash", target: "/d", differ: []string{"status 308/301"}, why: "a redirect keeps the method"},
		{name: "a directory without a slash, with a query", target: "/d?x=%2F", differ: []string{"status 308/301"}, why: "a redirect keeps the method"},
		{name: "a directory without an index", target: "/list/", differ: []string{"status 404/403"}, why: unseen},
		{name: "a file with a slash", target: "/a.txt/"},
		{name: "an encoded name", target: "/a%20b%3F.txt"},
		{name: "an encoded letter", target: "/%61.txt"},
		{name: "an encoded slash", target: "/d%2Findex.html", differ: []string{"status 400/200"}, why: oneName},
		{name: "an encoded NUL", target: "/a.txt%00"},
		{name: "a percent sign alone", target: "/a%.txt"},
		{name: "a percent sign that is encoded", target: "/percent%2541"},
		{name: "dots", target: "/d/../a.txt", differ: []string{"status 400/200"}, why: oneName},
		{name: "encoded dots", target: "/d/%2e%2e/a.txt", differ: []string{"status 400/200"}, why: oneName},
		{name: "dots above the root", target: "/../a.txt"},
		{name: "dots that are encoded twice", target: "/%252e%252e/a.txt"},
		{name: "an overlong encoding of a dot", target: "/%c0%ae%c0%ae/a.txt"},
		{name: "a dot", target: "/./a.txt", differ: []string{"status 400/200"}, why: oneName},
		{name: "an empty segment", target: "/d//index.html", differ: []string{"status 400/200"}, why: oneName},
		{name: "two slashes at the beginning", target: "//a.txt", differ: []string{"status 400/200"}, why: oneName},
		{name: "a name that is not UTF-8", target: "/%FF.txt"},
		{name: "a parameter", target: "/a.txt;v=1"},
		{name: "a backslash in a name", target: "/back%5Cslash"},
		{name: "a backslash for a slash", target: "/d%5Cindex.html"},
		{name: "a fragment", target: "/a.txt#x", differ: []string{"status 404/200"}, why: "no client sends a fragment, and a name may have a #"},
		{name: "a long name", target: "/" + strings.Repeat("n", 256), differ: []string{"status 400/404"}, why: "no file can have this name"},
		{name: "a long path", target: strings.Repeat("/nnnnnnn", 600), differ: []string{"status 400/404"}, why: "no file can have this name"},
		{name: "a target of more than 16 KiB", target: "/" + strings.Repeat("n", 24<<10), differ: []string{"status 431/414"}, why: "net/http has one limit for the whole head"},
		{name: "a target without a slash", target: "a.txt"},
		{name: "an absolute target", target: "http://" + u.Host + "/a.txt", differ: []string{"status 421/200"}, why: "its host and the Host header may differ"},
		{name: "an asterisk", target: "*"},
		{name: "a link inside", target: "/inside"},
		{name: "a link outside", target: "/out", differ: []string{"status 403/200"}, why: "a site shows its context and nothing else"},
		{name: "a loop of links", target: "/loop", differ: []string{"status 404/403"}, why: unseen},
		{name: "a hidden name", target: "/.env", differ: []string{"status 404/200"}, why: "names with a dot have settings and secrets"},
	})
	ours.T, theirs.T = t, t
	oldOurs, oldTheirs := ours.ask("HEAD", "/a.txt").header.Get("ETag"), theirs.ask("HEAD", "/a.txt").header.Get("ETag")
	rewrite(t, filepath.Join(folder, "a.txt"), "9876543210")
	if got := ours.ask("GET", "/a.txt", "If-None-Match", oldOurs); got.status != http.StatusOK || got.body != "9876543210" {
		t.Errorf("after a rewrite with the same size and time: %d %q", got.status, got.body)
	}
	if got := theirs.ask("GET", "/a.txt", "If-None-Match", oldTheirs); got.status != http.StatusNotModified {
		t.Errorf("nginx answers %d after such a rewrite, and did not use to see it", got.status)
	}
}

// TestCodingsBesideNginx compares the codings of an address that other machines reach, over TLS.
func TestCodingsBesideNginx(t *testing.T) {
	t.Parallel()
	d := startOnDomain(t)
	theirs := plainServer(t, startNginx(t, d.folder), "localhost")
	ours := secureServer(t, d.pagesTLSAddress(), d.host, d.ca)
	for _, file := range []string{"/a.txt", "/long.txt", "/long.png", "/empty"} {
		newSecureBrowser(t, d.running, d.ca).strong(d.site.GetUrl(), file)
	}
	accept := func(codings string, more ...string) []string {
		return append([]string{"Accept-Encoding", codings}, more...)
	}
	compare(t, ours, theirs, []besideRow{
		{name: "no Accept-Encoding", target: "/long.txt"},
		{name: "gzip", target: "/long.txt", headers: accept("gzip"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "gzip in capitals", target: "/long.txt", headers: accept("GZIP"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "gzip with a weight", target: "/long.txt", headers: accept("gzip;q=0.5"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "gzip with spaces", target: "/long.txt", headers: accept("deflate , gzip ; q=1.0"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "gzip with no weight", target: "/long.txt", headers: accept("gzip;q=0")},
		{name: "gzip with no weight, in thousandths", target: "/long.txt", headers: accept("gzip;q=0.000")},
		{name: "gzip with a weight that is no number", target: "/long.txt", headers: accept("gzip;q=x")},
		{name: "gzip with a weight of 2", target: "/long.txt", headers: accept("gzip;q=2")},
		{name: "deflate", target: "/long.txt", headers: accept("deflate")},
		{name: "br", target: "/long.txt", headers: accept("br")},
		{name: "identity", target: "/long.txt", headers: accept("identity")},
		{name: "identity before gzip", target: "/long.txt", headers: accept("gzip;q=0.5, identity"), differ: []string{"Accept-Ranges bytes/-", "Content-Encoding -/gzip", "Content-Length 4096/-", "ETag strong/weak"}, why: "nginx does not compare weights"},
		{name: "nothing", target: "/long.txt", headers: accept("identity;q=0")},
		{name: "nothing at all", target: "/long.txt", headers: accept("*;q=0")},
		{name: "an empty list", target: "/long.txt", headers: accept("")},
		{name: "anything", target: "/long.txt", headers: accept("*"), differ: []string{"Accept-Ranges -/bytes", "Content-Encoding gzip/-", "Content-Length -/4096"}, why: "nginx does not read *"},
		{name: "anything but gzip", target: "/long.txt", headers: accept("gzip;q=0, *")},
		{name: "two headers", target: "/long.txt", headers: accept("deflate", "Accept-Encoding", "gzip"), differ: []string{"Accept-Ranges -/bytes", "Content-Encoding gzip/-", "Content-Length -/4096"}, why: "two headers are one list (RFC 9110, 5.3); nginx reads the first"},
		{name: "a coding that ends in gzip", target: "/long.txt", headers: accept("x-gzip")},
		{name: "zstd", target: "/long.txt", headers: accept("zstd"), differ: []string{"Accept-Ranges -/bytes", "Content-Encoding zstd/-", "Content-Length -/4096"}, why: "nginx has no zstd"},
		{name: "a browser", target: "/long.txt", headers: accept("gzip, deflate, br, zstd"), differ: []string{"Content-Encoding zstd/gzip", "ETag strong/weak"}, why: "nginx has no zstd"},
		{name: "gzip before zstd", target: "/long.txt", headers: accept("gzip, zstd;q=0.9"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "a picture", target: "/long.png", headers: accept("gzip")},
		{name: "a short text", target: "/a.txt", headers: accept("gzip")},
		{name: "an empty file, gzip", target: "/empty", headers: accept("gzip")},
		{name: "HEAD, gzip", method: "HEAD", target: "/long.txt", headers: accept("gzip"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "a range, gzip", target: "/long.txt", headers: accept("gzip", "Range", "bytes=0-9"), differ: []string{"Content-Encoding -/gzip", "Content-Length 10/-", "Content-Range bytes 0-9/4096/-", "ETag strong/weak", "body 0123456789/929b11f47a02202e", "status 206/200"}, why: "a range is one of the file as it is, whatever codings the client takes"},
		{name: "a range after the end, gzip", target: "/long.txt", headers: accept("gzip", "Range", "bytes=9999-"), differ: []string{"status 416/200"}, why: "the same"},
		{name: "If-None-Match of the text, gzip", target: "/long.txt", headers: accept("gzip", "If-None-Match", "$tag"), differ: []string{"status 200/304"}, why: ownTag},
		{name: "If-None-Match of the coding", target: "/long.txt", headers: accept("gzip", "If-None-Match", "$coded"), differ: []string{"Vary Accept-Encoding/-"}, why: "a 304 has the Vary of the 200 (RFC 9110, 15.4.5)"},
		{name: "If-None-Match of the coding, for the text", target: "/long.txt", headers: []string{"If-None-Match", "$coded"}, differ: []string{"status 200/304"}, why: ownTag},
		{name: "If-Match of the coding", target: "/long.txt", headers: accept("gzip", "If-Match", "$coded"), differ: []string{"status 200/412"}, why: ownTag},
		{name: "If-Range of the coding", target: "/long.txt", headers: accept("gzip", "If-Range", "$coded", "Range", "bytes=0-9"), differ: []string{"ETag strong/weak"}, why: ownTag},
		{name: "If-Match of another, gzip", target: "/long.txt", headers: accept("gzip", "If-Match", `"x"`)},
		{name: "an absent file, gzip", target: "/nope", headers: accept("gzip")},
	})
}

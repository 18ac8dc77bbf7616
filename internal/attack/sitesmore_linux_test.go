package attack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestSitesGiveNothingAway attacks sites by calls, by what is recorded, by many connections and by files that change. Each row is tried on a
// naive server as well.
func TestSitesGiveNothingAway(t *testing.T) {
	s := newSiteStage(t)
	naive := s.naive()
	rows := []struct {
		name string
		// gain returns what the attacker gains; "" for nothing.
		gain func(s *siteStage) string
	}{
		{"another panel's sites are listed", (*siteStage).lists},
		{"another panel's site is closed", (*siteStage).closes},
		{"another panel's site is renewed", (*siteStage).renews},
		{"a site of another context is opened", (*siteStage).opensOthers},
		{"a file that is swapped for a link while it is read", (*siteStage).swaps},
		{"a file that becomes shorter while it is sent", (*siteStage).shrinks},
		{"a thousand connections that say nothing, or half a head", (*siteStage).crowds},
		{"documents that nobody reads", (*siteStage).hoards},
		{"event streams of a site without a panel", (*siteStage).streams},
		{"listings that nobody reads", (*siteStage).listsMuch},
		{"a capability in a record", (*siteStage).recorded}, // of all that came before
	}
	for _, row := range rows {
		if gained := row.gain(s); gained != "" {
			t.Errorf("%s: %s", row.name, gained)
		}
		if row.gain(naive) == "" {
			t.Errorf("%s: without its protection the attacker gains nothing, so that the row cannot fail", row.name)
		}
	}
	fmt.Printf("attack: %d further rows of sites\n", len(rows))
}

func (s *siteStage) gateway() ctxfsv1.GatewayServiceClient {
	return ctxfsv1.NewGatewayServiceClient(s.cc)
}

// victims opens a site of the victim, and returns its ID.
func (s *siteStage) victims() string {
	s.Helper()
	return s.openSite(s.victim, nil).GetSite().GetSiteId()
}

func (s *siteStage) lists() string {
	id := s.victims()
	list, err := s.gateway().ListSites(s.caller, &ctxfsv1.ListSitesRequest{ContextId: filepath.Base(s.victim.dir)})
	s.must(err)
	for _, site := range list.GetSites() {
		if site.GetSiteId() == id {
			return "its ID"
		}
	}
	return ""
}

func (s *siteStage) closes() string {
	if _, err := s.gateway().CloseSite(s.caller, &ctxfsv1.CloseSiteRequest{SiteId: s.victims()}); err != nil {
		return ""
	}
	return "it is closed"
}

func (s *siteStage) renews() string {
	if _, err := s.gateway().RenewSite(s.caller, &ctxfsv1.RenewSiteRequest{SiteId: s.victims(), TtlMs: time.Hour.Milliseconds()}); err != nil {
		return ""
	}
	return "it is renewed"
}

func (s *siteStage) opensOthers() string {
	site, err := s.gateway().OpenSite(s.caller, &ctxfsv1.OpenSiteRequest{ContextId: filepath.Base(s.victim.dir)})
	if err != nil {
		return ""
	}
	s.capability["by a stranger"] = capabilityOf(site)
	return "a site"
}

// swaps reads a name again and again that is a file and, half of the time, a link to the victim's file.
func (s *siteStage) swaps() string {
	file, link := filepath.Join(s.dir, "swapped"), filepath.Join(s.dir, "swapped.other")
	s.must(os.RemoveAll(link))
	s.must(os.Symlink("../"+filepath.Base(s.victim.dir)+"/page.html", link))
	seen := map[int]int{}
	for round := 0; s.n != nil || round < 40 || seen[http.StatusOK] == 0 || seen[http.StatusForbidden] == 0; round++ { // the naive server is caught
		if round == 10_000 {
			return fmt.Sprintf("no race: %v", seen)
		}
		var mover sync.WaitGroup
		mover.Go(func() {
			for range 31 { // an odd number, so that each round begins with the other one
				if err := unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
					s.leak("swap: %v", err)
				}
			}
		})
		got := s.raw(s.pages, get(s.at("own"), "/swapped"))
		mover.Wait()
		seen[got.status]++
		if strings.Contains(got.body, s.secret) {
			return "content of another context"
		}
	}
	return ""
}

// shrinks shortens a file while it is sent.
func (s *siteStage) shrinks() string {
	const size, rest = 64 << 20, 1 << 20
	name := filepath.Join(s.dir, "shrinking")
	s.must(os.Truncate(name, size))
	conn, err := net.DialTimeout("tcp", s.pages, patience)
	s.must(err)
	defer conn.Close()
	s.must(conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, get(s.at("own"), "/shrinking"))
	s.must(err)
	_, err = io.CopyN(io.Discard, conn, rest/2)
	s.must(err)
	s.must(os.Truncate(name, rest))
	n, err := io.Copy(io.Discard, conn)
	if n >= size-rest && err == nil {
		return "bytes that were made up"
	}
	return ""
}

// crowds opens connections that send nothing useful, and asks for a page beside them.
func (s *siteStage) crowds() string {
	var crowd []net.Conn
	defer func() {
		for _, conn := range crowd {
			_ = conn.Close()
		}
	}()
	for i := range 1000 {
		conn, err := net.DialTimeout("tcp", s.pages, patience)
		s.must(err)
		crowd = append(crowd, conn)
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "GET /page.html HTTP/1.1\r\nHost: ") // the server may have closed it already
		}
	}
	within := patience
	if s.n != nil {
		within = time.Second // it never answers
	}
	visitor := &http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.pages+"/page.html", nil)
	s.must(err)
	req.Host = s.at("own")
	resp, err := visitor.Do(req)
	if err != nil {
		return "no page for others: " + err.Error()
	}
	s.must(resp.Body.Close())
	return ""
}

// narrow connects to the sites. The kernel buffers little of what the client does not read.
func (s *siteStage) narrow(request string) net.Conn {
	s.Helper()
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		return errors.Join(controlErr, err)
	}}
	conn, err := d.DialContext(s.Context(), "tcp", s.pages)
	s.must(err)
	s.Cleanup(func() { _ = conn.Close() })
	s.must(conn.SetDeadline(time.Now().Add(6 * patience)))
	_, err = io.WriteString(conn, request)
	s.must(err)
	return conn
}

// hoards asks for many large documents that the server changes, and reads none of them.
func (s *siteStage) hoards() string {
	const visitors, most = 60, 60 << 20
	s.file("large.html", "<!doctype html><head></head>"+strings.Repeat("<p>some text</p>\n", 4<<20/18))
	site := s.openSite(s.attacker, &ctxfsv1.SiteOptions{LiveReload: true, Base: true})
	host := strings.TrimPrefix(site.GetOrigin(), "http://")
	if s.n != nil {
		host = s.at("own")
	}
	before := s.resources().heap
	for range visitors {
		conn := s.narrow(get(host, "/large.html", "Sec-Fetch-Dest: document"))
		defer conn.Close()
		_, err := io.ReadFull(conn, make([]byte, 16)) // the server has the document by then
		s.must(err)
	}
	if grown := s.resources().heap; grown > before+most {
		return fmt.Sprintf("%d MiB of the server's memory", (grown-before)>>20)
	}
	return ""
}

// listsMuch asks for many listings, and reads none of them: the server makes them wait, or refuses them. Each has 4 MB: the kernel's buffers took whole answers
// of 1.3 MB, so that the server held nothing.
func (s *siteStage) listsMuch() string {
	const visitors = 60
	for i := range 10_000 {
		s.file(fmt.Sprintf("many/%0200d", i), "")
	}
	waited := func() string { // how many requests of a panel have waited for memory
		_, after, _ := strings.Cut(s.metrics(), `ctxfs_limit_waits_total{limit="memory_per_panel"}`)
		n, _, _ := strings.Cut(after, "\n")
		return n
	}
	before := waited()
	answered := make(chan error, visitors)
	var refused atomic.Bool
	for range visitors {
		conn := s.narrow(get(s.at("own"), "/many/"))
		defer conn.Close()
		go func() {
			head := make([]byte, 16)
			_, err := io.ReadFull(conn, head)
			if strings.Contains(string(head), " 503 ") { // the names alone take more than the panel may hold
				refused.Store(true)
			}
			answered <- err
		}()
	}
	waits := func() bool { return refused.Load() || s.n == nil && waited() != before }
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for n := 0; n < visitors; {
		select {
		case err := <-answered:
			s.must(err)
			n++
		case <-ask.C:
			if waits() {
				return ""
			}
		}
	}
	if waits() { // since the last look
		return ""
	}
	return "all of them at once"
}

// streams opens more event streams than a panel may.
func (s *siteStage) streams() string {
	site, err := s.gateway().OpenSite(s.world.host, &ctxfsv1.OpenSiteRequest{ContextId: filepath.Base(s.dir), Options: &ctxfsv1.SiteOptions{LiveReload: true}})
	s.must(err)
	s.capability["of a host"] = capabilityOf(site)
	for range 6 {
		conn := s.narrow(get(s.at("of a host"), "/__ctxfs/events"))
		defer conn.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		s.must(err)
		if strings.Contains(line, " 503 ") {
			return ""
		}
	}
	return "all of them"
}

// metrics returns what /metrics answers.
func (s *siteStage) metrics() string {
	s.Helper()
	token, err := os.ReadFile(s.server.Info().Addresses.TokenFile)
	s.must(err)
	return s.raw(s.server.Info().Addresses.HTTP, get(s.server.Info().Addresses.HTTP, "/metrics", "Authorization: Bearer "+strings.TrimSpace(string(token)))).body
}

// recorded looks for capabilities in all that the server wrote down.
func (s *siteStage) recorded() string {
	texts := map[string][]byte{}
	if s.n != nil {
		s.n.mu.Lock()
		defer s.n.mu.Unlock()
		texts["the log"] = s.n.log.Bytes()
	} else {
		s.records(texts)
	}
	for what, text := range texts {
		if len(text) == 0 {
			return what + " is empty"
		}
		for name, capability := range s.capability {
			if bytes.Contains(bytes.ToLower(text), []byte(capability)) {
				return fmt.Sprintf("%s has the capability of %q", what, name)
			}
		}
	}
	return ""
}

func (s *siteStage) records(texts map[string][]byte) {
	s.Helper()
	for _, row := range append(s.serverRows(), s.smugglingRows()...) {
		s.attackSite(row)
	}
	texts["the log"] = []byte(strings.Join(s.log.take(), ""))
	for what, name := range map[string]string{"the audit log": "audit.log", "server.json": "ws/.contexts/.ctxfs/server.json", "the database": "ws/.contexts/.ctxfs/ctxfs.db"} {
		data, err := os.ReadFile(s.in(name))
		s.must(err)
		texts[what] = data
	}
	if wal, err := os.ReadFile(s.in("ws/.contexts/.ctxfs/ctxfs.db-wal")); err == nil {
		texts["the database"] = append(texts["the database"], wal...)
	}
	list, err := s.gateway().ListSites(s.host, &ctxfsv1.ListSitesRequest{})
	s.must(err)
	texts["the list"], err = proto.Marshal(list)
	s.must(err)
	texts["the metrics"] = []byte(s.metrics())
}

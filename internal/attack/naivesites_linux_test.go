package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// naiveSites is what the gateway must not be: a server of sites that reads requests by hand, looks for capabilities in their words, and
// opens paths by name. It is here to show that the rows of TestSitesAreKeptApart can fail.
type naiveSites struct {
	listener net.Listener
	// dirs are directories by capability. fallback is the capability of a request that has none.
	dirs     map[string]string
	fallback string
	// fence holds all that it may show: this machine's files are not part of the experiment.
	fence string
	// slots bounds its connections.
	slots chan struct{}
	all   sync.WaitGroup

	mu    sync.Mutex
	log   bytes.Buffer
	conns map[net.Conn]bool
}

func newNaiveSites(t *testing.T, fence string, dirs map[string]string, fallback string) *naiveSites {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &naiveSites{listener: l, dirs: dirs, fallback: fallback, fence: fence, slots: make(chan struct{}, 100), conns: map[net.Conn]bool{}}
	n.all.Go(n.accept)
	t.Cleanup(func() {
		_ = l.Close()
		n.mu.Lock()
		for conn := range n.conns {
			_ = conn.Close()
		}
		n.mu.Unlock()
		n.all.Wait()
	})
	return n
}

func (n *naiveSites) accept() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		n.conns[conn] = true
		n.mu.Unlock()
		n.all.Go(func() {
			defer conn.Close()
			select {
			case n.slots <- struct{}{}:
				defer func() { <-n.slots }()
				n.serve(conn)
			default: // it is full, and leaves the client waiting
				_, _ = io.Copy(io.Discard, conn)
			}
		})
	}
}

// serve reads heads. It takes the body of a request for the next one.
func (n *naiveSites) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		words := strings.Fields(line)
		if err != nil {
			return
		}
		if len(words) < 2 {
			continue
		}
		header := http.Header{}
		last := ""
		for {
			field, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if strings.TrimSpace(field) == "" {
				break
			}
			if field[0] == ' ' {
				header.Add(last, strings.TrimSpace(field)) // a field that goes on in the next line
				continue
			}
			name, value, _ := strings.Cut(strings.TrimPrefix(field, ":"), ":")
			last = strings.TrimSpace(name)
			header.Add(last, strings.TrimSpace(value))
		}
		n.mu.Lock()
		fmt.Fprintln(&n.log, line, header)
		n.mu.Unlock()
		n.answer(conn, words[0], words[1], header)
		if strings.Contains(header.Get("Connection"), "close") {
			return
		}
	}
}

// decode decodes twice, and knows how other systems write paths.
func decode(path string) string {
	for range 2 {
		if plain, err := url.PathUnescape(path); err == nil {
			path = plain
		}
	}
	path = strings.NewReplacer("\\", "/", "\xc0\xae", ".").Replace(path)
	path, _, _ = strings.Cut(path, "\x00")
	path, _, _ = strings.Cut(path, ";")
	return strings.TrimRight(path, " ")
}

// find returns the directory of a request and the path in it: a capability anywhere in a host or a path counts.
func (n *naiveSites) find(header http.Header, target string) (dir, path string) {
	target, query, _ := strings.Cut(target, "?")
	q, _ := url.ParseQuery(query)
	path = filepath.Clean("/" + decode(target))
	if host, rest, ok := strings.Cut(strings.TrimPrefix(path, "/http:/"), "/"); ok && strings.HasPrefix(path, "/http:/") {
		header.Add("Host", host)
		path = "/" + rest
	}
	hosts := decode(strings.ToLower(strings.Join(append(header.Values("Host"), append(header.Values("Authority"), header.Get("X-Forwarded-Host"))...), " ")))
	dir = n.dirs[n.fallback]
	for capability, d := range n.dirs {
		if strings.Contains(hosts, capability) {
			dir = d
		}
	}
	for capability, d := range n.dirs {
		if at := strings.Index(path, capability); at >= 0 {
			dir, path = d, path[at+len(capability):]
		}
	}
	if id := q.Get("context_id"); id != "" {
		dir = filepath.Join(filepath.Dir(dir), id)
	}
	if q.Has("path") {
		path = q.Get("path")
	}
	return dir, path
}

// reply is a response of the naive server.
func reply(conn net.Conn, status int, header, body string) {
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d x\r\n%sContent-Length: %d\r\n\r\n%s", status, header, len(body), body)
}

func (n *naiveSites) answer(conn net.Conn, method, target string, header http.Header) {
	cors := ""
	if origin := header.Get("Origin"); origin != "" {
		cors = "Access-Control-Allow-Origin: " + origin + "\r\nAccess-Control-Allow-Credentials: true\r\nAccess-Control-Allow-Private-Network: true\r\n"
	}
	dir, path := n.find(header, target)
	name := filepath.Join(dir, path)
	real, err := filepath.EvalSymlinks(name)
	switch {
	case strings.Contains(target, "/v1/session"):
		reply(conn, 101, cors, "")
		return
	case method == "OPTIONS", strings.HasSuffix(target, "/__ctxfs/events"):
		reply(conn, 204, cors, "")
		return
	case err != nil, real != n.fence && !strings.HasPrefix(real, n.fence+"/"),
		path == "/swapped" && filepath.Dir(real) != dir: // the race is for the time after this check
		reply(conn, 404, "Content-Type: text/html\r\n"+cors, "<h1>"+decode(target)+"</h1>")
		return
	case method == "PUT":
		err = os.WriteFile(name, []byte("attacked"), 0o600)
	case method == "DELETE":
		err = os.Remove(name)
	}
	info, statErr := os.Stat(name)
	switch {
	case err != nil || statErr != nil:
		reply(conn, 204, cors, "")
	case !info.IsDir():
		n.send(conn, name, info.Size(), cors)
	case !strings.HasSuffix(decode(target), "/"):
		reply(conn, 308, "Location: "+decode(target)+"/\r\n"+cors, "")
	default:
		entries, _ := os.ReadDir(name)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		list, _ := json.Marshal(names)
		reply(conn, 200, "Content-Type: text/html\r\n"+cors, strings.Join(names, "<br>")+string(list))
	}
}

// send opens a file some time after it looked where its path leads: enough for a mover. What the file lacks of its size is made up.
func (n *naiveSites) send(conn net.Conn, name string, size int64, cors string) {
	for range 1000 {
		if _, err := os.Readlink(name); path.Base(name) != "swapped" || err == nil {
			break
		}
		runtime.Gosched()
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		reply(conn, 404, cors, "")
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		var some [4096]byte
		got, _ := f.Read(some[:])
		reply(conn, 200, cors, string(some[:got]))
		return
	}
	if path.Base(name) == "large.html" { // which it would change
		data, _ := io.ReadAll(f)
		reply(conn, 200, cors, string(data))
		return
	}
	first := make([]byte, 512)
	got, _ := io.ReadFull(f, first)
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%sContent-Length: %s\r\n\r\n%s", http.DetectContentType(first[:got]), cors, strconv.FormatInt(max(size, int64(got)), 10), first[:got])
	sent, _ := io.Copy(conn, f)
	_, _ = io.CopyN(conn, zeros{}, size-int64(got)-sent)
}

// zeros is a reader without an end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

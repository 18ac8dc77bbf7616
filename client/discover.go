package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// NoServerError says that no server was named and none was found.
type NoServerError struct {
	// Dir is where the search began.
	Dir string
	// Err says why a server.json that was found could not be used; nil when there was none.
	Err error
}

// Error names the remedy.
func (e *NoServerError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("no ctxfs server found from %s upwards: %v; set CTXFS_ADDRESS to name one", e.Dir, e.Err)
	}
	return fmt.Sprintf("no ctxfs server found from %s upwards: start one with 'ctxfs serve' in your workspace, or set CTXFS_ADDRESS", e.Dir)
}

// Unwrap returns the cause.
func (e *NoServerError) Unwrap() error { return e.Err }

// UnreachableError says that the server does not answer where it should be.
type UnreachableError struct {
	Address string
	// Source is where the address came from: "CTXFS_ADDRESS", "the caller" or a server.json.
	Source string
	// PID is the server's when server.json names one.
	PID int
	Err error
}

// Error names the remedy.
func (e *UnreachableError) Error() string {
	text := "no ctxfs server answers at " + e.Address + " (from " + e.Source + ")"
	if e.PID != 0 {
		text += fmt.Sprintf("; pid %d was to serve there, start it again with 'ctxfs serve'", e.PID)
	} else {
		text += "; is 'ctxfs serve' running there?"
	}
	return text + ": " + reason(e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// target is a server to connect to.
type target struct {
	address string
	token   string
	source  string
	pid     int
	server  Server
}

// Server is what a running server says of itself in server.json, beside its socket.
type Server struct {
	PID     int    `json:"pid"`
	Version string `json:"version"`
	// Workspace is the folder that it serves.
	Workspace string `json:"workspace"`
	// Socket is the path of its unix socket; Addresses are all of its gRPC addresses, HTTP is host:port or "".
	Socket    string   `json:"socket"`
	Addresses []string `json:"addresses"`
	HTTP      string   `json:"http"`
	// Gateway is where the server shows sites, as host:port, or "".
	Gateway string `json:"gateway"`
	// Sites are the URLs of sites, with * for the secret part, or "".
	Sites string `json:"sites"`
	// TokenFile holds the host token, AuditLog is the path of the audit log or "".
	TokenFile string    `json:"token_file"`
	AuditLog  string    `json:"audit_log"`
	Start     time.Time `json:"start"`

	// state is the directory of server.json.
	state string
}

// Find returns the server whose workspace dir is in; "" means the working directory. It makes no call: a server that was killed is
// found too, until the next one starts. The error is a *NoServerError.
func Find(dir string) (Server, error) {
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return Server{}, &NoServerError{Dir: ".", Err: err}
		}
		dir = wd
	}
	start, err := filepath.Abs(dir)
	if err != nil {
		return Server{}, &NoServerError{Dir: dir, Err: err}
	}
	for dir := outsideContexts(start); ; dir = filepath.Dir(dir) {
		s, err := serverAt(filepath.Join(dir, ".contexts", ".ctxfs"))
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return Server{}, &NoServerError{Dir: start, Err: err}
		}
		if dir == filepath.Dir(dir) {
			return Server{}, &NoServerError{Dir: start}
		}
	}
}

func (c config) locate() (target, error) {
	t := target{address: c.address, token: c.token, source: "the caller"}
	if t.token == "" {
		t.token = c.getenv("CTXFS_TOKEN")
	}
	if t.address == "" {
		t.address, t.source = c.getenv("CTXFS_ADDRESS"), "CTXFS_ADDRESS"
	}
	if t.address == "" {
		s, err := Find(c.dir)
		if err != nil {
			return t, err
		}
		t = s.target(t.token)
	}
	if filepath.IsAbs(t.address) {
		t.address = "unix://" + t.address
	}
	if t.token != "" && c.tls == nil && !t.local() {
		return t, fmt.Errorf("a token would travel in the clear to %s: use TLS, or a tunnel to a loopback address", t.address)
	}
	return t, nil
}

// grpcTarget is the address in gRPC's terms. Host names go to gRPC's resolver.
func (t target) grpcTarget() string {
	if strings.HasPrefix(t.address, "unix:") {
		return t.address
	}
	return "dns:///" + t.address
}

// socket returns the path of a unix socket's address.
func (t target) socket() (path string, ok bool) {
	path, ok = strings.CutPrefix(t.address, "unix:")
	return strings.TrimPrefix(path, "//"), ok
}

// local reports whether the address never leaves the machine.
func (t target) local() bool {
	if strings.HasPrefix(t.address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(t.address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// outsideContexts cuts dir at the outermost contexts directory: a panel can write a
// server.json into its own folder, and must not mislead programs that run there.
func outsideContexts(dir string) string {
	out := dir
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if filepath.Base(d) == ".contexts" || isDir(filepath.Join(d, ".ctxfs")) {
			out = filepath.Dir(d)
		}
	}
	return out
}

func isDir(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir()
}

// serverAt reads the server.json in a state directory. It believes only a directory that is the caller's own and closed to others.
func serverAt(state string) (Server, error) {
	st, err := os.Lstat(state)
	if err != nil {
		return Server{}, err
	}
	if !st.IsDir() || !private(st) {
		return Server{}, fmt.Errorf("%s is not a private directory of yours, so it is not believed", state)
	}
	s := Server{state: state}
	data, err := os.ReadFile(s.file())
	if err != nil {
		return Server{}, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return Server{}, fmt.Errorf("%s cannot be read: %w", s.file(), err)
	}
	if s.Socket == "" && len(s.Addresses) == 0 {
		return Server{}, fmt.Errorf("%s names neither a socket nor an address", s.file())
	}
	return s, nil
}

func (s Server) file() string { return filepath.Join(s.state, "server.json") }

// target returns where to connect, with the host's token unless the caller has one.
func (s Server) target(token string) target {
	t := target{source: s.file(), pid: s.PID, token: token, server: s}
	if s.Socket != "" {
		t.address = "unix://" + s.socketFrom()
	} else {
		t.address = s.Addresses[0]
	}
	if t.token == "" && s.TokenFile != "" {
		// Only from this directory: a file elsewhere would be sent to the server that server.json names.
		secret, err := os.ReadFile(filepath.Join(s.state, filepath.Base(s.TokenFile)))
		if err == nil {
			t.token = strings.TrimSpace(string(secret))
		}
	}
	return t
}

// socketFrom returns the socket beside server.json if it is there: a server in a container records the path that it sees itself.
// The base names must match: a socket whose path would be too long is elsewhere, and one in the state directory is then not its own.
func (s Server) socketFrom() string {
	recorded := strings.TrimPrefix(s.Socket, "unix://")
	beside := filepath.Join(s.state, filepath.Base(recorded))
	if st, err := os.Lstat(beside); err == nil && st.Mode().Type() == fs.ModeSocket {
		return beside
	}
	return recorded
}

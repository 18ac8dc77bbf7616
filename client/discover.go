package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ctxfs/ctxfs/internal/peercred"
	"github.com/ctxfs/ctxfs/internal/statedir"
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
	// peer is the PID of the process that listens at the socket of a server.json, -1 until it was asked for.
	peer *atomic.Int64
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

	// state is the directory of server.json, and owner its user ID, -1 where directories have none.
	state string
	owner int
	// token is the host token, "" if there is none.
	token string
}

// Find returns the server whose workspace the working directory, or that of WithDir, is in. It makes no call: a server that was killed is
// found too, until the next one starts. It believes only state that belongs to the caller's own user, also if that is root, and that
// nobody else may use; WithTrustDir and CTXFS_TRUST_DIR permit others. The error is a *NoServerError.
func Find(opts ...Option) (Server, error) { return newConfig(opts).find() }

func (c config) find() (Server, error) {
	dir := c.dir
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
		s, err := serverAt(filepath.Join(dir, ".contexts"), c.trusted())
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
		s, err := c.find()
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

// trusted returns the contexts directories that may belong to another user.
func (c config) trusted() []string {
	return append(strings.Split(c.getenv("CTXFS_TRUST_DIR"), ","), c.trustDirs...)
}

// The bounds of the files in a state directory, in bytes.
const (
	maxServerJSON = 64 << 10
	maxToken      = 4 << 10
)

// serverAt reads the server.json and the token in a contexts directory.
func serverAt(contexts string, trusted []string) (_ Server, err error) {
	dir, err := statedir.Open(contexts, trusted)
	if err != nil {
		return Server{}, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	s := Server{state: dir.Path, owner: -1}
	if owner, ok := statedir.Owner(dir.Info); ok {
		s.owner = owner
	}
	data, err := dir.ReadFile("server.json", maxServerJSON, false)
	if err != nil {
		return Server{}, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return Server{}, fmt.Errorf("%s cannot be read: %w", s.file(), err)
	}
	if s.Socket == "" {
		return Server{}, fmt.Errorf("%s names no socket", s.file())
	}
	if s.TokenFile == "" {
		return s, nil
	}
	// Only from this directory: a file elsewhere would be sent to the server that server.json names.
	secret, err := dir.ReadFile(filepath.Base(s.TokenFile), maxToken, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Server{}, err
	}
	s.token = strings.TrimSpace(string(secret))
	return s, nil
}

func (s Server) file() string { return filepath.Join(s.state, "server.json") }

// target returns where to connect, with the host's token unless the caller has one.
func (s Server) target(token string) target {
	peer := new(atomic.Int64)
	peer.Store(-1)
	return target{address: "unix://" + s.socketFrom(), source: s.file(), pid: s.PID, token: cmp.Or(token, s.token), server: s, peer: peer}
}

// dial connects to the target. At the socket of a server.json it accepts no server of another user: the
// server may have ended, and others may be able to make the directory of its socket anew.
func (t target) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	path, isSocket := t.socket()
	if isSocket {
		network, addr = "unix", path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil || t.server.state == "" {
		return conn, err
	}
	if socket, ok := conn.(*net.UnixConn); ok {
		err = t.admit(socket)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// admit fails unless the process that listens belongs to the state's owner, to the caller or to root.
func (t target) admit(conn *net.UnixConn) error {
	peer, err := peercred.Of(conn)
	if err != nil || !peer.Known {
		return err
	}
	t.peer.Store(int64(peer.PID))
	if uid := int(peer.UID); uid == 0 || uid == os.Geteuid() || uid == t.server.owner {
		return nil
	}
	return fmt.Errorf("a process of uid %d listens there, which is no server of yours (uid %d)", peer.UID, os.Geteuid())
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

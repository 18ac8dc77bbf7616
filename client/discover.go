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
)

// NoServerError says that no server was named and none was found.
type NoServerError struct {
	// Dir is where the search began.
	Dir string
	// Err tells why a server.json that was found could not be used; nil when there was none.
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
	who := "no ctxfs server answers at " + e.Address + " (from " + e.Source + ")"
	if e.PID != 0 {
		who += fmt.Sprintf("; pid %d was to serve there, start it again with 'ctxfs serve'", e.PID)
	} else {
		who += "; is 'ctxfs serve' running there?"
	}
	return who + ": " + reason(e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// target is a server to connect to.
type target struct {
	address string
	token   string
	source  string
	pid     int
}

// serverFile is what a client needs of a server's server.json.
type serverFile struct {
	PID       int      `json:"pid"`
	Socket    string   `json:"socket"`
	Addresses []string `json:"addresses"`
	TokenFile string   `json:"token_file"`
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
		var err error
		if t, err = c.discover(t.token); err != nil {
			return t, err
		}
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

// local tells whether the address never leaves the machine.
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

// discover walks up to a workspace that is served.
func (c config) discover(token string) (target, error) {
	start := c.dir
	if start == "" {
		wd, err := os.Getwd()
		if err != nil {
			return target{}, &NoServerError{Dir: ".", Err: err}
		}
		start = wd
	}
	start, err := filepath.Abs(start)
	if err != nil {
		return target{}, &NoServerError{Dir: start, Err: err}
	}
	for dir := outsideContexts(start); ; dir = filepath.Dir(dir) {
		t, err := targetAt(filepath.Join(dir, ".contexts", ".ctxfs"), token)
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return target{}, &NoServerError{Dir: start, Err: err}
		}
		if dir == filepath.Dir(dir) {
			return target{}, &NoServerError{Dir: start}
		}
	}
}

// outsideContexts cuts dir at the outermost contexts directory: a panel can write a
// server.json into its own folder, and must not lead astray who stands there.
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

// targetAt reads the server.json in a state directory. Only a directory that is the
// caller's own and closed to others is believed.
func targetAt(state, token string) (target, error) {
	st, err := os.Lstat(state)
	if err != nil {
		return target{}, err
	}
	if !st.IsDir() || !private(st) {
		return target{}, fmt.Errorf("%s is not a private directory of yours, so it is not believed", state)
	}
	file := filepath.Join(state, "server.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return target{}, err
	}
	var s serverFile
	if err := json.Unmarshal(data, &s); err != nil {
		return target{}, fmt.Errorf("%s cannot be read: %w", file, err)
	}
	return s.target(state, file, token)
}

func (s serverFile) target(state, file, token string) (target, error) {
	t := target{source: file, pid: s.PID, token: token}
	switch {
	case s.Socket != "":
		t.address = "unix://" + s.socketFrom(state)
	case len(s.Addresses) > 0:
		t.address = s.Addresses[0]
	default:
		return target{}, fmt.Errorf("%s names neither a socket nor an address", file)
	}
	if t.token == "" && s.TokenFile != "" {
		// Only from this directory: a file elsewhere would be sent to whom server.json names.
		secret, err := os.ReadFile(filepath.Join(state, filepath.Base(s.TokenFile)))
		if err == nil {
			t.token = strings.TrimSpace(string(secret))
		}
	}
	return t, nil
}

// socketFrom returns the socket beside server.json if it is there: a server in a container records the path that it sees itself.
// The base names must match: a socket whose path would be too long is elsewhere, and one in the state directory is then not its own.
func (s serverFile) socketFrom(state string) string {
	recorded := strings.TrimPrefix(s.Socket, "unix://")
	beside := filepath.Join(state, filepath.Base(recorded))
	if st, err := os.Lstat(beside); err == nil && st.Mode().Type() == fs.ModeSocket {
		return beside
	}
	return recorded
}

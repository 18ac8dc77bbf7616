package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/ctxfs/ctxfs/fsservice/handles"
	"github.com/ctxfs/ctxfs/gateway"
)

// listeners has the sockets that the server listens on.
type listeners struct {
	grpc []net.Listener
	http net.Listener
	tls  *tls.Config
	// pages is the address of sites, and pagesAt where browsers find them; nil means none. pagesTLS is nil for plain text.
	pages    net.Listener
	pagesAt  gateway.Place
	pagesTLS *tls.Config
}

// listen opens the unix socket and the configured addresses.
func (s *Server) listen(ctx context.Context) error {
	path, err := socketPath(s.claim.layout.Socket)
	if err != nil {
		return err
	}
	if s.socket, err = listenUnix(ctx, path); err != nil {
		return fmt.Errorf("listen on the unix socket: %w", err)
	}
	s.conns = newConnGroups(handles.DescriptorLimit(), len(s.cfg.Listen) > 0, s.cfg.HTTP != "", s.cfg.Gateway != "", s.metrics)
	s.ls.grpc = append(s.ls.grpc, listenerOf(s.socket, s.conns.unix, s.log))
	if s.ls.tls, err = tlsConfig(s.cfg); err != nil {
		return err
	}
	s.info.Addresses = Addresses{Socket: path, TLS: s.ls.tls != nil, TokenFile: s.claim.layout.HostToken}
	for _, addr := range s.cfg.Listen {
		l, err := s.listenTCP(ctx, "listen", addr, s.ls.tls != nil)
		if err != nil {
			return err
		}
		s.ls.grpc = append(s.ls.grpc, listenerOf(l, s.conns.tcp, s.log))
		s.info.Addresses.TCP = append(s.info.Addresses.TCP, l.Addr().String())
	}
	if err := s.listenPages(ctx); err != nil {
		return err
	}
	if s.cfg.HTTP == "" {
		return nil
	}
	l, err := s.listenTCP(ctx, "http", s.cfg.HTTP, s.ls.tls != nil)
	if err != nil {
		return err
	}
	s.ls.http = listenerOf(l, s.conns.http, s.log)
	s.info.Addresses.HTTP = s.ls.http.Addr().String()
	if s.ls.tls != nil {
		s.ls.http = tls.NewListener(s.ls.http, s.ls.tls)
	}
	return nil
}

// listenPages opens the address of sites.
func (s *Server) listenPages(ctx context.Context) (err error) {
	if s.cfg.Gateway == "" {
		return nil
	}
	if s.ls.pagesTLS, err = pagesTLS(s.cfg, s.ls.tls); err != nil {
		return err
	}
	l, err := s.listenTCP(ctx, "gateway", s.cfg.Gateway, s.ls.pagesTLS != nil)
	if err != nil {
		return err
	}
	s.ls.pages = listenerOf(l, s.conns.pages, s.log)
	port := 0
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		port = tcp.Port
	}
	s.ls.pagesAt, err = s.cfg.sitesPlace(port)
	s.info.Addresses.Gateway, s.info.Addresses.Sites = l.Addr().String(), s.ls.pagesAt.String()
	return err
}

// listenTCP listens, and checks the address that a name such as localhost resolved to, since the settings were checked by name.
func (s *Server) listenTCP(ctx context.Context, key, addr string, secure bool) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &ConfigError{Key: key, Problem: err.Error()}
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !secure && (!ok || !tcp.IP.IsLoopback()) {
		flags := "--tls-cert and --tls-key"
		if key == "gateway" {
			flags = "--gateway-domain, --gateway-tls-cert and --gateway-tls-key"
		}
		return nil, errors.Join(&ConfigError{Key: key, Problem: addr + " is not on loopback and needs TLS: give " + flags}, l.Close())
	}
	return l, nil
}

// close closes listeners that are not served. It may be called again.
func (ls *listeners) close() {
	for _, l := range ls.grpc {
		_ = l.Close()
	}
	for _, l := range []net.Listener{ls.http, ls.pages} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// maxSocketPath bounds the socket's path, in bytes: sun_path has 108 on Linux and 104 on macOS.
const maxSocketPath = 100

// socketPath returns the path of the socket: in the state directory or, when that path is too long, in a directory that only this user
// may use, under a name made from the path.
func socketPath(inState string) (string, error) {
	if len(inState) <= maxSocketPath {
		return inState, nil
	}
	sum := sha256.Sum256([]byte(inState))
	var errs []error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if base == "" {
			continue
		}
		dir := filepath.Join(base, "ctxfs-"+strconv.Itoa(os.Geteuid()))
		path := filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock")
		if len(path) > maxSocketPath {
			errs = append(errs, fmt.Errorf("%s is too long", path))
			continue
		}
		err := privateDir(dir)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("the path of the socket %s has %d bytes, the limit is %d, and there is no other place: %w; set TMPDIR to a short path",
		inState, len(inState), maxSocketPath, errors.Join(errs...))
}

// privateDir makes dir, or checks that only this user may use it, and that no other user could exchange it.
func privateDir(dir string) error {
	if err := verifySteady(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return verifyPrivate(dir)
}

// socket listens at a path. When the path is removed, restore listens there again; accepted connections stay.
type socket struct {
	path string

	mu     sync.Mutex
	l      *net.UnixListener
	at     fs.FileInfo
	closed bool
}

// listenUnix listens at path. The caller holds the workspace's lock, so a socket that is there was left by a killed server, and is
// removed.
func listenUnix(ctx context.Context, path string) (*socket, error) {
	s := &socket{path: path}
	return s, s.listen(ctx)
}

func (s *socket) listen(ctx context.Context) error {
	st, err := os.Lstat(s.path)
	switch {
	case err == nil && st.Mode()&fs.ModeSocket == 0 && st.Mode().Type() != fs.ModeIrregular:
		return fmt.Errorf("%s is in the way of the socket and is none; remove it", s.path)
	case err == nil:
		if err := os.Remove(s.path); err != nil {
			return fmt.Errorf("remove a socket that a killed server left: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", s.path)
	if err != nil {
		return err
	}
	unix := l.(*net.UnixListener) //nolint:forcetypeassert // "unix" returns this type
	unix.SetUnlinkOnClose(false)  // Close removes the path if it is still this socket's
	// The directory is 0700, so no other user connects before the mode is set.
	err = os.Chmod(s.path, 0o600)
	if err == nil {
		st, err = os.Lstat(s.path)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.l, s.at = unix, st
	return nil
}

// restore listens again if the path no longer leads to the socket, and reports whether it did.
func (s *socket) restore(ctx context.Context) (restored bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.mine() {
		return false, nil
	}
	old := s.l
	if err := s.listen(ctx); err != nil {
		return false, fmt.Errorf("listen anew at %s: %w", s.path, err)
	}
	return true, old.Close()
}

// mine reports whether the path leads to the socket, or cannot be checked. s.mu is held.
func (s *socket) mine() bool {
	st, err := os.Lstat(s.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(st, s.at)
}

func (s *socket) current() *net.UnixListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.l
}

// Accept implements net.Listener.
func (s *socket) Accept() (net.Conn, error) {
	for {
		l := s.current()
		c, err := l.Accept()
		if err == nil || l == s.current() {
			return c, err
		}
	}
}

// Addr implements net.Listener.
func (s *socket) Addr() net.Addr { return s.current().Addr() }

// Close implements net.Listener. Closing again is an error.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.l.Close()
	if !s.closed && err == nil && s.mine() {
		_ = os.Remove(s.path) // the next server removes one that stays
	}
	s.closed = true
	return err
}

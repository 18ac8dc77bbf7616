package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/ctxfs/ctxfs/fsservice/handles"
)

// listeners are what the server listens on.
type listeners struct {
	grpc []net.Listener
	http net.Listener
	tls  *tls.Config
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
	s.conns = newConnGroups(handles.DescriptorLimit(), len(s.cfg.Listen) > 0, s.cfg.HTTP != "", s.metrics)
	s.ls.grpc = append(s.ls.grpc, connListener{s.socket, s.conns.unix})
	if s.ls.tls, err = tlsConfig(s.cfg); err != nil {
		return err
	}
	s.info.Addresses = Addresses{Socket: path, TLS: s.ls.tls != nil, TokenFile: s.claim.layout.HostToken}
	for _, addr := range s.cfg.Listen {
		l, err := s.listenTCP(ctx, "listen", addr)
		if err != nil {
			return err
		}
		s.ls.grpc = append(s.ls.grpc, connListener{l, s.conns.tcp})
		s.info.Addresses.TCP = append(s.info.Addresses.TCP, l.Addr().String())
	}
	if s.cfg.HTTP == "" {
		return nil
	}
	l, err := s.listenTCP(ctx, "http", s.cfg.HTTP)
	if err != nil {
		return err
	}
	s.ls.http = connListener{l, s.conns.http}
	s.info.Addresses.HTTP = s.ls.http.Addr().String()
	if s.ls.tls != nil {
		s.ls.http = tls.NewListener(s.ls.http, s.ls.tls)
	}
	return nil
}

// listenTCP listens, and looks at what a name such as localhost became: the
// settings were checked by name.
func (s *Server) listenTCP(ctx context.Context, key, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &ConfigError{Key: key, Problem: err.Error()}
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); s.ls.tls == nil && (!ok || !tcp.IP.IsLoopback()) {
		return nil, errors.Join(&ConfigError{Key: key, Problem: addr + " is not on loopback and needs TLS: give --tls-cert and --tls-key"}, l.Close())
	}
	return l, nil
}

// close is for listeners that nobody serves; closing again does no harm.
func (ls *listeners) close() {
	for _, l := range ls.grpc {
		_ = l.Close()
	}
	if ls.http != nil {
		_ = ls.http.Close()
	}
}

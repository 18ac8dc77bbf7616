package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// overflowUID is whom the kernel shows for a user that a user namespace does not map
// (/proc/sys/kernel/overflowuid): it may be anybody, and so is nobody.
const overflowUID = 65534

// peerCred is who is at the other end of a unix socket.
type peerCred struct {
	known bool
	uid   uint32
	// pid is 0 where the system does not tell it.
	pid int
}

// isHost says that the peer is the server's own user, or root. self is the server's
// user; inUserNS says that it lives in a user namespace.
func (p peerCred) isHost(self uint32, inUserNS bool) bool {
	if !p.known || (inUserNS && p.uid == overflowUID) {
		return false
	}
	return p.uid == self || p.uid == 0
}

// connInfo is what is known of a connection, as gRPC's AuthInfo.
type connInfo struct {
	credentials.CommonAuthInfo
	// id is never used twice in a process.
	id uint64
	// unix says that it came over the unix socket, web that it is a WebSocket.
	unix, web bool
	// host says that its peer is host by its user.
	host bool
	pid  int
}

// AuthType implements credentials.AuthInfo.
func (*connInfo) AuthType() string { return "ctxfs" }

// transport is what metrics call it.
func (c *connInfo) transport() string {
	switch {
	case c.unix:
		return "unix"
	case c.web:
		return "websocket"
	}
	return "tcp"
}

// connOf returns the connection of a call.
func connOf(ctx context.Context) *connInfo {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*connInfo); ok {
			return c
		}
	}
	return &connInfo{}
}

// connCreds is the transport side of authentication for all listeners: peer
// credentials on the unix socket, TLS (when there is a certificate) on TCP.
type connCreds struct {
	// tls is nil for plain text, which is for loopback only.
	tls      credentials.TransportCredentials
	peerHost bool
	self     uint32
	inUserNS bool
	// next counts the connections.
	next *atomic.Uint64
	// onClose is told when a connection has ended.
	onClose func(id uint64)
}

func newConnCreds(tlsConfig *tls.Config, peerHost bool, next *atomic.Uint64, onClose func(id uint64)) *connCreds {
	c := &connCreds{
		peerHost: peerHost, self: uint32(os.Geteuid()), inUserNS: inUserNamespace(), next: next, onClose: onClose,
	}
	if tlsConfig != nil {
		c.tls = credentials.NewTLS(tlsConfig)
	}
	return c
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *connCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := &connInfo{id: c.next.Add(1)}
	info.SecurityLevel = credentials.NoSecurity
	conn := raw
	if u, ok := raw.(*net.UnixConn); ok {
		cred, err := peerOf(u)
		if err != nil {
			return nil, nil, err
		}
		info.unix, info.pid = true, cred.pid
		info.host = c.peerHost && cred.isHost(c.self, c.inUserNS)
		info.SecurityLevel = credentials.PrivacyAndIntegrity
	} else if c.tls != nil {
		var err error
		if conn, _, err = c.tls.ServerHandshake(raw); err != nil {
			return nil, nil, err
		}
		info.SecurityLevel = credentials.PrivacyAndIntegrity
	}
	return &trackedConn{Conn: conn, ended: sync.OnceFunc(func() { c.onClose(info.id) })}, info, nil
}

// ClientHandshake implements credentials.TransportCredentials; servers have no use of it.
func (c *connCreds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info implements credentials.TransportCredentials.
func (c *connCreds) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "ctxfs"}
}

// Clone implements credentials.TransportCredentials.
func (c *connCreds) Clone() credentials.TransportCredentials {
	clone := *c
	return &clone
}

// OverrideServerName implements credentials.TransportCredentials.
func (c *connCreds) OverrideServerName(string) error { return nil }

// trackedConn tells when it is closed.
type trackedConn struct {
	net.Conn
	ended func()
}

// Close implements net.Conn.
func (t *trackedConn) Close() error {
	defer t.ended()
	return t.Conn.Close()
}

// tlsConfig reads the certificate files; nil when there are none.
func tlsConfig(cfg Config) (*tls.Config, error) {
	if cfg.TLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return nil, &ConfigError{Key: "tls_cert", Problem: err.Error()}
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if cfg.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(cfg.ClientCA)
	if err != nil {
		return nil, &ConfigError{Key: "client_ca", Problem: err.Error()}
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, &ConfigError{Key: "client_ca", Problem: fmt.Sprintf("%s holds no certificate", cfg.ClientCA)}
	}
	return c, nil
}

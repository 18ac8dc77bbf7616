package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/internal/peercred"
)

// overflowUID is the uid that the kernel shows for users that a user namespace does not map (/proc/sys/kernel/overflowuid). It may be
// any of them, so it has no rights.
const overflowUID = 65534

// isHost reports whether a peer is the server's own user, or root. self is the server's user; inUserNS says that the server runs in a
// user namespace.
func isHost(p peercred.Cred, self uint32, inUserNS bool) bool {
	if !p.Known || (inUserNS && p.UID == overflowUID) {
		return false
	}
	return p.UID == self || p.UID == 0
}

// connInfo is what is known of a connection, as gRPC's AuthInfo.
type connInfo struct {
	credentials.CommonAuthInfo
	// id is unique in the process.
	id uint64
	// unix says that it came over the unix socket, web that it is a WebSocket.
	unix, web bool
	// http says that it carries a request for content.
	http bool
	// host says that its peer's user is host.
	host bool
	pid  int
	// accepted is the connection as its listener counts it; nil in some tests.
	accepted *acceptedConn
	// shares has the panels' shares of memory on the connection.
	shares *connShares
	// alpn is the protocol that TLS negotiated; "" for a client without ALPN, protoGRPC without TLS.
	alpn string
}

// protoGRPC is gRPC's name in ALPN.
const protoGRPC = "h2"

// AuthType implements credentials.AuthInfo.
func (*connInfo) AuthType() string { return "ctxfs" }

// transport returns the connection's name in metrics.
func (c *connInfo) transport() string {
	switch {
	case c.http:
		return "http"
	case c.web:
		return "websocket"
	case c.unix:
		return "unix"
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

// connCreds authenticates the connections of all gRPC listeners: with peer credentials on the unix socket, and TLS, if there is a
// certificate, on TCP. It passes HTTP connections to the gateway.
type connCreds struct {
	// tls is nil for plain text, which is for loopback only.
	tls      *tls.Config
	peerHost bool
	self     uint32
	inUserNS bool
	// next counts the connections.
	next *atomic.Uint64
	// onClose is called when a connection has ended.
	onClose func(id uint64)
	// take receives connections that begin as HTTP/1.1.
	take func(net.Conn)
}

func newConnCreds(tlsConfig *tls.Config, peerHost bool, next *atomic.Uint64, onClose func(id uint64), take func(net.Conn)) *connCreds {
	c := &connCreds{
		peerHost: peerHost, self: uint32(os.Geteuid()), inUserNS: inUserNamespace(), next: next, onClose: onClose, take: take,
	}
	if tlsConfig != nil {
		c.tls = tlsConfig.Clone()
		c.tls.NextProtos = []string{protoGRPC, "http/1.1"}
	}
	return c
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *connCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	accepted, ok := raw.(*acceptedConn)
	if !ok {
		return nil, nil, errors.New("these credentials require a connListener")
	}
	conn, info, err := c.identify(accepted.Conn)
	if err != nil {
		return nil, nil, err
	}
	info.accepted = accepted
	shared := &sharedConn{Conn: conn, info: info, ended: sync.OnceFunc(func() {
		accepted.remove()
		info.shares.close()
		c.onClose(info.id)
	})}
	info.shares.cut = func() { _ = shared.Close() }
	isWeb, err := shared.look()
	switch {
	case err != nil:
		return nil, nil, err
	case !isWeb && info.alpn != protoGRPC:
		return nil, nil, errors.New("gRPC over TLS needs ALPN to say h2")
	case isWeb:
		info.web = true
		accepted.handed.Store(true)
		c.take(shared)
		return nil, nil, credentials.ErrConnDispatched
	}
	return pooled(shared), info, nil
}

// identify identifies the other end as far as the transport allows.
func (c *connCreds) identify(conn net.Conn) (net.Conn, *connInfo, error) {
	info := &connInfo{id: c.next.Add(1), alpn: protoGRPC, shares: &connShares{}}
	info.SecurityLevel = credentials.NoSecurity
	if u, ok := conn.(*net.UnixConn); ok {
		cred, err := peercred.Of(u)
		if err != nil {
			return nil, nil, err
		}
		info.unix, info.pid = true, cred.PID
		info.host = c.peerHost && isHost(cred, c.self, c.inUserNS)
		info.SecurityLevel = credentials.PrivacyAndIntegrity
	} else if c.tls != nil {
		encrypted := tls.Server(conn, c.tls)
		if err := encrypted.HandshakeContext(context.Background()); err != nil { // gRPC has set a deadline
			return nil, nil, err
		}
		conn = encrypted
		info.SecurityLevel, info.alpn = credentials.PrivacyAndIntegrity, encrypted.ConnectionState().NegotiatedProtocol
	}
	return conn, info, nil
}

// ClientHandshake implements credentials.TransportCredentials. Servers do not use it.
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

// pagesTLS reads the certificate of sites; nil when there is none. It must be for their names, and other, the configuration of the other
// addresses, for none of them: a browser would reach those by the name of a site.
func pagesTLS(cfg Config, other *tls.Config) (*tls.Config, error) {
	if cfg.GatewayDomain == "" {
		return nil, nil
	}
	place, err := cfg.sitesPlace(0)
	if err != nil {
		return nil, &ConfigError{Key: "gateway_domain", Problem: err.Error()}
	}
	site := strings.Repeat("a", 26) + "." + place.Domain
	if other != nil {
		leaf := other.Certificates[0].Leaf
		if slices.ContainsFunc(leaf.DNSNames, place.Has) || leaf.VerifyHostname(site) == nil {
			return nil, &ConfigError{Key: "gateway_domain", Problem: fmt.Sprintf("%s is the domain of sites, and the certificate of --tls-cert has a name of it (%s): give --listen and --http another domain", place.Domain, strings.Join(leaf.DNSNames, ", "))}
		}
	}
	if cfg.GatewayTLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(cfg.GatewayTLSCert, cfg.GatewayTLSKey)
	if err != nil {
		return nil, &ConfigError{Key: "gateway_tls_cert", Problem: err.Error()}
	}
	for _, name := range []string{site, "files." + place.Domain} {
		if cert.Leaf.VerifyHostname(name) != nil {
			return nil, &ConfigError{Key: "gateway_tls_cert", Problem: fmt.Sprintf("%s is a certificate of %s, and sites need one of *.%s", cfg.GatewayTLSCert, cmp.Or(strings.Join(cert.Leaf.DNSNames, ", "), "no domain"), place.Domain)}
		}
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// The gRPC addresses also answer HTTP: over WebSocket a client's small calls take less time than over gRPC's own streams, and a
// connection needs less memory. The first bytes of a connection show its protocol: an HTTP/1.1 request, or HTTP/2's preface.

// headSize is how many bytes distinguish HTTP/2's preface, which begins with PRI, from a request.
const headSize = 4

var prefaceHead = []byte("PRI ")

// sharedConn is a connection to a gRPC address whose first bytes were read to learn its protocol.
type sharedConn struct {
	net.Conn
	info *connInfo
	// head has the bytes that were read ahead.
	head []byte
	// ended is called when the connection is closed.
	ended func()
}

// look reads the first bytes, and reports whether the connection speaks HTTP/1.1.
func (c *sharedConn) look() (isWeb bool, err error) {
	c.head = make([]byte, headSize)
	if _, err := io.ReadFull(c.Conn, c.head); err != nil {
		return false, err
	}
	return !bytes.Equal(c.head, prefaceHead), nil
}

// Read implements net.Conn.
func (c *sharedConn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	c.info.accepted.pace()
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *sharedConn) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// CloseWrite half-closes, as net.TCPConn's does.
func (c *sharedConn) CloseWrite() error { return gateway.CloseWrite(c.Conn) }

// NetConn returns the connection below, as that of tls.Conn does.
func (c *sharedConn) NetConn() net.Conn { return c.Conn }

// Socket returns the connection's socket, to read from or write to directly; nil when it speaks TLS.
func (c *sharedConn) Socket() syscall.RawConn { return socketOf(c.Conn) }

func socketOf(conn net.Conn) syscall.RawConn {
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

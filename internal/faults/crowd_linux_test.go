package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/server"
)

// crowd is how many connections come and go at once.
const crowd = 1000

// TestAThousandConnections opens a thousand connections of each kind, which get as far as a few bytes do, and drops them at once.
func TestAThousandConnections(t *testing.T) {
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < 3*crowd {
		t.Skipf("not tested: RLIMIT_NOFILE is %d, both ends of %d connections need %d", limit.Cur, crowd, 3*crowd)
	}
	p := begin(t, func(c *server.Config) {
		c.Listen = []string{"127.0.0.1:0"}
		c.TLSCert, c.TLSKey = certificate(t)
	})
	a := p.Info().Addresses
	for _, c := range []struct{ name, network, address, says string }{
		{"gRPC", "unix", a.Socket, preface},
		{"WebSocket", "unix", a.Socket, "GET /v1/session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"},
		{"half a request", "unix", a.Socket, "GET /v1/sess"},
		{"silent", "unix", a.Socket, ""},
		{"half of a TLS handshake", "tcp", a.TCP[0], "\x16\x03\x01\x02\x00\x01\x00"},
		{"half of a TLS handshake of HTTP", "tcp", a.HTTP, "\x16\x03\x01\x02\x00\x01\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.othersGoOn()
			before := measure(t)
			conns := dialCrowd(t, c.network, c.address, c.says)
			p.othersGoOn()
			for _, conn := range conns {
				_ = conn.Close() // the server may have been faster
			}
			p.othersGoOn()
			before.returns(t, 8)
		})
	}
}

// dialCrowd connects them from ten places.
func dialCrowd(t *testing.T, network, address, says string) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, crowd)
	var all sync.WaitGroup
	for from := range 10 {
		all.Go(func() {
			var d net.Dialer
			for i := from; i < crowd; i += 10 {
				conn, err := d.DialContext(t.Context(), network, address)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = conn
				_, _ = conn.Write([]byte(says)) // it may be cut off already
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return conns
}

// certificate makes a server's own, for 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: strings.ToUpper(kind), Bytes: der}), 0o600))
		return path
	}
	return write("cert.pem", "certificate", der), write("key.pem", "private key", keyDER)
}

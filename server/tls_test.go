package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// authority is a certificate authority for one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.pem = sign(t, nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func sign(t *testing.T, by *authority, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, parentKey := c, key
	if by != nil {
		parent, parentKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// files writes a certificate for 127.0.0.1 and for names, usable by both ends, and its key.
func (a *authority) files(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	_, k, certPEM := sign(t, a, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return write(t, filepath.Join(dir, "cert.pem"), string(certPEM)), write(t, filepath.Join(dir, "key.pem"), string(keyPEM))
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func TestTLSAndClientCertificates(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	cfg := testConfig(t)
	cfg.TLSCert, cfg.TLSKey = ca.files(t)
	cfg.ClientCA = write(t, filepath.Join(t.TempDir(), "ca.pem"), string(ca.pem))
	cfg.Listen = []string{"0.0.0.0:0"}
	r := start(t, cfg)
	_, port, _ := net.SplitHostPort(r.Info().Addresses.TCP[0])
	addr := "127.0.0.1:" + port
	token := r.openPanel(t, "p").GetToken()
	as := func(a *authority) *tls.Config {
		c := &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}
		if a != nil {
			pair, err := tls.LoadX509KeyPair(a.files(t))
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c
	}
	for _, c := range []struct {
		name  string
		conn  *grpc.ClientConn
		token string
		want  codes.Code
	}{
		{"certificate and token", dial(t, addr, credentials.NewTLS(as(ca))), token, codes.OK},
		{"certificate without a token", dial(t, addr, credentials.NewTLS(as(ca))), "", codes.Unauthenticated},
		{"no certificate", dial(t, addr, credentials.NewTLS(as(nil))), token, codes.Unavailable},
		{"another authority's", dial(t, addr, credentials.NewTLS(as(other))), token, codes.Unavailable},
		{"plain text", dial(t, addr, nil), token, codes.Unavailable},
	} {
		var md []string
		if c.token != "" {
			md = []string{"authorization", bearerOf(c.token)}
		}
		_, err := ctxfsv1.NewContextServiceClient(c.conn).GetInfo(with(t, md...), &ctxfsv1.GetInfoRequest{})
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HTTP = "127.0.0.1:0"
	r := start(t, cfg)
	r.openPanel(t, "p")
	_, err := ctxfsv1.NewFsServiceClient(r.host(t)).Stat(with(t, panelKey, "p"), &ctxfsv1.StatRequest{Path: "/nope"})
	wantError(t, err, codes.NotFound, "ENOENT", "/nope")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path, host, token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Info().Addresses.HTTP+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if token != "" {
			req.Header.Set("Authorization", bearerOf(token))
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	token := readToken(t, r)
	for _, c := range []struct {
		path, host, token string
		want              int
		words             string
	}{
		{"/livez", "", "", 200, "ok"},
		{"/readyz", "localhost:1", "", 200, "ok\ndriver copy\n"},
		{"/readyz", "evil.example", "", 403, "127.0.0.1"},
		{"/metrics", "", "", 401, "host token"},
		{"/metrics", "", "wrong", 401, "host token"},
		{"/metrics", "", token, 200, `ctxfs_errors_total{errno="ENOENT",method="/ctxfs.v1.FsService/Stat"} 1`},
		{"/nowhere", "", "", 404, ""},
	} {
		if code, body := get(c.path, c.host, c.token); code != c.want || !strings.Contains(body, c.words) {
			t.Errorf("%s as %q: %d %s", c.path, c.host, code, body)
		}
	}
	_, body := get("/metrics", "", token)
	for _, name := range []string{
		"ctxfs_rpc_duration_seconds_count{code=\"NotFound\"", "ctxfs_in_flight 0", "ctxfs_handles_open 0", "ctxfs_handles_reaped_total 0",
		"ctxfs_seed_duration_seconds_count{driver=\"copy\",result=\"ok\"} 1", "ctxfs_contexts 1", "ctxfs_disk_free_bytes", "ctxfs_watch_overflows_total 0",
		"ctxfs_build_info{goversion=", `transport="unix"`,
	} {
		if !strings.Contains(body, name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	r.cfg.DiskReserve = 1 << 60
	if code, body := get("/readyz", "", ""); code != 503 || !strings.Contains(body, "reserve") {
		t.Errorf("below the reserve: %d %s", code, body)
	}
}

package server

import (
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestAddressesSurviveAnyBytes says what no client says to the addresses of gRPC, of HTTP and of sites. Package gateway fuzzes what is
// behind those of HTTP.
func TestAddressesSurviveAnyBytes(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HTTP, cfg.Listen, cfg.Gateway = "127.0.0.1:0", []string{"127.0.0.1:0"}, "127.0.0.1:0"
	core, log := observer.New(zapcore.InfoLevel)
	at := startLogging(t, cfg, zap.New(core), func(*Server) {}).Info().Addresses
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, text := range []string{
		"", "P", "PRI", preface[:23], preface, preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00", preface + "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x01\x05\x00\x00\x00\x01", preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x00\x00\x00\x01\xff",
		"\x16\x03\x01", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/9.9\r\n\r\n", "GET", "GET / HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", strings.Repeat("x", 100_000), "\x00\x00\x00\x00",
	} {
		for _, addr := range []string{at.TCP[0], at.HTTP, at.Gateway} {
			sayBytes(t, addr, text)
		}
	}
	for _, e := range log.TakeAll() {
		if e.Level >= zapcore.ErrorLevel || strings.Contains(e.Message, "panic") {
			t.Errorf("the server failed: %s %v", e.Message, e.ContextMap())
		}
	}
}

// sayBytes says text, half-closes, and waits for the end.
func sayBytes(t *testing.T, addr, text string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, text) // the server may have refused it before
	_ = conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, conn)
}

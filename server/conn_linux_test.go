package server

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
)

// TestIdleConnectionsHoldNoBuffers has idle sessions on gRPC connections of their own.
func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	const n, each = 50, 96 << 10 // both ends are in this process
	r := start(t, sessionConfig(t))
	token := r.openPanel(t, "p").GetToken()
	addr := r.Info().Addresses.TCP[0]
	beginGRPC(t, addr, token, "").works(opStat("/"))
	settled := func() int64 {
		heap() // pools let go of what they hold in two collections
		heap()
		return int64(heap())
	}
	before := settled()
	for range n {
		beginGRPC(t, addr, token, "").works(opStat("/"))
	}
	if grown := (settled() - before) / n; grown > each {
		t.Errorf("an idle connection takes %d KiB", grown>>10)
	}
}

// TestReadOnReady reads what was looked at, what came, and the end.
func TestReadOnReady(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	shared := &sharedConn{Conn: near, info: &connInfo{}, ended: func() {}}
	text := "PRI * HTTP/2.0 and more"
	go func() {
		for _, part := range []string{text[:3], text[3:9], text[9:]} {
			_, _ = io.WriteString(far, part)
		}
		_ = far.Close()
	}()
	if isWeb, err := shared.look(); isWeb || err != nil {
		t.Fatalf("look: %v, %v", isWeb, err)
	}
	conn, ok := pooled(shared).(*pooledConn)
	if !ok {
		t.Fatal("a TCP connection is not pooled")
	}
	pool, got := mem.DefaultBufferPool(), strings.Builder{}
	for {
		buf, n, err := conn.ReadOnReady(8, pool)
		if err != nil {
			if !errors.Is(err, io.EOF) || buf != nil {
				t.Errorf("the end is %v, with %v", err, buf)
			}
			break
		}
		got.Write((*buf)[:n])
		pool.Put(buf)
	}
	if got.String() != text {
		t.Errorf("read %q", got.String())
	}
	_ = near.Close()
	if buf, _, err := conn.ReadOnReady(8, pool); err == nil || buf != nil {
		t.Errorf("a closed connection reads %v, %v", buf, err)
	}
}

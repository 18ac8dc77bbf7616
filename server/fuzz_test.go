package server

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// fuzzed is a server that serves a fuzz target, by a panel's token, and what it has logged as its own failure.
type fuzzed struct {
	info   Info
	failed *observer.ObservedLogs
	token  string
	// site is the host of a site with live reload and a hub, and listing the one of a site that lists.
	site, listing string
}

// startFuzzed serves until the target ends.
func startFuzzed(f *testing.F) *fuzzed {
	f.Helper()
	dir, err := os.MkdirTemp("", "ctxfs")
	if err != nil {
		f.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Workspace, cfg.DiskReserve, cfg.HTTP, cfg.Listen, cfg.Gateway, cfg.Pool = dir, 0, "127.0.0.1:0", []string{"127.0.0.1:0"}, "127.0.0.1:0", 0
	core, failed := observer.New(zapcore.InfoLevel)
	s, err := New(context.Background(), cfg, Deps{Log: zap.New(core), Version: "1.2.3"})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ctx) })
	f.Cleanup(func() {
		stop()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	cc, err := grpc.NewClient(s.Info().Addresses.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	panel, err := ctxfsv1.NewPanelServiceClient(cc).OpenPanel(ctx, &ctxfsv1.OpenPanelRequest{PanelId: "p"})
	if err != nil {
		f.Fatal(err)
	}
	z := &fuzzed{info: s.Info(), failed: failed, token: panel.GetToken()}
	z.openSites(f, cc)
	return z
}

// openSites opens the sites of the target, with a document.
func (z *fuzzed) openSites(f *testing.F, cc *grpc.ClientConn) {
	f.Helper()
	as := metadata.AppendToOutgoingContext(context.Background(), "authorization", bearerOf(z.token))
	_, err := ctxfsv1.NewFsServiceClient(cc).WriteFile(as, &ctxfsv1.WriteFileRequest{Path: "/index.html", Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte(documentText)}})
	if err != nil {
		f.Fatal(err)
	}
	for host, options := range map[*string]*ctxfsv1.SiteOptions{
		&z.site: {LiveReload: true, Base: true, Spa: true, Hub: true, Parents: []string{"http://localhost:1"}}, &z.listing: {Listing: true, Hidden: true, Index: "none"},
	} {
		site, err := ctxfsv1.NewGatewayServiceClient(cc).OpenSite(as, &ctxfsv1.OpenSiteRequest{Options: options})
		if err != nil {
			f.Fatal(err)
		}
		u, err := url.Parse(site.GetUrl())
		if err != nil {
			f.Fatal(err)
		}
		*host = u.Host
	}
}

// say sends bytes to an address, says no more, and waits for the end.
func (z *fuzzed) say(t *testing.T, addr string, parts ...[]byte) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, clocktest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(clocktest.Patience))
	for _, p := range parts {
		if _, err := conn.Write(p); err != nil {
			break // it was refused before
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	reply := make([]byte, 64<<10)
	for {
		if _, err := conn.Read(reply); err != nil {
			break
		}
	}
	z.check(t)
}

// check fails when the server has.
func (z *fuzzed) check(t *testing.T) {
	t.Helper()
	for _, e := range z.failed.TakeAll() {
		if e.Level >= zapcore.ErrorLevel || strings.Contains(e.Message, "panic") {
			t.Errorf("the server failed: %s %v", e.Message, e.ContextMap())
		}
	}
}

// FuzzConnection says anything at all to the addresses of HTTP, of gRPC and of sites.
func FuzzConnection(f *testing.F) {
	z := startFuzzed(f)
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for _, s := range []string{
		"", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /v1/session HTTP/1.1\r\nHost: localhost\r\n" + upgrade + "\r\n",
		"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n" + upgrade + "\r\n", "PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
		"PUT /v1/content?path=/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "\x16\x03\x01", "GET / HTTP/9.9\r\n\r\n",
		"GET /v1/content?path=%00 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-\r\nAuthorization: Bearer x\r\nAuthorization: Bearer y\r\n\r\n",
		"POST /v1/FsService/Stat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"path\":\"/\"}",
		"POST /v1/FsService/Glob HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nCtxfs-Timeout: 1s\r\n\r\nf\r\n{\"patterns\":[\"*\r\n",
		"GET / HTTP/1.1\r\nHost: site\r\nSec-Fetch-Dest: document\r\nRange: bytes=0-1,5-\r\nIf-None-Match: *\r\n\r\nGET /x HTTP/1.1\r\nHost: site\r\nSec-Fetch-Mode: navigate\r\n\r\n",
		"GET /__ctxfs/hub.html HTTP/1.1\r\nHost: site\r\n\r\n", "GET /__ctxfs/sw.js HTTP/1.1\r\nHost: site\r\nService-Worker: script\r\n\r\n",
		"HEAD /%2e%2e/%00 HTTP/1.1\r\nHost: site\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: site\r\n\r\n", "GET http://site/ HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: list\r\nAccept: application/json\r\nAccept-Encoding: gzip;q=0.5, zstd\r\n\r\n", "GET /index.html HTTP/1.1\r\nHost: list\r\nContent-Length: 3\r\n\r\nabc",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.ReplaceAll(data, []byte("Bearer x"), []byte("Bearer "+z.token))
		z.say(t, z.info.Addresses.Gateway, bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("Host: site"), []byte("Host: "+z.site)), []byte("Host: list"), []byte("Host: "+z.listing)))
		z.say(t, z.info.Addresses.HTTP, data)
		z.say(t, z.info.Addresses.TCP[0], data)
	})
}

// FuzzWebSocket says anything after the handshake: first as frames, then as a message of an open session.
func FuzzWebSocket(f *testing.F) {
	z := startFuzzed(f)
	shake := []byte("GET /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	open, err := proto.Marshal(&ctxfsv1.SessionRequest{Id: 1, Request: &ctxfsv1.SessionRequest_Open{Open: &ctxfsv1.SessionOpen{Token: z.token, Batches: true}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []*ctxfsv1.SessionRequest{
		{}, sessiontest.Call(2, opStat("/")), sessiontest.Call(2, &ctxfsv1.HoldRequest{}), {Id: 2, Request: &ctxfsv1.SessionRequest_Cancel{}},
		{Id: 1, Request: &ctxfsv1.SessionRequest_RefreshToken{RefreshToken: &ctxfsv1.SessionRefreshToken{Token: "x"}}}, {Id: 2, Request: &ctxfsv1.SessionRequest_Call{}},
		{Also: []*ctxfsv1.SessionRequest{sessiontest.Call(3, opWatch("/")), {Also: []*ctxfsv1.SessionRequest{{}}}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(frame(0x82, data))
	}
	for _, s := range []string{"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x02\x80\x00\x00\x00\x00", "\x80\x80\x00\x00\x00\x00", "\x88\x80\x00\x00\x00\x00", "\x89\xfe\xff\xff", "\xf2\x80", "\x82\x01x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		addr := z.info.Addresses.HTTP
		z.say(t, addr, shake, data)
		z.say(t, addr, shake, frame(0x82, open), frame(0x82, data))
	})
}

// frame is a WebSocket's frame of a client, masked by zeros.
func frame(head byte, data []byte) []byte {
	n := len(data)
	b := []byte{head, 0x80 | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0}
	return append(b, data...)
}

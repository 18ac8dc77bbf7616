package faults

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// kept is what was acknowledged before a fault: it must be there during and after it.
const kept = "acknowledged before the fault\n"

// patience bounds a wait that only a fault makes long.
const patience = time.Minute

// play is a test's server, its host, and the panel that stands by while another one has the fault.
type play struct {
	*testing.T
	*server.Server
	host      *client.Client
	bystander *client.FS
	end       context.CancelFunc
	ended     chan error
}

// workspace makes a workspace with one repository below a directory whose path is short enough for a socket.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Rename(servertest.Workspace(t), filepath.Join(dir, "app")))
	return dir
}

// begin serves a workspace; change, which may be nil, alters the settings.
func begin(t *testing.T, change func(*server.Config)) *play {
	t.Helper()
	cfg := settings(t)
	if change != nil {
		change(&cfg)
	}
	return beginWith(t, cfg)
}

func settings(t *testing.T) server.Config {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Workspace, cfg.DiskReserve, cfg.Pool, cfg.HTTP = workspace(t), 0, 0, "127.0.0.1:0"
	return cfg
}

func beginWith(t *testing.T, cfg server.Config) *play {
	t.Helper()
	p := serve(t, cfg)
	p.bystander = p.panel("panels/bystander")
	must(t, p.bystander.WriteFile("kept", []byte(kept), 0o644))
	return p
}

// serve starts a server, and opens no panel, which a full disk has no room for.
func serve(t *testing.T, cfg server.Config) *play {
	t.Helper()
	s, err := server.New(t.Context(), cfg, server.Deps{Version: "0.0.0-test"})
	must(t, err)
	ctx, end := context.WithCancel(context.Background())
	p := &play{T: t, Server: s, end: end, ended: make(chan error, 1)}
	go func() { p.ended <- s.Serve(ctx) }()
	t.Cleanup(p.stop)
	p.host, err = client.Dial(t.Context(), client.WithAddress(s.Info().Addresses.Target()))
	must(t, err)
	return p
}

// stop ends the server, which is to have nothing to complain of.
func (p *play) stop() {
	p.Helper()
	must(p, p.leave())
}

// leave ends the server and returns what it says; nil again.
func (p *play) leave() error {
	p.Helper()
	if p.host == nil {
		return nil
	}
	must(p, p.host.Close())
	p.host = nil
	p.end()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		p.Fatalf("the server did not stop within %s", patience)
	}
	return nil
}

// panel opens a panel and returns its folder.
func (p *play) panel(id string) *client.FS {
	p.Helper()
	opened, err := p.host.OpenPanel(p.Context(), id)
	must(p, err)
	return opened.FS()
}

// folderOf is where the server keeps a panel's context.
func (p *play) folderOf(panel string) string {
	return filepath.Join(p.Info().ContextsDir, "ctx_"+strings.ReplaceAll(panel, "/", "~"))
}

// othersGoOn has the bystander read, stat and list what it has, while the fault lasts.
func (p *play) othersGoOn() {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	f := p.bystander.With(ctx)
	wantFile(p, f, "kept", kept)
	_, err := f.ReadDir("app/src")
	must(p, err)
	must(p, p.host.Health(ctx))
}

// ready is what /readyz says.
func (p *play) ready() (status int, says string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.Info().Addresses.HTTP+"/readyz", nil)
	must(p, err)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	must(p, err)
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	must(p, err)
	return resp.StatusCode, b.String()
}

// wantReady checks what /readyz says.
func (p *play) wantReady(status int, words string) {
	p.Helper()
	if got, says := p.ready(); got != status || !strings.Contains(says, words) {
		p.Errorf("/readyz says %d %q, want %d %q", got, says, status, words)
	}
}

// clean looks for what is half made: staging, and names that are the server's own.
func (p *play) clean() {
	p.Helper()
	l, err := contexts.NewLayout(p.Info().Workspace, p.Info().ContextsDir)
	must(p, err)
	entries, err := os.ReadDir(l.Staging)
	must(p, err)
	for _, e := range entries {
		if e.Name() != "CACHEDIR.TAG" {
			p.Errorf("left in staging: %s", e.Name())
		}
	}
}

// wantCode checks an error's errno. It requires a remedy in the error, and no path of the server.
func wantCode(t testing.TB, what string, err error, codes ...fserr.Code) {
	t.Helper()
	var e *fserr.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%s: got %v, want %v", what, err, codes)
	case !slices.Contains(codes, e.Code):
		t.Errorf("%s: got %v, want %v", what, err, codes)
	case e.Hint == "":
		t.Errorf("%s: %q tells no remedy", what, err)
	case strings.Contains(err.Error(), os.TempDir()+"/"):
		t.Errorf("%s: %q tells a place on the server", what, err)
	}
}

func wantFile(t testing.TB, f *client.FS, name, content string) {
	t.Helper()
	if data, err := f.ReadFile(name); err != nil || string(data) != content {
		t.Errorf("%s holds %.40q (%d bytes), %v, want %.40q", name, data, len(data), err, content)
	}
}

func wantNone(t testing.TB, f *client.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := f.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there (%v), half made", name, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what other goroutines, or the kernel, bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	clocktest.Await(t, what, ok)
}

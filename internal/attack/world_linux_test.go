package attack

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// foreign owns what lies outside, so that a chown to the server's own user shows.
const foreign = 4321

// config is what a world's contexts are made of.
type config struct {
	driver         string
	implementation string
	// transport is what the rows' calls go by: "unary", "session", "websocket" or "json".
	transport string
	// turn numbers the worlds that share the calls of a row. The numbers of two worlds with one implementation differ by two.
	turn int
	// zones is the mode of the attacker's zones, /d and /e; "" means no zones.
	zones zones.Mode
	// open, when set, opens contexts in place of rootfs.Open.
	open func(dir string, opts rootfs.Options) (rootfs.Root, error)
	// configure, when set, changes the server's configuration.
	configure func(c *server.Config)
	// prepare, when set, adds to the workspace before it is served.
	prepare func(w *world)
}

func (c config) String() string { return c.driver + "-" + c.implementation }

// configs are all drivers by all implementations. Each has a transport of its own. The
// walk, which stands for openat2 where a filter forbids it, is tried when there is time.
func configs(t *testing.T) []config {
	t.Helper()
	all := []config{{driver: "copy", implementation: "openat2", transport: "unary", turn: 0}, {driver: "copy", implementation: "osroot", transport: "session", turn: 2}}
	if attackTime() != quick {
		all = append(all, config{driver: "copy", implementation: "walk", transport: "json"})
	}
	if os.Geteuid() != 0 {
		t.Log("the overlay driver is left out: it needs root")
		return all
	}
	return append(all, config{driver: "overlay", implementation: "openat2", transport: "websocket", turn: 1}, config{driver: "overlay", implementation: "osroot", transport: "json", turn: 3})
}

// world is a server and what lies around its contexts.
type world struct {
	*testing.T
	cfg config
	// base holds everything, and is a path that only the server knows: the attacker calls it alias.
	base, alias string
	// dir is the attacker's context.
	dir    string
	secret string
	// needles are what must not appear anywhere, with what they are.
	needles map[string]string
	server  *servertest.Running
	log     *logBuffer
	cc      *grpc.ClientConn
	host    context.Context
	// attacker and victim are panels; the one's context's ID is a prefix of the other's.
	attacker, victim panel
	caller           caller
	// shared says that other worlds make the calls that this one leaves out.
	shared bool
	before snapshot
	// begun is what was held before the attacks, for comparison at the end.
	begun resources
	// site shows the attacker's context.
	site *ctxfsv1.OpenSiteResponse
	// web speaks HTTP. out is a descriptor that leads outside.
	web *http.Client
	out *os.File
	// leaks are what the checker found in the case at hand.
	mu    sync.Mutex
	leaks []string
}

// panel is one with its token in ctx.
type panel struct {
	token string
	ctx   context.Context
	dir   string
}

func newWorld(t *testing.T, cfg config) *world {
	t.Helper()
	w := &world{T: t, cfg: cfg, secret: "SECRET" + rand.Text(), log: &logBuffer{}}
	w.base, w.alias = aliased(t)
	w.workspace()
	w.plantSecrets(w.in("outside"))
	if cfg.prepare != nil {
		cfg.prepare(w)
	}
	w.start()
	w.attacker, w.victim = w.openPanel("a", w.layout()), w.openPanel("ab", nil)
	w.dir = w.attacker.dir
	if cfg.zones == zones.Direct {
		w.dir = w.in("ws", "x", "direct")
	}
	w.caller = w.newCaller(cfg.transport, w.attacker)
	w.web = &http.Client{Timeout: patience, Transport: &http.Transport{}}
	t.Cleanup(w.web.CloseIdleConnections)
	token, err := os.ReadFile(w.server.Info().Addresses.TokenFile)
	w.must(err)
	w.needles = map[string]string{
		w.secret: "outside content", w.base: "a server path",
		strings.TrimSpace(string(token)): "the host token", w.victim.token: "another panel's token",
	}
	w.site = w.openSite(w.attacker, &ctxfsv1.SiteOptions{Hidden: true, Listing: true})
	w.plantOutside()
	w.awaitLayer()
	w.before = w.snapshot()
	return w
}

// awaitLayer waits until the server has written the tree of the layer, which it does in the background, outside of all contexts.
func (w *world) awaitLayer() {
	w.Helper()
	for begun := time.Now(); ; <-time.After(5 * time.Millisecond) { // clock: the other process has no event to wait for
		var left []string
		for _, pattern := range []string{"layers/*/pack*", "staging/tree-*"} {
			found, err := filepath.Glob(w.in("ws", ".contexts", ".ctxfs", pattern))
			w.must(err)
			left = append(left, found...)
		}
		if len(left) == 0 {
			return
		}
		if time.Since(begun) > patience { // clock: it bounds a hang
			w.Fatalf("the layer's tree is not written after %v: %v", patience, left)
		}
	}
}

// workspace makes a repository.
func (w *world) workspace() {
	w.Helper()
	w.must(os.MkdirAll(w.in("ws", "src"), 0o755))
	w.must(os.WriteFile(w.in("ws", "README.md"), []byte("# A workspace\n"), 0o644))
	w.must(os.WriteFile(w.in("ws", "src", "main.go"), []byte("package main\n"), 0o644))
	servertest.Git(w.T, w.in("ws"), "init", "-q", "-b", "main")
}

// scratch is a file system in memory where there is one, unless there is time: the many
// small changes take most of the suite's time on a disk.
func scratch() string {
	const memory = "/dev/shm"
	if attackTime() != quick {
		return ""
	}
	probe, err := os.MkdirTemp(memory, "ctxfs-")
	if err != nil {
		return ""
	}
	_ = os.Remove(probe)
	return memory
}

// aliased makes a directory, and a second name for it that the attacker may say aloud.
func aliased(t *testing.T) (base, alias string) {
	t.Helper()
	base, err := os.MkdirTemp(scratch(), "ctxfs-base-")
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		t.Fatal(err)
	}
	alias = filepath.Join(filepath.Dir(base), "alias"+strings.TrimPrefix(filepath.Base(base), "ctxfs-base"))
	if err := os.Symlink(base, alias); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(alias)
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	return base, alias
}

func (w *world) in(names ...string) string {
	return filepath.Join(append([]string{w.base}, names...)...)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start serves the world's workspace.
func (w *world) start() {
	open := w.cfg.open
	if open == nil {
		open = func(dir string, opts rootfs.Options) (rootfs.Root, error) {
			opts.Implementation = w.cfg.implementation
			return rootfs.Open(dir, opts)
		}
	}
	w.server = servertest.Run(w.T, w.in("ws"), func(c *server.Config) {
		c.Driver, c.HTTP, c.Gateway, c.Listen = w.cfg.driver, "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1:0"}
		c.ContextsDir = w.in("ws", ".contexts")
		if w.cfg.configure != nil {
			w.cfg.configure(c)
		}
		c.Pool = 0 // which is filled whenever there is time, outside of all contexts
	}, server.Deps{Log: w.log.logger(), OpenRoot: open})
	w.cc = w.dial(w.server.Info().Addresses.Target())
	w.host = w.Context()
}

func (w *world) dial(target string) *grpc.ClientConn {
	w.Helper()
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	w.must(err)
	w.Cleanup(func() { _ = cc.Close() })
	return cc
}

// layout returns the attacker's zones. The directories of direct zones are as far from the top as the context's own would be.
func (w *world) layout() *ctxfsv1.ZoneLayout {
	w.Helper()
	l := &ctxfsv1.ZoneLayout{Mode: ctxfsv1.ZoneMode_ZONE_MODE_SANDBOXED, Zones: []*ctxfsv1.ZoneSpec{{Path: "/d"}, {Path: "/e"}}}
	switch w.cfg.zones {
	case "":
		return nil
	case zones.Direct:
		l.Mode = ctxfsv1.ZoneMode_ZONE_MODE_DIRECT
		for _, z := range l.Zones {
			z.Dir = "x/direct" + z.Path
			w.must(os.MkdirAll(w.in("ws", z.Dir), 0o755))
		}
	}
	return l
}

func (w *world) openPanel(name string, layout *ctxfsv1.ZoneLayout) panel {
	w.Helper()
	resp, err := ctxfsv1.NewPanelServiceClient(w.cc).OpenPanel(w.host, &ctxfsv1.OpenPanelRequest{PanelId: name, Zones: layout})
	w.must(err)
	return panel{token: resp.GetToken(), ctx: w.with("authorization", "Bearer "+resp.GetToken()), dir: w.in("ws", ".contexts", resp.GetContextId())}
}

func (w *world) with(pairs ...string) context.Context {
	return metadata.NewOutgoingContext(w.Context(), metadata.Pairs(pairs...))
}

// plantOutside puts secrets at every place around the attacker's context.
func (w *world) plantOutside() {
	w.Helper()
	for _, dir := range []string{
		w.in("outside"), w.in("ws"), w.in("ws", ".git"), w.in("ws", ".contexts"), w.in("ws", ".contexts", ".ctxfs"),
		w.victim.dir, w.in("ws", "in"), w.in("ws", ".contexts", "in"), w.in("outside", "in"),
	} {
		w.plantSecrets(dir)
	}
	w.must(os.MkdirAll(w.away(), 0o755))
}

// away is the directory outside to which a mover moves a part of the context.
func (w *world) away() string { return w.in("outside", "away") }

// plantSecrets makes of dir what an attack could hope for: what it names, and what it
// can only learn of by listing. All of it is as it was before, whatever an attack made of it.
func (w *world) plantSecrets(dir string) {
	w.Helper()
	sub := filepath.Join(dir, "sub")
	w.must(os.RemoveAll(sub))
	w.must(os.MkdirAll(sub, 0o755))
	for _, name := range []string{"target", "name-" + w.secret, "sub/target"} {
		path := filepath.Join(dir, name)
		w.must(os.RemoveAll(path))
		w.must(os.WriteFile(path, []byte("content "+w.secret+"\n"), 0o600))
		w.must(os.Lchown(path, foreign, foreign))
	}
}

// logBuffer keeps what is logged, at all levels.
type logBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (l *logBuffer) logger() *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(l), zapcore.DebugLevel))
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	return len(p), nil
}

// take returns the lines since it was asked last.
func (l *logBuffer) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.SplitAfter(string(l.buf), "\n")
	l.buf = l.buf[:0]
	return lines
}

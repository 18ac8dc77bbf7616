package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestDriverChoiceSaysWhy(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]DriverChoice{
		"copy":                             {Name: DriverCopy},
		"overlay":                          {Name: DriverOverlay},
		"copy (overlay: no CAP_SYS_ADMIN)": {Name: DriverCopy, Refused: "no CAP_SYS_ADMIN"},
		"overlay-userns (only this server sees the files)": {Name: DriverUserNS, Caveat: seenByServer},
		"overlay (in a container, unseen)":                 {Name: DriverOverlay, Caveat: "in a container, unseen"},
		"copy (overlay: mount EPERM (twice))":              {Name: DriverCopy, Refused: "mount EPERM (twice)"},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestChooseDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refused, hidden := OverlayRefusal(t.Context(), dir), overlay.Hidden()
	auto, err := ChooseDriver(t.Context(), DriverAuto, dir)
	if err != nil || (auto.Name == DriverOverlay) != (refused == "" && hidden == "") || (auto.Name == DriverCopy && auto.Refused == "") {
		t.Errorf("auto gives %+v, %v, though overlay is refused by %q and hidden by %q", auto, err, refused, hidden)
	}
	if c, err := ChooseDriver(t.Context(), DriverCopy, dir); err != nil || c != (DriverChoice{Name: DriverCopy}) {
		t.Errorf("copy gives %+v, %v", c, err)
	}
	if _, err := ChooseDriver(t.Context(), DriverUserNS, dir); err == nil || !strings.Contains(err.Error(), "use --driver copy") {
		t.Errorf("overlay-userns outside of namespaces: %v", err)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := ChooseDriver(t.Context(), DriverOverlay, missing); err == nil || !strings.Contains(err.Error(), "use --driver auto") {
		t.Errorf("overlay where it cannot work: %v", err)
	}
	if c, err := ChooseDriver(t.Context(), DriverAuto, missing); err != nil || c.Name != DriverCopy || c.Refused == "" {
		t.Errorf("auto where overlay cannot work: %+v, %v", c, err)
	}
}

// mounting is the overlay driver of root, or in namespaces that of any user.
func mounting() *overlay.Driver {
	if namespacestest.Inside() {
		return overlay.NewUserNS(overlay.Options{})
	}
	return overlay.New(overlay.Options{})
}

// overlaid is the settings of a server with the overlay driver; the test is skipped, and says why, where it cannot work.
func overlaid(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	namespacestest.Mounting(t)
	cfg.Driver = mounting().Name()
	if err := mounting().Check(t.Context(), cfg.Workspace); err != nil {
		t.Skipf("not tested here: %v", err)
	}
	return cfg
}

func mounts(t *testing.T, cfg Config) []string {
	t.Helper()
	names, err := mounting().Mounts(filepath.Join(cfg.Workspace, ".contexts"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestOverlayOverTheWire goes through the life of a context as a panel and its host see it.
func TestOverlayOverTheWire(t *testing.T) {
	t.Parallel()
	cfg := overlaid(t)
	write(t, filepath.Join(cfg.Workspace, "app", "a.txt"), "layer")
	cfg.SeedRoot = "."
	core, log := observer.New(zap.WarnLevel)
	r := startLogging(t, cfg, zap.New(core), func(*Server) {})
	if !strings.HasPrefix(r.Info().Driver, mounting().Name()) {
		t.Errorf("the server's driver is %q", r.Info().Driver)
	}
	panel := r.openPanel(t, "panels/a")
	id := panel.GetContextId()
	ctx := with(t, "authorization", bearerOf(panel.GetToken()))
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	opened, err := fs.Open(ctx, &ctxfsv1.OpenRequest{Path: "/app/a.txt", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Write(ctx, &ctxfsv1.WriteRequest{Fd: opened.GetFd(), Content: &ctxfsv1.WriteRequest_Text{Text: "panel"}}); err != nil {
		t.Fatal(err)
	}
	host := ctxfsv1.NewContextServiceClient(r.host(t))
	info, err := host.GetInfo(t.Context(), &ctxfsv1.GetInfoRequest{ContextId: id})
	if err != nil || info.GetDriver() != r.Info().Driver {
		t.Errorf("GetInfo says %v, %v", info, err)
	}
	if data, err := os.ReadFile(filepath.Join(info.GetFolder(), "app", "a.txt")); err != nil || string(data) != "panel" {
		t.Errorf("another program reads %q, %v", data, err)
	}
	if _, err := host.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: id, DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	if left := mounts(t, cfg); len(left) != 0 || log.FilterMessageSnippet("in use").Len() != 0 {
		t.Errorf("deleting left %v mounted; the log says %v", left, log.All())
	}
	_, err = fs.Fstat(with(t), &ctxfsv1.FstatRequest{Fd: opened.GetFd()})
	wantError(t, err, codes.FailedPrecondition, "EBADF", "")
}

func TestStopWithHandlesOpenLeavesNoMount(t *testing.T) {
	t.Parallel()
	cfg := overlaid(t)
	r := start(t, cfg)
	panel := r.openPanel(t, "panels/a")
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	_, err := fs.Open(with(t, "authorization", bearerOf(panel.GetToken())), &ctxfsv1.OpenRequest{
		Path: "/new", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := mounts(t, cfg); len(got) != 1 {
		t.Errorf("%v are mounted, want one", got)
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	if left := mounts(t, cfg); len(left) != 0 {
		t.Errorf("the stop left %v mounted", left)
	}
}

// TestDefaultChanges serves what the other driver made.
func TestDefaultChanges(t *testing.T) {
	t.Parallel()
	cfg := overlaid(t)
	for _, step := range []struct{ driver, panel string }{{mounting().Name(), "one"}, {DriverCopy, "two"}, {mounting().Name(), "three"}} {
		cfg.Driver = step.driver
		r := start(t, cfg)
		r.openPanel(t, step.panel)
		host := ctxfsv1.NewContextServiceClient(r.host(t))
		list, err := host.ListContexts(context.Background(), &ctxfsv1.ListContextsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"ctx_one": mounting().Name(), "ctx_two": DriverCopy, "ctx_three": mounting().Name()}
		for _, c := range list.GetContexts() {
			if c.GetDriver() != want[c.GetContextId()] {
				t.Errorf("%s was made by %q", c.GetContextId(), c.GetDriver())
			}
			if _, err := ctxfsv1.NewFsServiceClient(r.host(t)).Mkdir(t.Context(), &ctxfsv1.MkdirRequest{
				ContextId: c.GetContextId(), Path: "/by-" + step.panel,
			}); err != nil {
				t.Errorf("with %s: %v", step.driver, err)
			}
		}
		r.stop()
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := contexts.NewLayout(cfg.Workspace, "")
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(l.DriverState(mounting().Name(), "")); err != nil || len(names) != 2 {
		t.Errorf("the overlay driver keeps %v, %v; want two contexts", names, err)
	}
}

package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestPanelWorksInDirectZones(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	write(t, filepath.Join(cfg.Workspace, "reports/old.md"), "old needle")
	write(t, filepath.Join(cfg.Workspace, "reports/.git/config"), "needle")
	write(t, filepath.Join(cfg.Workspace, "downloads/page"), "needle")
	r := start(t, cfg)
	panelService, zones := ctxfsv1.NewPanelServiceClient(r.host(t)), ctxfsv1.NewZoneServiceClient(r.host(t))
	layout := &ctxfsv1.ZoneLayout{Mode: ctxfsv1.ZoneMode_ZONE_MODE_DIRECT, Zones: []*ctxfsv1.ZoneSpec{
		{Path: "/workspace", Dir: "reports"}, {Path: "/cache", Dir: "downloads", NeverCommit: true},
	}}
	explained, err := zones.ExplainZones(t.Context(), &ctxfsv1.ExplainZonesRequest{Layout: layout})
	if err != nil || len(explained.GetZones()) != 2 || len(explained.GetNotes()) == 0 {
		t.Fatalf("%v, %v", explained, err)
	}
	opened, err := panelService.OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "agent", Zones: layout})
	if err != nil {
		t.Fatal(err)
	}
	if opened.GetZoneMode() != ctxfsv1.ZoneMode_ZONE_MODE_DIRECT {
		t.Errorf("OpenPanel reports the zones as %v", opened.GetZoneMode())
	}
	panel := with(t, "authorization", bearerOf(opened.GetToken()))
	fs := ctxfsv1.NewFsServiceClient(r.host(t))
	if _, err := fs.WriteFile(panel, &ctxfsv1.WriteFileRequest{Path: "/workspace/new.md", Content: &ctxfsv1.WriteFileRequest_Text{Text: "new"}}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(cfg.Workspace, "reports/new.md")); err != nil || string(data) != "new" {
		t.Errorf("the workspace has %q, %v", data, err)
	}
	list, err := fs.Readdir(panel, &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true})
	var names []string
	for _, e := range list.GetEntries() {
		names = append(names, filepath.Join(e.GetParentPath(), e.GetName()))
	}
	slices.Sort(names)
	if want := []string{"/cache", "/cache/page", "/workspace", "/workspace/new.md", "/workspace/old.md"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("readdir has %q, %v, want %q", names, err, want)
	}
	_, err = fs.WriteFile(panel, &ctxfsv1.WriteFileRequest{Path: "/workspace/.git/hooks/x"})
	wantError(t, err, codes.PermissionDenied, "EACCES", ".git")
	_, err = fs.WriteFile(panel, &ctxfsv1.WriteFileRequest{Path: "/beside"})
	wantError(t, err, codes.PermissionDenied, "EACCES", "/workspace")
	_, err = fs.Rename(panel, &ctxfsv1.RenameRequest{Path: "/workspace/new.md", Dest: "/cache/new.md"})
	wantError(t, err, codes.FailedPrecondition, "EXDEV", "two zones")
	if _, err := fs.Cp(panel, &ctxfsv1.CpRequest{Path: "/workspace", Dest: "/cache/copy", Recursive: true}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(cfg.Workspace, "downloads/copy/.git")); err == nil {
		t.Error("cp copied .git")
	}
	seen, err := ctxfsv1.NewZoneServiceClient(r.host(t)).ListZones(panel, &ctxfsv1.ListZonesRequest{Measure: true})
	if err != nil || len(seen.GetZones()) != 2 || seen.GetZones()[1].GetDir() != "" || seen.GetZones()[1].GetBytes() != int64(len("old needle")+len("new")) {
		t.Errorf("a panel sees %v, %v", seen, err)
	}
	at, err := zones.ResolvePath(t.Context(), &ctxfsv1.ResolvePathRequest{ContextId: opened.GetContextId(), Path: "/workspace/new.md"})
	if want := filepath.Join(cfg.Workspace, "reports/new.md"); err != nil || at.GetDir() != want {
		t.Errorf("it is at %q, %v, want %q", at.GetDir(), err, want)
	}
	_, err = zones.ClearZone(panel, &ctxfsv1.ClearZoneRequest{Zone: "/cache"})
	wantError(t, err, codes.PermissionDenied, "EACCES", "only a host")
	if _, err := os.Lstat(filepath.Join(cfg.Workspace, "downloads/page")); err != nil {
		t.Error("a panel emptied a real directory")
	}
	cleared, err := zones.ClearZone(t.Context(), &ctxfsv1.ClearZoneRequest{ContextId: opened.GetContextId(), Zone: "/cache"})
	if err != nil || cleared.GetRemoved() != 4 {
		t.Errorf("cleared %v, %v", cleared, err)
	}
	_, err = ctxfsv1.NewContextServiceClient(r.host(t)).Fork(t.Context(), &ctxfsv1.ForkRequest{ContextId: opened.GetContextId(), NewContextId: "ctx_copy"})
	wantError(t, err, codes.Unimplemented, "EOPNOTSUPP", "direct zones")
	_, err = panelService.OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "other", Zones: &ctxfsv1.ZoneLayout{Mode: ctxfsv1.ZoneMode_ZONE_MODE_DIRECT, Zones: []*ctxfsv1.ZoneSpec{{Path: "/etc", Dir: "/etc"}}}})
	wantError(t, err, codes.PermissionDenied, "EACCES", "--zone-dir")
}

// TestClonedRepositoryGivesNoDirectZones opens a panel of a workspace whose files ask for direct zones.
func TestClonedRepositoryGivesNoDirectZones(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	write(t, filepath.Join(cfg.Workspace, "panels/editor/context-zones.yml"), "mode: direct\nzones:\n  /workspace: {dir: .}\n")
	r := start(t, cfg)
	_, err := ctxfsv1.NewPanelServiceClient(r.host(t)).OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"})
	wantError(t, err, codes.PermissionDenied, "EACCES", "--trust-zone-files")
	stream, err := ctxfsv1.NewContextServiceClient(r.host(t)).EnsureContext(t.Context(), &ctxfsv1.EnsureContextRequest{PanelId: "panels/editor"})
	for err == nil { // messages of progress come first
		_, err = stream.Recv()
	}
	wantError(t, err, codes.PermissionDenied, "EACCES", "--trust-zone-files")
	explained, err := ctxfsv1.NewZoneServiceClient(r.host(t)).ExplainZones(t.Context(), &ctxfsv1.ExplainZonesRequest{Folder: "panels/editor"})
	if err != nil || !slices.ContainsFunc(explained.GetNotes(), func(note string) bool { return strings.Contains(note, "--trust-zone-files") }) {
		t.Errorf("ExplainZones does not say that the file is not used: %v, %v", explained, err)
	}
	r.stop()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}

	cfg.TrustZoneFiles = true
	opened, err := ctxfsv1.NewPanelServiceClient(start(t, cfg).host(t)).OpenPanel(t.Context(), &ctxfsv1.OpenPanelRequest{PanelId: "panels/editor"})
	if err != nil || opened.GetZoneMode() != ctxfsv1.ZoneMode_ZONE_MODE_DIRECT {
		t.Errorf("OpenPanel of a server that trusts the file: %v, %v", opened.GetZoneMode(), err)
	}
}

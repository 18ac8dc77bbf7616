package client_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	c, err := client.Dial(t.Context(), client.WithAddress(servertest.Start(t, servertest.Workspace(t), nil)), client.WithPanel("panels/batch"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := c.FS()
	done, err := f.Batch([]client.BatchStep{
		client.StepMkdir("d", 0o755, false), client.StepWrite("d/a", []byte("one\n"), 0o600), client.StepEdit("d/a", client.Edit{Old: "one", New: "two"}),
		client.StepCopy("d/a", "d/b", 0), client.StepSymlink("d/b", "l"), client.StepChmod("d/b", 0o640), client.StepRename("d/b", "b"),
		client.StepRm("README.md", client.RmOptions{}),
	}, client.BatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := f.ReadFile("b"); err != nil || string(text) != "two\n" {
		t.Errorf("b holds %q, %v", text, err)
	}
	_, err = f.Batch([]client.BatchStep{client.StepWrite("b", nil, 0o644), client.StepRename("missing", "x")}, client.BatchOptions{})
	if e, ok := errors.AsType[*fserr.Error](err); !ok || e.Step != 2 || e.Path != "/missing" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	stale := client.StepWrite("d/a", nil, 0o644).If(client.Conditions{IfMatch: "stale"})
	_, err = f.Batch([]client.BatchStep{client.StepRm("b", client.RmOptions{}), stale}, client.BatchOptions{})
	if etag, is := client.StaleETag(err); !is || etag != done.ETags[2] {
		t.Errorf("got %v with etag %q, want %q", err, etag, done.ETags[2])
	}
	dry, err := f.Batch([]client.BatchStep{client.StepRm("b", client.RmOptions{})}, client.BatchOptions{DryRun: true})
	if want := "diff --git a/b b/b\ndeleted file mode 100640\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"; err != nil || dry.Diff != want {
		t.Errorf("got %v, %q", err, dry.Diff)
	}
	if _, err := f.Stat("b"); err != nil {
		t.Error(err)
	}
}

func TestBatchRefusesConditionsThatDoNotApply(t *testing.T) {
	t.Parallel()
	f := panel(t)
	for name, step := range map[string]client.BatchStep{
		"StepMkdir takes no IfMatch":           client.StepMkdir("d", 0o755, false).If(client.Conditions{IfMatch: "e"}),
		"StepSymlink takes no IfMatch":         client.StepSymlink("x", "l").If(client.Conditions{IfMatch: "e"}),
		"StepEdit takes no IfNoneMatch":        client.StepEdit("README.md").If(client.Conditions{IfNoneMatch: true}),
		"StepRm takes no IfNoneMatch":          client.StepRm("README.md", client.RmOptions{}).If(client.Conditions{IfNoneMatch: true}),
		"StepChmod takes no IfNoneMatch":       client.StepChmod("README.md", 0o600).If(client.Conditions{IfNoneMatch: true}),
		"StepRename takes no IfNoneMatch":      client.StepRename("README.md", "x").If(client.Conditions{IfNoneMatch: true}),
		"StepCopy takes no IfNoneMatch":        client.StepCopy("README.md", "x", 0).If(client.Conditions{IfNoneMatch: true}),
		"StepWrite takes no DestIfMatch":       client.StepWrite("w", nil, 0o644).If(client.Conditions{DestIfMatch: "e"}),
		"StepMkdir takes no DestIfNoneMatch":   client.StepMkdir("d", 0o755, false).If(client.Conditions{DestIfNoneMatch: true}),
		"StepSymlink takes no DestIfNoneMatch": client.StepSymlink("x", "l").If(client.Conditions{DestIfNoneMatch: true}),
	} {
		_, err := f.Batch([]client.BatchStep{client.StepMkdir("first", 0o755, false), step}, client.BatchOptions{})
		if e, ok := errors.AsType[*fserr.Error](err); !ok || e.Code != fserr.EINVAL || e.Step != 2 || e.Detail != name {
			t.Errorf("got %v, want EINVAL of the second step: %s", err, name)
		}
	}
	if _, err := f.Stat("first"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first step was carried out: %v", err)
	}
}

// gated is the reader of an export: it takes nothing after its first bytes until it is open.
type gated struct{ arrived, open chan struct{} }

func (g gated) Write(b []byte) (int, error) {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	<-g.open
	return len(b), nil
}

// TestBatchDoesNotWaitForAnUnreadExport has a client that does not read what the server sends it.
func TestBatchDoesNotWaitForAnUnreadExport(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.WriteFile("large", make([]byte, 16<<20), 0o644)) // more than a connection takes
	g := gated{arrived: make(chan struct{}, 1), open: make(chan struct{})}
	exported := make(chan error, 1)
	go func() {
		_, err := f.Export(g, "/", client.ExportOptions{})
		exported <- err
	}()
	<-g.arrived
	_, err := f.Batch([]client.BatchStep{client.StepWrite("b", nil, 0o644)}, client.BatchOptions{})
	if err != nil {
		t.Error(err)
	}
	close(g.open)
	if err := <-exported; err != nil {
		t.Error(err)
	}
}

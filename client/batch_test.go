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
	if want := "diff --git a/b b/b\ndeleted file mode 100640\n--- a/b\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-two\n"; err != nil || dry.Diff != want {
		t.Errorf("got %v, %q", err, dry.Diff)
	}
	if _, err := f.Stat("b"); err != nil {
		t.Error(err)
	}
}

package client_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/clocktest"
	"github.com/ctxfs/ctxfs/internal/servertest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial connects to a server of the test's own.
func dial(t testing.TB) *client.Client {
	t.Helper()
	return dialAt(t, servertest.Start(t, servertest.Workspace(t), nil))
}

// dialAt makes a further connection to a server.
func dialAt(t testing.TB, address string, opts ...client.Option) *client.Client {
	t.Helper()
	opts = append(opts, client.WithAddress(address), client.WithGetenv(func(string) string { return "" }))
	c, err := client.Dial(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// panel opens a panel of the test's own server.
func panel(t testing.TB) *client.FS {
	t.Helper()
	p, err := dial(t).OpenPanel(t.Context(), "panels/test")
	if err != nil {
		t.Fatal(err)
	}
	return p.FS()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestIsAnFS(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.MkdirAll("deep/er", 0o755))
	must(t, f.WriteFile("deep/er/file.txt", []byte("content"), 0o640))
	must(t, f.WriteFile("empty", nil, 0o600))
	must(t, f.Symlink("er/file.txt", "deep/link"))
	if err := fstest.TestFS(f, "README.md", "src/main.go", "deep/er/file.txt", "deep/link", "empty"); err != nil {
		t.Error(err)
	}
	sub, err := fs.Sub(f, "deep")
	must(t, err)
	if err := fstest.TestFS(sub, "er/file.txt", "link"); err != nil {
		t.Errorf("in a Sub: %v", err)
	}
}

func TestFileReadsAsReadersMust(t *testing.T) {
	t.Parallel()
	f := panel(t)
	want := []byte(strings.Repeat("0123456789", 500))
	must(t, f.WriteFile("r", want, 0o644))
	file, err := f.OpenFile("r", os.O_RDONLY, 0)
	must(t, err)
	if err := iotest.TestReader(file, want); err != nil {
		t.Error(err)
	}
	must(t, file.Close())
	if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a second Close: %v, want fs.ErrClosed", err)
	}
	if _, err := file.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Read after Close: %v, want fs.ErrClosed", err)
	}
}

func TestFileWrites(t *testing.T) {
	t.Parallel()
	f := panel(t)
	file, err := f.Create("w")
	must(t, err)
	for _, step := range []func() error{
		func() error { _, err := file.WriteString("hello world"); return err },
		func() error { _, err := file.WriteAt([]byte("W"), 6); return err },
		func() error { _, err := file.Seek(-5, io.SeekEnd); return err },
		func() error { _, err := io.Copy(file, strings.NewReader("There, you")); return err },
		func() error { _, err := file.Write([]byte("!")); return err },
		func() error { return file.Sync() },
		func() error { return file.Chmod(0o600) },
		func() error { return file.Chtimes(time.Unix(1, 5), time.Unix(2, 7)) },
	} {
		must(t, step())
	}
	info, err := file.Stat()
	must(t, err)
	if info.Mode() != 0o600 || !info.ModTime().Equal(time.Unix(2, 7)) {
		t.Errorf("mode %v, mtime %v", info.Mode(), info.ModTime())
	}
	if _, ok := info.Sys().(*ctxfsv1.Stat); !ok {
		t.Errorf("Sys is %T", info.Sys())
	}
	var all bytes.Buffer
	_, err = file.Seek(0, io.SeekStart)
	must(t, err)
	_, err = io.Copy(&all, file)
	must(t, err)
	must(t, file.Close())
	if got, want := all.String(), "hello There, you!"; got != want {
		t.Errorf("holds %q, want %q", got, want)
	}
}

func TestAppendMovesTheOffsetToTheEnd(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.WriteFile("a", []byte("one "), 0o644))
	file, err := f.OpenFile("a", os.O_RDWR|os.O_APPEND, 0)
	must(t, err)
	_, err = file.Write([]byte("two"))
	must(t, err)
	must(t, f.AppendFile("a", []byte(" three"), 0)) // somebody else's, which moves nothing of ours
	at, err := file.Seek(0, io.SeekCurrent)
	must(t, err)
	if at != 7 {
		t.Errorf("the offset is %d after an append, want 7", at)
	}
	if _, err := file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("WriteAt on a file opened with O_APPEND was allowed")
	}
	must(t, file.Close())
	got, err := f.ReadFile("a")
	must(t, err)
	if string(got) != "one two three" {
		t.Errorf("holds %q", got)
	}
}

func TestLargeFilesSwitchToStreams(t *testing.T) {
	t.Parallel()
	f := panel(t)
	want := make([]byte, 17<<20+13)
	_, err := rand.Read(want)
	must(t, err)
	must(t, f.WriteFile("large", want, 0o644))
	got, err := f.ReadFile("large")
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, not the %d that were written", len(got), len(want))
	}
	r, err := f.ReadStream("large", client.ReadOptions{Offset: 1 << 20, Length: 1000})
	must(t, err)
	part, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	if !bytes.Equal(part, want[1<<20:1<<20+1000]) {
		t.Errorf("a range of 1000 bytes came back as %d others", len(part))
	}
}

func TestNamesOfAnyBytes(t *testing.T) {
	t.Parallel()
	f := panel(t)
	const name, target = "b\xffd\nname", "t\xfe"
	must(t, f.WriteFile(name, []byte("x"), 0o644))
	must(t, f.Symlink(target, "l\xff"))
	got, err := f.ReadLink("l\xff")
	must(t, err)
	if got != target {
		t.Errorf("the target came back as %q", got)
	}
	entries, err := f.ReadDir(".")
	must(t, err)
	var found bool
	for _, e := range entries {
		found = found || e.Name() == name
	}
	if !found {
		t.Errorf("%q is not listed", name)
	}
	must(t, f.Rename(name, "p\xfe"))
	if _, err = f.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name: %v, want fs.ErrNotExist", err)
	}
	must(t, f.Remove("p\xfe"))
}

func TestErrorsKeepTheirErrno(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.Symlink("../../../etc/passwd", "escape"))
	cases := []struct {
		name string
		do   func() error
		code fserr.Code
		is   error
	}{
		{"missing", func() error { _, err := f.Open("nope"); return err }, fserr.ENOENT, fs.ErrNotExist},
		{"exists", func() error { return f.Mkdir("src", 0o755) }, fserr.EEXIST, fs.ErrExist},
		{"not empty", func() error { return f.Remove("src") }, fserr.ENOTEMPTY, fserr.ENOTEMPTY},
		{"a directory", func() error { return f.WriteFile("src", nil, 0o644) }, fserr.EISDIR, fserr.EISDIR},
		{"escaping link", func() error { _, err := f.ReadFile("escape"); return err }, fserr.EACCES, fs.ErrPermission},
		{"beyond the root", func() error { _, err := f.Stat("../x"); return err }, fserr.EACCES, fs.ErrPermission},
		{"rename", func() error { return f.Rename("nope", "x") }, fserr.ENOENT, fs.ErrNotExist},
		{"foreign handle", func() error { _, err := f.FileOf(9999, "x").Stat(); return err }, fserr.EBADF, fs.ErrClosed},
		{"a name of io/fs", func() error { _, err := f.Open("/src"); return err }, fserr.EINVAL, fs.ErrInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.do()
			var pathErr *fs.PathError
			var linkErr *os.LinkError
			if !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
				t.Errorf("%T is neither *fs.PathError nor *os.LinkError", err)
			}
			if !errors.Is(err, c.is) || !errors.Is(err, c.code) || fserr.CodeOf(err) != c.code {
				t.Errorf("%v, want %v", err, c.code)
			}
		})
	}
	_, err := f.Open("nope")
	if got, want := err.Error(), "open nope: ENOENT: no such file or directory"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestCancelledCallSaysSo(t *testing.T) {
	t.Parallel()
	f := panel(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := f.With(ctx).WriteFile("x", nil, 0o644)
	var transport *client.TransportError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &transport) || !strings.Contains(err.Error(), "may have happened") {
		t.Errorf("%v", err)
	}
}

func TestWatchReports(t *testing.T) {
	t.Parallel()
	f := panel(t)
	w, err := f.Watch(".", true)
	must(t, err)
	must(t, f.WriteFile("src/new", []byte("x"), 0o644))
	for ev, err := range w.All() {
		must(t, err)
		if ev.Name == "src/new" {
			break
		}
	}
	must(t, w.Close())
	for range w.Events() { // closed: ends
		continue
	}
	if err := w.Err(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	f := panel(t)
	names, err := f.Glob("**/*.go")
	must(t, err)
	if len(names) != 1 || names[0] != "src/main.go" {
		t.Errorf("glob: %q", names)
	}
	var at []string
	sum, err := f.Grep(client.GrepOptions{Pattern: "^package"}, func(g client.GrepFile) error { at = append(at, g.Path); return nil })
	must(t, err)
	if sum.GetMatches() != 1 || len(at) != 1 || at[0] != "/src/main.go" {
		t.Errorf("grep: %q, %v", at, sum)
	}
}

func TestPanelsAreApart(t *testing.T) {
	t.Parallel()
	c := dial(t)
	var a *client.Panel
	if !clocktest.IsFromNow(time.Hour, func() (expires time.Time) {
		var err error
		a, err = c.OpenPanel(t.Context(), "panels/a", client.TokenLife(time.Hour))
		must(t, err)
		_, expires = a.Token()
		return expires
	}) {
		t.Error("a's token does not live an hour")
	}
	b, err := c.OpenPanel(t.Context(), "panels/b")
	must(t, err)
	must(t, a.FS().WriteFile("mine", []byte("a"), 0o644))
	if _, err := b.FS().Stat("mine"); !errors.Is(err, fserr.ENOENT) {
		t.Errorf("b sees a's file: %v", err)
	}
	if _, err := b.Context(a.ContextID()).Stat("mine"); !errors.Is(err, fserr.EACCES) {
		t.Errorf("b in a's folder: %v, want EACCES", err)
	}
	_, err = c.ClosePanel(t.Context(), "panels/a")
	must(t, err)
	if _, err := a.FS().Stat("mine"); !errors.Is(err, fserr.EACCES) {
		t.Errorf("a after ClosePanel: %v, want EACCES", err)
	}
	must(t, a.Close())
	panels, err := c.ListPanels(t.Context())
	must(t, err)
	if len(panels) != 2 {
		t.Errorf("%d panels", len(panels))
	}
}

func TestContextsAdmin(t *testing.T) {
	t.Parallel()
	c, ctx := dial(t), t.Context()
	ready, err := c.EnsureContext(ctx, "ctx_x", nil)
	must(t, err)
	if !ready.GetSeeded() || ready.GetContext().GetFiles() != 2 {
		t.Errorf("ready: %v", ready)
	}
	info, err := c.Info(ctx, "ctx_x")
	must(t, err)
	if got := filepath.Base(info.GetFolder()); got != "ctx_x" {
		t.Errorf("folder %q", got)
	}
	plan, err := c.PlanSeed(ctx, 3)
	must(t, err)
	if plan.GetFiles() != 2 {
		t.Errorf("plan: %v", plan)
	}
	_, err = c.DeleteContext(ctx, "ctx_x", client.KeepChanges)
	must(t, err)
	x, err := c.GetContext(ctx, "ctx_x")
	must(t, err)
	if x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_MISSING {
		t.Errorf("after delete: %v", x)
	}
	if _, err := c.Context("ctx_x").Stat("/"); !errors.Is(err, fserr.ESTALE) {
		t.Errorf("a deleted context: %v, want ESTALE", err)
	}
	must(t, c.Health(ctx))
}

// TestWritesOverTheServersLimit writes what a server refuses with words, and what its transport refuses without.
func TestWritesOverTheServersLimit(t *testing.T) {
	t.Parallel()
	address := servertest.Start(t, servertest.Workspace(t), func(c *server.Config) { c.MaxRequest = 1 << 20 })
	f := dialFS(t, client.WithAddress(address), client.WithPanel("panels/limit"))
	for _, size := range []int{9 << 17, 8 << 20} {
		data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		must(t, f.WriteFile("/written", data, 0o644))
		must(t, f.WriteFileAtomic("/atomic", data, 0o644))
		must(t, f.WriteFile("/appended", data[:10], 0o644))
		must(t, f.AppendFile("/appended", data[10:], 0o644))
		for _, name := range []string{"written", "atomic", "appended"} {
			if got, err := f.ReadFile(name); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s of %d bytes holds %d: %v", name, size, len(got), err)
			}
		}
	}
}

package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/server"
)

// much is more than a full disk takes, and less than an empty one has, in bytes.
const much = 512 << 10

// TestAFullDisk has each kind of change meet a disk without a free block, and then one with room again.
func TestAFullDisk(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) { fullDisk(t, d, begin(t, d.use)) })
	t.Run("ext4, overlay", func(t *testing.T) {
		d := ext4(t)
		needsOverlay(t, d)
		fullDisk(t, d, begin(t, func(c *server.Config) {
			d.use(c)
			c.Driver = server.DriverOverlay
		}))
	})
}

// fullDisk fills d, on which p keeps its contexts.
func fullDisk(t *testing.T, d *disk, p *play) {
	t.Helper()
	f := p.panel("panels/writer")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	big := bytes.Repeat([]byte("0123456789abcdef"), much/16)
	must(t, f.WriteFile("big", big, 0o644))
	must(t, f.MkdirAll("tree/sub", 0o755))
	must(t, f.WriteFile("tree/sub/big", big, 0o644))
	_, err := p.host.Snapshot(t.Context(), "ctx_panels~writer", "before")
	must(t, err)
	d.fill()
	for _, c := range fullCases(t, p, f, big) {
		t.Run(c.name, func(t *testing.T) {
			wantCode(t, c.name, c.do(), fserr.ENOSPC)
			wantFile(t, f, "kept", kept)
			wantNone(t, f, c.none...)
			p.othersGoOn()
			p.clean()
		})
	}
	wantFile(t, f, "big", string(big))
	t.Run("delete", func(t *testing.T) {
		_, err := p.host.DeleteContext(t.Context(), "ctx_panels~bystander", client.DiscardChanges)
		must(t, err)
	})
	d.free()
	p.bystander = p.panel("panels/bystander")
	must(t, p.bystander.WriteFile("kept", []byte(kept), 0o644))
	for _, c := range fullCases(t, p, f, big) {
		must(t, c.do())
	}
	p.othersGoOn()
	p.clean()
}

type fullCase struct {
	name string
	do   func() error
	// none must not be there when do fails.
	none []string
}

func fullCases(t *testing.T, p *play, f *client.FS, big []byte) []fullCase {
	ctx := t.Context()
	return []fullCase{
		{"a new file", func() error { return f.WriteFile("new", big, 0o644) }, []string{"new"}},
		{"overwrite with more, atomically", func() error { return f.WriteFileAtomic("kept2", big, 0o644) }, []string{"kept2"}},
		{"replace, atomically", func() error {
			err := f.WriteFileAtomic("kept", big, 0o644)
			if err == nil {
				err = f.WriteFileAtomic("kept", []byte(kept), 0o644)
			}
			return err
		}, nil},
		{"append", func() error { return f.AppendFile("appended", big, 0o644) }, nil},
		{"stream", func() error { return stream(f, "streamed", big) }, []string{"streamed"}},
		{"cp -r", func() error {
			_, err := f.Cp("tree", "copy", client.CopyOptions{Recursive: true})
			return err
		}, nil},
		{"copyFile", func() error {
			_, err := f.CopyFile("big", "copied", 0)
			return err
		}, []string{"copied"}},
		{"a batch", func() error {
			_, err := f.Batch([]client.BatchStep{
				client.StepMkdir("batched", 0o755, true), client.StepRename("kept", "batched/kept"), client.StepWrite("batched/new", big, 0o644),
				client.StepRename("batched/kept", "kept"),
			}, client.BatchOptions{})
			return err
		}, []string{"batched"}},
		{"write at a position", func() error { return writeAt(f, "kept.at", big) }, nil},
		{"fork", func() error {
			_, err := p.host.Fork(ctx, "ctx_panels~writer", "ctx_fork")
			return err
		}, nil},
		{"snapshot", func() error {
			_, err := p.host.Snapshot(ctx, "ctx_panels~writer", "then")
			return err
		}, nil},
		{"restore", func() error {
			_, err := p.host.Restore(ctx, "ctx_panels~writer", "before", client.DiscardChanges)
			return err
		}, nil},
		{"seeding", func() error {
			_, err := p.host.EnsureContext(ctx, "ctx_seeded", nil)
			return err
		}, nil},
		{"a layer", func() error {
			must(t, os.WriteFile(filepath.Join(p.Info().Workspace, "app", "added"), big, 0o644))
			_, err := p.host.EnsureContext(ctx, "ctx_layer", nil)
			return err
		}, nil},
	}
}

func stream(f *client.FS, name string, data []byte) error {
	w, err := f.WriteStream(name, client.WriteOptions{Perm: 0o644})
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

func writeAt(f *client.FS, name string, data []byte) error {
	h, err := f.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = h.WriteAt(data, 0)
	return errors.Join(err, h.Close())
}

// TestNoInodesLeft has room for content, and none for names.
func TestNoInodesLeft(t *testing.T) {
	d := ext4(t, "-N", "256")
	p := begin(t, d.use)
	f := p.panel("panels/writer")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	var err error
	made := 0
	for ; err == nil && made < 256; made++ {
		err = f.WriteFile(fmt.Sprint(made), []byte(kept), 0o644)
	}
	_, seed := p.host.EnsureContext(t.Context(), "ctx_seeded", nil)
	for what, err := range map[string]error{
		"a new file": err, "mkdir": f.Mkdir("dir", 0o755), "cp": cp(f), "stream": stream(f, "streamed", []byte(kept)), "seed": seed,
		"whole": f.WriteFileAtomic("kept", []byte("another"), 0o644),
	} {
		wantCode(t, what, err, fserr.ENOSPC)
	}
	wantFile(t, f, "kept", kept)
	wantFile(t, f, fmt.Sprint(made-2), kept)
	must(t, f.WriteFile("kept", []byte("in place"), 0o644))
	p.othersGoOn()
	p.clean()
	_, err = p.host.DeleteContext(t.Context(), "ctx_panels~writer", client.DiscardChanges)
	must(t, err)
	_, err = p.host.EnsureContext(t.Context(), "ctx_seeded", nil)
	must(t, err)
	p.othersGoOn()
}

// TestServerStartsWithNoInodesLeft has room for content, and none for the files that a start makes.
func TestServerStartsWithNoInodesLeft(t *testing.T) {
	d := ext4(t, "-N", "256")
	cfg := settings(t)
	d.use(&cfg)
	p := serve(t, cfg)
	f := p.panel("panels/writer")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	for n := range 40 {
		must(t, p.panel("panels/large").WriteFile(fmt.Sprint(n), nil, 0o644))
	}
	p.stop()
	for n := 0; ; n++ {
		if err := os.WriteFile(filepath.Join(d.at, fmt.Sprint(n)), nil, 0o600); err != nil {
			break
		}
	}
	p = serve(t, cfg)
	f = p.host.Context("ctx_panels~writer")
	wantFile(t, f, "kept", kept)
	p.wantReady(http.StatusServiceUnavailable, "full")
	_, err := p.host.DeleteContext(t.Context(), "ctx_panels~large", client.DiscardChanges)
	must(t, err)
	must(t, f.WriteFile("new", []byte(kept), 0o644))
	p.wantReady(http.StatusOK, "")
}

// TestRecordsOnAFullDisk opens panels, each of which is a record, until the database gets no more.
func TestRecordsOnAFullDisk(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		p := begin(t, d.use)
		d.fill()
		var err error
		for range 400 { // free pages of the database hold some more records
			if _, err = p.host.OpenPanel(t.Context(), "panels/bystander"); err != nil {
				break
			}
			d.fill()
		}
		wantCode(t, "open a panel", err, fserr.ENOSPC)
		p.othersGoOn()
		d.free()
		p.panel("panels/after")
		p.othersGoOn()
	})
}

// TestAnAuditLogOnAFullDisk loses lines, never calls.
func TestAnAuditLogOnAFullDisk(t *testing.T) {
	d := tmpfs(t)
	p := begin(t, func(c *server.Config) { c.AuditLog = filepath.Join(d.at, "audit") })
	d.fill()
	before, err := os.Stat(filepath.Join(d.at, "audit"))
	must(t, err)
	for range 40 {
		must(t, p.bystander.WriteFile("during", []byte(kept), 0o644))
	}
	p.othersGoOn()
	d.free()
	must(t, p.bystander.WriteFile("after", []byte(kept), 0o644))
	data, err := os.ReadFile(filepath.Join(d.at, "audit"))
	must(t, err)
	if int64(len(data)) <= before.Size() || !bytes.Contains(data, []byte(`"/after"`)) {
		t.Errorf("the audit log does not go on: %s", data)
	}
	parts := 0
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		if !json.Valid(line) {
			parts++ // the one that the disk had room for half of
		}
	}
	if parts > 1 {
		t.Errorf("%d parts of lines, want one at most: %s", parts, data)
	}
}

// TestServerStartsOnAFullDisk fills the disk while no server runs. The next server must serve what is there, say that the disk
// is full, and let contexts be deleted until there is room again.
func TestServerStartsOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount func(t *testing.T) *disk
		// driver makes the contexts. pool is how many copies are ready.
		driver string
		pool   int
		// reserve says that the space kept for deletions is there.
		reserve bool
	}{
		{"ext4", plainExt4, server.DriverCopy, 0, true},
		{"tmpfs", tmpfs, server.DriverCopy, 0, true},
		{"ext4, overlay", plainExt4, server.DriverOverlay, 0, true},
		{"ext4, with a pool", plainExt4, server.DriverCopy, 2, true},
		{"ext4, with a pool and no reserve", plainExt4, server.DriverCopy, 2, false},
		{"tmpfs, with a pool and no reserve", tmpfs, server.DriverCopy, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.mount(t)
			if c.driver == server.DriverOverlay {
				needsOverlay(t, d)
			}
			cfg := settings(t)
			d.use(&cfg)
			cfg.Driver, cfg.Pool = c.driver, c.pool
			l := fillWhileStopped(t, d, cfg)
			if !c.reserve {
				must(t, os.RemoveAll(l.Reserve))
				d.fill()
			}
			startsFull(t, cfg, l)
		})
	}
}

// fillWhileStopped makes two contexts, one of them large, stops the server, and fills the disk.
func fillWhileStopped(t *testing.T, d *disk, cfg server.Config) contexts.Layout {
	t.Helper()
	p := serve(t, cfg)
	must(t, p.panel("panels/writer").WriteFile("kept", []byte(kept), 0o644))
	must(t, p.panel("panels/large").WriteFile("large", make([]byte, 8*much), 0o644))
	l, err := contexts.NewLayout(cfg.Workspace, cfg.ContextsDir)
	must(t, err)
	eventually(t, "the pool is filled", func() bool { return len(poolOf(t, l)) == cfg.Pool })
	p.stop()
	d.fill()
	return l
}

// startsFull serves on a full disk until there is room again.
func startsFull(t *testing.T, cfg server.Config, l contexts.Layout) {
	t.Helper()
	p := serve(t, cfg)
	f := p.host.Context("ctx_panels~writer")
	wantFile(t, f, "kept", kept)
	wantCode(t, "a large file", f.WriteFile("new", make([]byte, 2*much), 0o644), fserr.ENOSPC)
	p.wantReady(http.StatusServiceUnavailable, "full")
	if left := poolOf(t, l); len(left) > 0 {
		t.Errorf("the pool was not given up: %v", left)
	}
	_, err := p.host.CollectGarbage(t.Context(), &ctxfsv1.CollectGarbageRequest{})
	must(t, err)
	_, err = p.host.DeleteContext(t.Context(), "ctx_panels~large", client.DiscardChanges)
	must(t, err)
	must(t, f.WriteFile("new", make([]byte, much), 0o644))
	p.wantReady(http.StatusOK, "")
	p.panel("panels/later")
	p.stop()
	p.clean()
	wantFile(t, serve(t, cfg).host.Context("ctx_panels~writer"), "kept", kept)
}

// TestServerStartsWithNothingToGiveUp has a full disk on which neither the reserve nor a pool can make room: what is there is
// served, and everything works once somebody else has made room.
func TestServerStartsWithNothingToGiveUp(t *testing.T) {
	nothing := func(t *testing.T, d *disk, driver string) {
		cfg := settings(t)
		d.use(&cfg)
		cfg.Driver = driver
		l := fillWhileStopped(t, d, cfg)
		must(t, os.RemoveAll(l.Reserve))
		d.fill()
		p := serve(t, cfg)
		f := p.host.Context("ctx_panels~writer")
		wantFile(t, f, "kept", kept)
		p.wantReady(http.StatusServiceUnavailable, "full")
		d.free()
		must(t, f.WriteFile("new", make([]byte, much), 0o644))
		_, err := p.host.DeleteContext(t.Context(), "ctx_panels~large", client.DiscardChanges)
		must(t, err)
		p.panel("panels/later")
		p.wantReady(http.StatusOK, "")
	}
	onDisks(t, func(t *testing.T, d *disk) { nothing(t, d, server.DriverCopy) })
	t.Run("ext4, overlay", func(t *testing.T) {
		d := plainExt4(t)
		needsOverlay(t, d)
		nothing(t, d, server.DriverOverlay)
	})
}

// TestPoolIsGivenUpOnAFullDisk fills the disk of a server that runs.
func TestPoolIsGivenUpOnAFullDisk(t *testing.T) {
	onDisks(t, func(t *testing.T, d *disk) {
		p := begin(t, func(c *server.Config) {
			d.use(c)
			c.Pool = 2
		})
		l, err := contexts.NewLayout(p.Info().Workspace, p.Info().ContextsDir)
		must(t, err)
		eventually(t, "the pool is filled", func() bool { return len(poolOf(t, l)) == 2 })
		must(t, os.RemoveAll(l.Reserve))
		d.fill()
		eventually(t, "the pool is given up", func() bool { return len(poolOf(t, l)) == 0 })
		p.othersGoOn()
	})
}

// poolOf lists the ready copies.
func poolOf(t *testing.T, l contexts.Layout) []string {
	t.Helper()
	entries, err := os.ReadDir(l.Pool)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(t, err)
	var copies []string
	for _, e := range entries { // beside them are their marks
		if e.IsDir() && strings.Contains(e.Name(), "-") {
			copies = append(copies, e.Name())
		}
	}
	return copies
}

// plainExt4 is ext4 as it comes.
func plainExt4(t *testing.T) *disk {
	t.Helper()
	return ext4(t)
}

func needsOverlay(t *testing.T, d *disk) {
	t.Helper()
	if _, err := server.ChooseDriver(t.Context(), server.DriverOverlay, d.at); err != nil {
		t.Skipf("not tested: %v", err)
	}
}

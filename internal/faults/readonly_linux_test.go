package faults

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/server"
)

// TestADiskThatBecomesReadOnly makes ext4 find an internal error while a server runs on it. ext4 then accepts no more
// writes. (The kernel refuses a manual remount while the server has its database open.)
func TestADiskThatBecomesReadOnly(t *testing.T) {
	d := ext4(t)
	var cfg server.Config
	p := begin(t, func(c *server.Config) {
		d.use(c)
		cfg = *c
	})
	f := p.panel("panels/writer")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	h, err := f.OpenFile("handle", os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	d.breakDown()
	for _, c := range changes(p, f, h) {
		wantCode(t, c.name, c.do(), fserr.EROFS)
	}
	wantFile(t, f, "kept", kept)
	p.othersGoOn()
	p.wantReady(http.StatusServiceUnavailable, "read-only")
	must(t, h.Close())
	if err := p.leave(); err == nil || !strings.Contains(err.Error(), "server.json") {
		t.Errorf("the stop says %v, want what could not be removed", err)
	}
	d.again()
	p = beginWith(t, cfg)
	f = p.panel("panels/writer")
	wantFile(t, f, "kept", kept)
	p.wantReady(http.StatusOK, "")
	h, err = f.OpenFile("handle", os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	for _, c := range changes(p, f, h) {
		must(t, c.do())
	}
	must(t, h.Close())
	p.clean()
}

// breakDown writes what is there, and then has the file system take an error for its own.
func (d *disk) breakDown() {
	d.Helper()
	dir, err := os.Open(d.at)
	must(d, err)
	must(d, unix.Syncfs(int(dir.Fd())))
	must(d, dir.Close())
	trigger := filepath.Join("/sys/fs/ext4", d.device(), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		d.Skipf("not tested: this kernel cannot break an ext4: %v", err)
	}
	must(d, os.WriteFile(trigger, []byte("a test's"), 0o200))
}

// TestStartOnAReadOnlyDisk refuses to serve, before it has changed anything, and says what to do.
func TestStartOnAReadOnlyDisk(t *testing.T) {
	d := plainExt4(t)
	cfg := settings(t)
	d.use(&cfg)
	p := beginWith(t, cfg)
	must(t, p.panel("panels/writer").WriteFile("kept", []byte(kept), 0o644))
	p.stop()
	d.remount("ro")
	another := cfg
	another.ContextsDir = filepath.Join(d.at, "another")
	for name, cfg := range map[string]server.Config{"served before": cfg, "never served": another} {
		_, err := server.New(t.Context(), cfg, server.Deps{Version: "0.0.0-test"})
		var coded interface{ ExitCode() int }
		if !errors.As(err, &coded) || coded.ExitCode() != server.ExitNoWrite {
			t.Errorf("%s: %v, want exit code %d", name, err, server.ExitNoWrite)
		}
		for _, want := range []string{"read-only file system", "mount -o remount,rw", "--contexts-dir"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	d.remount("rw")
	wantFile(t, serve(t, cfg).host.Context("ctx_panels~writer"), "kept", kept)
}

func (d *disk) remount(option string) {
	d.Helper()
	if out, err := exec.CommandContext(d.Context(), "mount", "-o", "remount,"+option, d.at).CombinedOutput(); err != nil {
		d.Fatalf("remount %s: %v\n%s", option, err, out)
	}
}

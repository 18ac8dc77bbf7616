package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/server"
)

// TestADiskThatBecomesReadOnly has ext4 find an error of its own, upon which it takes no more writes, under a server
// that goes on. (A remount by hand is refused while the server has its database open.)
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
		wantCode(t, c.name, c.do(), fserr.EROFS, c.also)
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

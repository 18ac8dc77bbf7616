package attack

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/reflect/protoreflect"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestMountsInside has a directory of outside mounted in the context: a tool's doing, in a
// mount namespace that the server shares. Nothing may go through it, not even rm -r.
func TestMountsInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	for _, cfg := range configs(t) {
		t.Run(cfg.String(), func(t *testing.T) {
			w := newWorld(t, cfg)
			w.replant(row{})
			at := filepath.Join(w.dir, "d", "mnt")
			w.must(os.Mkdir(at, 0o755))
			w.must(unix.Mount(w.in("outside"), at, "", unix.MS_BIND, ""))
			defer func() { w.must(unix.Unmount(at, unix.MNT_DETACH)) }()
			for _, path := range []string{"d/mnt/target", "d/mnt/sub", "d/mnt/sub/target", "d/mnt/new/x", "d/mnt", "d", "/"} {
				for _, q := range requests(t, path, 0o777) {
					w.try(q, path, len(path) > len("d/mnt"))
				}
				w.tryHTTP(path, path != "d" && path != "/")
			}
			w.checkInside("mounts", names("d/mnt"))
			w.checkLog("mounts")
			for _, d := range w.before.diff(w.snapshot()) {
				t.Errorf("outside, %s", d)
			}
			w.report()
		})
	}
}

// TestHandlesStayWhereTheyAre opens a file, replaces its name with links that lead
// outside, and then uses the handle.
func TestHandlesStayWhereTheyAre(t *testing.T) {
	for _, cfg := range configs(t) {
		t.Run(cfg.String(), func(t *testing.T) {
			w := newWorld(t, cfg)
			defer w.finish()
			fs, ctx := ctxfsv1.NewFsServiceClient(w.cc), w.attacker.ctx
			for _, atomic := range []bool{false, true} {
				w.replant(row{})
				flags := &ctxfsv1.OpenRequest_Flags{Flags: "r+"}
				if atomic {
					flags.Flags = "w"
				}
				opened, err := fs.Open(ctx, &ctxfsv1.OpenRequest{Path: "/d/plain", FlagsForm: flags, Atomic: atomic})
				w.must(err)
				w.must(os.Rename(filepath.Join(w.dir, "d"), filepath.Join(w.dir, "e")))
				w.link("../../../outside", "d")
				w.must(os.Symlink("target", w.in("outside", "plain")))
				fd := opened.GetFd()
				for _, r := range everyMethod(t) {
					if f := r.msg.ProtoReflect().Descriptor().Fields().ByName("fd"); f != nil && r.name() != "Close" {
						onHandle(r, fd)
						_, _ = w.caller.call(r) // checked by the caller
					}
				}
				_, err = fs.Close(ctx, &ctxfsv1.CloseRequest{Fd: fd, Commit: atomic})
				t.Logf("%s, atomic %v: close: %v", cfg, atomic, err)
				w.checkInside("handles", nil)
				w.must(os.Remove(w.in("outside", "plain")))
				w.before.files[w.in("outside")] = w.snapshot().files[w.in("outside")] // its time, by us
			}
		})
	}
}

// onHandle makes r's request one about a handle.
func onHandle(r request, fd int32) {
	m := r.msg.ProtoReflect()
	if p := m.Descriptor().Fields().ByName("path"); p != nil {
		m.Clear(p)
	}
	m.Set(m.Descriptor().Fields().ByName("fd"), protoreflect.ValueOfInt32(fd))
}

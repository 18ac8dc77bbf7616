package fsservice_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// do makes a call by its method and throws the reply away.
func do[Req, Resp any](f func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := f(ctx, req)
		return err
	}
}

// A context with these is what every case of TestErrors finds:
// /file "hello", /dir/inner, /out -> ../../secret, /loop -> loop.
func fill(w *world) {
	w.put("file", "hello")
	w.put("dir/inner", "inner")
	w.must(os.Symlink("../../secret", filepath.Join(w.dir, "out")))
	w.must(os.Symlink("loop", filepath.Join(w.dir, "loop")))
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill(w)
	c := w.client
	bad := "\xff"
	for name, tc := range map[string]struct {
		call func(context.Context) error
		want string
	}{
		"stat of nothing":           {do(c.Stat, &ctxfsv1.StatRequest{Path: "/x"}), "ENOENT: no such file or directory, stat '/x'"},
		"stat of nothing, raw":      {do(c.Stat, &ctxfsv1.StatRequest{RawPath: []byte(bad)}), `ENOENT: no such file or directory, stat '\xff'`},
		"both paths":                {do(c.Stat, &ctxfsv1.StatRequest{Path: "/x", RawPath: []byte("x")}), "EINVAL: path and raw_path are both set, stat"},
		"lstat through a file":      {do(c.Lstat, &ctxfsv1.LstatRequest{Path: "/file/x"}), "ENOTDIR: not a directory, lstat '/file/x'"},
		"beyond the root":           {do(c.ReadFile, &ctxfsv1.ReadFileRequest{Path: "/../etc/passwd"}), "EACCES: permission denied, path leads outside the context, open '/../etc/passwd'"},
		"an escaping link":          {do(c.ReadFile, &ctxfsv1.ReadFileRequest{Path: "/out"}), "EACCES: permission denied, path leads outside the context, open '/out'"},
		"a loop":                    {do(c.Realpath, &ctxfsv1.RealpathRequest{Path: "/loop"}), "ELOOP: too many symbolic links encountered, realpath '/loop'"},
		"readFile of nothing":       {do(c.ReadFile, &ctxfsv1.ReadFileRequest{Path: "/x"}), "ENOENT: no such file or directory, open '/x'"},
		"readFile of a directory":   {do(c.ReadFile, &ctxfsv1.ReadFileRequest{Path: "/dir"}), "EISDIR: illegal operation on a directory, read '/dir'"},
		"an unknown encoding":       {do(c.ReadFile, &ctxfsv1.ReadFileRequest{Path: "/file", Encoding: "ebcdic"}), `EINVAL: unknown encoding "ebcdic", open '/file'`},
		"writeFile over a dir":      {do(c.WriteFile, &ctxfsv1.WriteFileRequest{Path: "/dir"}), "EISDIR: illegal operation on a directory, open '/dir'"},
		"writeFile with wx":         {do(c.WriteFile, &ctxfsv1.WriteFileRequest{Path: "/file", FlagForm: &ctxfsv1.WriteFileRequest_Flag{Flag: "wx"}}), "EEXIST: file already exists, open '/file'"},
		"an unknown flag":           {do(c.WriteFile, &ctxfsv1.WriteFileRequest{Path: "/file", FlagForm: &ctxfsv1.WriteFileRequest_Flag{Flag: "q"}}), `EINVAL: unknown flag "q"; the flags are r, r+, rs+, w, w+, wx, wx+, a, a+, ax, ax+, as and as+, open '/file'`},
		"atomic append":             {do(c.WriteFile, &ctxfsv1.WriteFileRequest{Path: "/file", Atomic: true, FlagForm: &ctxfsv1.WriteFileRequest_Flag{Flag: "a"}}), `EINVAL: atomic goes with flag "w" or "wx" only, open '/file'`},
		"appendFile, no parent":     {do(c.AppendFile, &ctxfsv1.AppendFileRequest{Path: "/no/x"}), "ENOENT: no such file or directory, open '/no/x'"},
		"a negative truncate":       {do(c.Truncate, &ctxfsv1.TruncateRequest{Path: "/file", Len: proto.Int64(-1)}), "EINVAL: a length of -1 is negative, ftruncate '/file'"},
		"truncate of nothing":       {do(c.Truncate, &ctxfsv1.TruncateRequest{Path: "/x"}), "ENOENT: no such file or directory, open '/x'"},
		"mkdir of what exists":      {do(c.Mkdir, &ctxfsv1.MkdirRequest{Path: "/dir"}), "EEXIST: file already exists, mkdir '/dir'"},
		"a mode that is none":       {do(c.Mkdir, &ctxfsv1.MkdirRequest{Path: "/d", ModeForm: &ctxfsv1.MkdirRequest_ModeOctal{ModeOctal: "9"}}), `EINVAL: mode_octal "9" is no octal number, mkdir '/d'`},
		"mkdtemp, no parent":        {do(c.Mkdtemp, &ctxfsv1.MkdtempRequest{Prefix: "/no/x-"}), "ENOENT: no such file or directory, mkdtemp '/no/x-XXXXXX'"},
		"rmdir, not empty":          {do(c.Rmdir, &ctxfsv1.RmdirRequest{Path: "/dir"}), "ENOTEMPTY: directory not empty, rmdir '/dir'"},
		"unlink of a directory":     {do(c.Unlink, &ctxfsv1.UnlinkRequest{Path: "/dir"}), "EISDIR: illegal operation on a directory, unlink '/dir'"},
		"rm of a directory":         {do(c.Rm, &ctxfsv1.RmRequest{Path: "/dir", Force: true}), "EISDIR: illegal operation on a directory; set recursive to remove a directory, rm '/dir'"},
		"rm of nothing":             {do(c.Rm, &ctxfsv1.RmRequest{Path: "/x"}), "ENOENT: no such file or directory, rm '/x'"},
		"rm of nothing, forced":     {do(c.Rm, &ctxfsv1.RmRequest{Path: "/x", Force: true, Recursive: true}), ""},
		"rename of nothing":         {do(c.Rename, &ctxfsv1.RenameRequest{Path: "/x", Dest: "/y"}), "ENOENT: no such file or directory, rename '/x' -> '/y'"},
		"symlink over a file":       {do(c.Symlink, &ctxfsv1.SymlinkRequest{Target: "t", Path: "/file"}), "EEXIST: file already exists, symlink 't' -> '/file'"},
		"link of a directory":       {do(c.Link, &ctxfsv1.LinkRequest{Path: "/dir", Dest: "/l"}), "EPERM: operation not permitted, link '/dir' -> '/l'"},
		"readlink of a file":        {do(c.Readlink, &ctxfsv1.ReadlinkRequest{Path: "/file"}), "EINVAL: invalid argument, readlink '/file'"},
		"readdir of a file":         {do(c.Readdir, &ctxfsv1.ReaddirRequest{Path: "/file"}), "ENOTDIR: not a directory, scandir '/file'"},
		"access, unknown bits":      {do(c.Access, &ctxfsv1.AccessRequest{Path: "/file", Mode: 8}), "EINVAL: access mode 8 is none of 0 to 7, access '/file'"},
		"chmod without mode":        {do(c.Chmod, &ctxfsv1.ChmodRequest{Path: "/file"}), "EINVAL: mode or mode_octal is required, chmod '/file'"},
		"chown without gid":         {do(c.Chown, &ctxfsv1.ChownRequest{Path: "/file", Uid: proto.Int64(1)}), "EINVAL: uid and gid are required; -1 leaves one as it is, chown '/file'"},
		"utimes without mtime":      {do(c.Utimes, &ctxfsv1.UtimesRequest{Path: "/file", AtimeNs: proto.Int64(1)}), "EINVAL: atime_ns and mtime_ns are required, in ns since the epoch, utime '/file'"},
		"copyFile, exclusive":       {do(c.CopyFile, &ctxfsv1.CopyFileRequest{Path: "/file", Dest: "/dir/inner", Mode: 1}), "EEXIST: file already exists, copyfile '/file' -> '/dir/inner'"},
		"copyFile, unknown mode":    {do(c.CopyFile, &ctxfsv1.CopyFileRequest{Path: "/file", Dest: "/y", Mode: 8}), "EINVAL: copy mode 8 is no union of 1, 2 and 4, copyfile '/file' -> '/y'"},
		"cp of a directory":         {do(c.Cp, &ctxfsv1.CpRequest{Path: "/dir", Dest: "/y"}), "EISDIR: the source is a directory; ask for a recursive copy, cp '/dir' -> '/y'"},
		"an unknown handle":         {do(c.Read, &ctxfsv1.ReadRequest{Fd: 99}), "EBADF: bad file descriptor 99, read"},
		"closing an unknown handle": {do(c.Close, &ctxfsv1.CloseRequest{Fd: 99}), "EBADF: bad file descriptor 99, close"},
		"a foreign context":         {do(c.Stat, &ctxfsv1.StatRequest{ContextId: "ctx_b", Path: "/"}), "EACCES: context 'ctx_b' is not this panel's; leave context_id empty, stat '/'"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := *w
			sub.T = t
			sub.wantError(tc.call(w.as("a")), tc.want)
		})
	}
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill(w)
	c := w.client
	stat := func(id string) func(context.Context) error {
		return do(c.Stat, &ctxfsv1.StatRequest{ContextId: id, Path: "/"})
	}
	for _, tc := range []struct {
		as   string
		call func(context.Context) error
		want string
	}{
		{"nobody", stat(""), "EACCES: the caller is not known, stat '/'"},
		{"host", stat(""), "EINVAL: no context; set context_id, or send -H 'ctxfs-panel: NAME', stat '/'"},
		{"host", stat("ctx_b"), "ESTALE: context 'ctx_b' does not exist, stat '/'"},
		{"b", stat(""), ""}, // a panel's first access seeds
		{"host", stat("ctx_b"), ""},
		{"a", stat("ctx_a"), ""},
		{"a-readonly", stat(""), ""},
		{"a-readonly", do(c.WriteFile, &ctxfsv1.WriteFileRequest{Path: "/n"}), "EROFS: read-only file system; this panel was opened read-only, open '/n'"},
		{"a-readonly", do(c.Open, &ctxfsv1.OpenRequest{Path: "/n", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "a"}}), "EROFS: read-only file system; this panel was opened read-only, open '/n'"},
		{"a-readonly", do(c.Rename, &ctxfsv1.RenameRequest{Path: "/file", Dest: "/n"}), "EROFS: read-only file system; this panel was opened read-only, rename '/file' -> '/n'"},
		{"a-readonly", do(c.Access, &ctxfsv1.AccessRequest{Path: "/file", Mode: 2}), "EROFS: read-only file system; this panel was opened read-only, access '/file'"},
	} {
		w.wantError(tc.call(w.as(tc.as)), tc.want)
	}
}

func TestWriteFileKeepsTheInodeAndCuts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "a long content")
	before, err := os.Stat(filepath.Join(w.dir, "f"))
	w.must(err)
	resp, err := w.client.WriteFile(w.as("a"), &ctxfsv1.WriteFileRequest{Path: "/f", Content: &ctxfsv1.WriteFileRequest_Text{Text: "short"}})
	w.must(err)
	after, err := os.Stat(filepath.Join(w.dir, "f"))
	w.must(err)
	w.wantContent("f", "short")
	if !os.SameFile(before, after) || resp.GetBytesWritten() != 5 {
		t.Errorf("same file: %v, written %d", os.SameFile(before, after), resp.GetBytesWritten())
	}
}

func TestWriteFileFlags(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"w": "XY", "w+": "XY", "r+": "XYllo", "a": "helloXY", "a+": "helloXY", "as": "helloXY"} {
		w := newWorld(t)
		w.put("f", "hello")
		_, err := w.client.WriteFile(w.as("a"), &ctxfsv1.WriteFileRequest{
			Path: "f", FlagForm: &ctxfsv1.WriteFileRequest_Flag{Flag: flag}, Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte("XY")},
		})
		w.must(err)
		w.wantContent("f", want)
	}
}

// TestWriteFileCutsAndAppends uses numbers, which can ask for what no text says.
func TestWriteFileCutsAndAppends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "hello world")
	_, err := w.client.WriteFile(w.as("a"), &ctxfsv1.WriteFileRequest{
		Path: "f", FlagForm: &ctxfsv1.WriteFileRequest_FlagNumber{FlagNumber: int32(rootfs.O_WRONLY | rootfs.O_TRUNC | rootfs.O_APPEND)},
		Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte("new")},
	})
	w.must(err)
	w.wantContent("f", "new")
}

func TestNewFilesTakeTheUmask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, mode := range map[string]os.FileMode{"new": 0o644, "atomic": 0o600} {
		req := &ctxfsv1.WriteFileRequest{Path: name, Content: &ctxfsv1.WriteFileRequest_Text{Text: "x"}}
		if name == "atomic" {
			req.Atomic, req.Flush, req.ModeForm = true, true, &ctxfsv1.WriteFileRequest_ModeOctal{ModeOctal: "0600"}
		}
		_, err := w.client.WriteFile(w.as("a"), req)
		w.must(err)
		st, err := os.Stat(filepath.Join(w.dir, name))
		w.must(err)
		if st.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", name, st.Mode().Perm(), mode)
		}
	}
	_, err := w.client.WriteFile(w.as("a"), &ctxfsv1.WriteFileRequest{Path: "dir-less/x"})
	w.wantError(err, "ENOENT: no such file or directory, open 'dir-less/x'")
}

func TestAReplyTooBigNamesTheStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("big", strings.Repeat("x", 4<<20))
	_, err := w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{Path: "/big"})
	w.wantError(err, "EFBIG: reply of 4.0 MiB exceeds 3.5 MiB; use FsService/ReadStream, readFile '/big'")
	w.put("hex", strings.Repeat("x", 2<<20))
	_, err = w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{Path: "/hex", Encoding: "hex"})
	w.wantError(err, "EFBIG: reply of 4.0 MiB exceeds 3.5 MiB; use FsService/ReadStream, readFile '/hex'")
}

func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.client, w.as("a")
	dir, file, moved, link := []byte("d\xff"), []byte("d\xff/f\xfe"), []byte("d\xff/m\xfd"), []byte("l\xfc")
	for _, call := range []func(context.Context) error{
		do(c.Mkdir, &ctxfsv1.MkdirRequest{RawPath: dir}),
		do(c.WriteFile, &ctxfsv1.WriteFileRequest{RawPath: file, Content: &ctxfsv1.WriteFileRequest_Text{Text: "x"}}),
		do(c.AppendFile, &ctxfsv1.AppendFileRequest{RawPath: file, Content: &ctxfsv1.AppendFileRequest_Text{Text: "y"}}),
		do(c.Rename, &ctxfsv1.RenameRequest{RawPath: file, RawDest: moved}),
		do(c.Symlink, &ctxfsv1.SymlinkRequest{RawTarget: moved, RawPath: link}),
		do(c.Access, &ctxfsv1.AccessRequest{RawPath: link}),
		do(c.CopyFile, &ctxfsv1.CopyFileRequest{RawPath: moved, RawDest: file}),
	} {
		w.must(call(ctx))
	}
	target, err := c.Readlink(ctx, &ctxfsv1.ReadlinkRequest{RawPath: link})
	w.must(err)
	real, err := c.Realpath(ctx, &ctxfsv1.RealpathRequest{RawPath: link})
	w.must(err)
	if !bytes.Equal(target.GetRawTarget(), moved) || string(real.GetRawPath()) != "/"+string(moved) {
		t.Errorf("target %q, real path %q", target.GetRawTarget(), real.GetRawPath())
	}
	list, err := c.Readdir(ctx, &ctxfsv1.ReaddirRequest{RawPath: dir, WithStats: true})
	w.must(err)
	for _, e := range list.GetEntries() {
		if string(e.GetRawParentPath()) != "/"+string(dir) || e.GetStat().GetSize() != 2 {
			t.Errorf("entry %v", e)
		}
	}
	if len(list.GetEntries()) != 2 {
		t.Errorf("%d entries, want 2", len(list.GetEntries()))
	}
}

package client_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

const (
	modelRuns  = 100
	modelSteps = 120
)

// TestModel runs random operations on a context, over the wire, and on a plain
// directory. It requires the same results and errno from both, and the same tree
// at the end: modelRuns * modelSteps = 12,000 operations.
func TestModel(t *testing.T) {
	t.Parallel()
	seed := fmt.Sprint(uint64(time.Now().UnixNano()))
	if f := flag.Lookup("rapid.seed"); f.Value.String() == "0" {
		if err := f.Value.Set(seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("rapid.seed=%s, %d operations", flag.Lookup("rapid.seed").Value, modelRuns*modelSteps)
	if err := flag.Lookup("rapid.checks").Value.Set(fmt.Sprint(modelRuns)); err != nil {
		t.Fatal(err)
	}
	addr := servertest.Start(t, servertest.Workspace(t), nil)
	c, err := client.Dial(t.Context(), client.WithAddress(addr), client.WithPanel("panels/model"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	plain := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		base := fmt.Sprintf("model/%d", run)
		m := &model{t: rt, fs: c.FS(), base: base, dir: filepath.Join(plain, base)}
		if err := errors.Join(m.fs.MkdirAll(base, 0o755), os.MkdirAll(m.dir, 0o755)); err != nil {
			rt.Fatal(err)
		}
		defer m.closeAll()
		for range modelSteps {
			m.step()
		}
		m.compareTrees()
	})
}

// model is one run: a directory of the context and a plain one.
type model struct {
	t       *rapid.T
	fs      *client.FS
	base    string
	dir     string
	handles []handlePair
}

type handlePair struct {
	remote *client.File
	local  *os.File
	// appends: a positional write is refused by both, as os.File does.
	appends bool
}

func (m *model) step() {
	ops := modelOps
	op := rapid.SampledFrom(ops).Draw(m.t, "op")
	op.run(m, op.name)
}

// same requires equal results and errno from the remote and the local side.
func (m *model) same(what string, remote any, remoteErr error, local any, localErr error) {
	m.t.Helper()
	re, le := errnoOf(remoteErr), errnoOf(localErr)
	if re != le {
		m.t.Fatalf("%s: context %s (%v), plain directory %s (%v)", what, re, remoteErr, le, localErr)
	}
	if le != 0 {
		return
	}
	if diff := cmp.Diff(local, remote); diff != "" {
		m.t.Fatalf("%s (-plain +context):\n%s", what, diff)
	}
}

func errnoOf(err error) fserr.Code {
	if errors.Is(err, io.EOF) {
		return 0
	}
	return fserr.CodeOf(err)
}

var (
	modelName = rapid.SampledFrom([]string{"a", "b", "c", "d"})
	modelData = rapid.SliceOfN(rapid.Byte(), 0, 300)
	modelPerm = rapid.SampledFrom([]fs.FileMode{0o644, 0o600, 0o755, 0o444})
	modelFlag = rapid.SampledFrom([]int{
		os.O_RDONLY, os.O_WRONLY, os.O_RDWR,
		os.O_WRONLY | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_EXCL,
		os.O_WRONLY | os.O_CREATE | os.O_APPEND, os.O_RDWR | os.O_APPEND,
	})
)

// cleanPath draws a path that io/fs takes.
func (m *model) cleanPath(label string) string {
	return strings.Join(rapid.SliceOfN(modelName, 1, 3).Draw(m.t, label), "/")
}

// path draws a path of up to three components, sometimes with a trailing slash, "." or "..".
func (m *model) path(label string) string {
	parts := rapid.SliceOfN(modelName, 1, 3).Draw(m.t, label)
	p := strings.Join(parts, "/")
	switch rapid.IntRange(0, 19).Draw(m.t, label+" form") {
	case 0:
		return p + "/"
	case 1:
		return p + "/."
	case 2:
		return p + "/../" + modelName.Draw(m.t, label+" sibling")
	}
	return p
}

// remote and local are p's names on either side; plain concatenation, because
// Join would resolve what the server and the kernel must.
func (m *model) remote(p string) string { return m.base + "/" + p }
func (m *model) local(p string) string  { return m.dir + "/" + p }

type modelOp struct {
	name string
	run  func(m *model, name string)
}

var modelOps = []modelOp{
	{"writeFile", func(m *model, op string) {
		p, data, perm := m.path("path"), modelData.Draw(m.t, "data"), modelPerm.Draw(m.t, "perm")
		m.same(op+" "+p, nil, m.fs.WriteFile(m.remote(p), data, perm), nil, os.WriteFile(m.local(p), data, perm))
	}},
	{"writeFile atomic", func(m *model, op string) {
		p, data := m.path("path"), modelData.Draw(m.t, "data")
		m.same(op+" "+p, nil, m.fs.WriteFileAtomic(m.remote(p), data, 0o644), nil, localAtomic(m.local(p), data))
	}},
	{"appendFile", func(m *model, op string) {
		p, data := m.path("path"), modelData.Draw(m.t, "data")
		m.same(op+" "+p, nil, m.fs.AppendFile(m.remote(p), data, 0o644), nil, localAppend(m.local(p), data))
	}},
	{"readFile", func(m *model, op string) {
		p := m.cleanPath("path")
		remote, remoteErr := m.fs.ReadFile(m.remote(p))
		local, localErr := os.ReadFile(m.local(p))
		m.same(op+" "+p, string(remote), remoteErr, string(local), localErr)
	}},
	{"mkdir", func(m *model, op string) {
		p := m.path("path")
		m.same(op+" "+p, nil, m.fs.Mkdir(m.remote(p), 0o755), nil, unix.Mkdir(m.local(p), 0o755))
	}},
	{"mkdir again", func(m *model, op string) {
		p := m.path("path")
		m.same(op+" "+p, nil, m.fs.Mkdir(m.remote(p), 0o700), nil, unix.Mkdir(m.local(p), 0o700))
	}},
	{"rmdir", func(m *model, op string) {
		p := m.path("path")
		m.same(op+" "+p, nil, m.fs.Rmdir(m.remote(p)), nil, unix.Rmdir(m.local(p)))
	}},
	{"unlink", func(m *model, op string) {
		p := m.path("path")
		m.same(op+" "+p, nil, m.fs.Unlink(m.remote(p)), nil, unix.Unlink(m.local(p)))
	}},
	{"rm -rf", func(m *model, op string) {
		p := m.cleanPath("path")
		_, err := m.fs.Rm(m.remote(p), client.RmOptions{Recursive: true, Force: true})
		m.same(op+" "+p, nil, err, nil, os.RemoveAll(m.local(p)))
	}},
	{"copyFile", func(m *model, op string) {
		from, to := m.cleanPath("from"), m.cleanPath("to")
		mode := rapid.SampledFrom([]client.CopyMode{0, client.CopyExclusive}).Draw(m.t, "mode")
		if st, err := os.Stat(m.local(from)); err == nil && st.IsDir() {
			return // EISDIR, but systems differ in which error they report if there are several
		}
		_, err := m.fs.CopyFile(m.remote(from), m.remote(to), mode)
		m.same(op+" "+from+" "+to, nil, err, nil, localCopy(m.local(from), m.local(to), mode))
	}},
	{"mkdir -p", func(m *model, op string) {
		p := m.cleanPath("path")
		m.same(op+" "+p, nil, m.fs.MkdirAll(m.remote(p), 0o755), nil, localMkdirAll(m.dir, p))
	}},
	{"access", func(m *model, op string) {
		p, mode := m.path("path"), rapid.Uint32Range(0, 7).Draw(m.t, "mode")
		m.same(op+" "+p, nil, m.fs.Access(m.remote(p), client.AccessMode(mode)), nil, unix.Faccessat(unix.AT_FDCWD, m.local(p), mode, 0))
	}},
	{"exists", func(m *model, op string) {
		p := m.path("path")
		remote, err := m.fs.Exists(m.remote(p))
		_, localErr := os.Stat(m.local(p))
		m.same(op+" "+p, remote, err, localErr == nil, nil)
	}},
	{"rename", func(m *model, op string) {
		from, to := m.path("from"), m.path("to")
		m.same(op+" "+from+" "+to, nil, m.fs.Rename(m.remote(from), m.remote(to)), nil, unix.Rename(m.local(from), m.local(to)))
	}},
	{"link", func(m *model, op string) {
		from, to := m.path("from"), m.path("to")
		m.same(op+" "+from+" "+to, nil, m.fs.Link(m.remote(from), m.remote(to)), nil, unix.Link(m.local(from), m.local(to)))
	}},
	{"symlink", func(m *model, op string) {
		target, p := m.target(), m.path("path")
		m.same(op+" "+target+" "+p, nil, m.fs.Symlink(target, m.remote(p)), nil, unix.Symlink(target, m.local(p)))
	}},
	{"readlink", func(m *model, op string) {
		p := m.path("path")
		remote, remoteErr := m.fs.Readlink(m.remote(p))
		local, localErr := localReadlink(m.local(p))
		m.same(op+" "+p, remote, remoteErr, local, localErr)
	}},
	{"stat", func(m *model, op string) {
		p := m.cleanPath("path")
		remote, remoteErr := m.fs.Stat(m.remote(p))
		local, localErr := os.Stat(m.local(p))
		m.same(op+" "+p, shape(remote), remoteErr, shape(local), localErr)
	}},
	{"lstat", func(m *model, op string) {
		p := m.cleanPath("path")
		remote, remoteErr := m.fs.Lstat(m.remote(p))
		local, localErr := os.Lstat(m.local(p))
		m.same(op+" "+p, shape(remote), remoteErr, shape(local), localErr)
	}},
	{"readdir", func(m *model, op string) {
		p := m.cleanPath("path")
		remote, remoteErr := m.fs.ReadDir(m.remote(p))
		local, localErr := localReaddir(m.local(p))
		m.same(op+" "+p, dirNames(remote), remoteErr, dirNames(local), localErr)
	}},
	{"truncate", func(m *model, op string) {
		p, size := m.path("path"), rapid.Int64Range(0, 500).Draw(m.t, "size")
		m.same(op+" "+p, nil, m.fs.Truncate(m.remote(p), size), nil, unix.Truncate(m.local(p), size))
	}},
	{"chmod", func(m *model, op string) {
		p, perm := m.path("path"), modelPerm.Draw(m.t, "perm")
		m.same(op+" "+p, nil, m.fs.Chmod(m.remote(p), perm), nil, unix.Chmod(m.local(p), uint32(perm)))
	}},
	{"utimes", func(m *model, op string) {
		p, at := m.path("path"), time.Unix(0, rapid.Int64Range(0, 2e18).Draw(m.t, "time"))
		ts := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(at.UnixNano())}
		m.same(op+" "+p, nil, m.fs.Chtimes(m.remote(p), at, at), nil, unix.UtimesNanoAt(unix.AT_FDCWD, m.local(p), ts, 0))
	}},
	{"realpath", func(m *model, op string) {
		p := m.path("path")
		remote, remoteErr := m.fs.Realpath(m.remote(p))
		local, localErr := filepath.EvalSymlinks(m.local(p))
		if localErr != nil {
			_, localErr = os.Stat(m.local(p)) // EvalSymlinks is lexical where the kernel is not
		}
		if localErr == nil && remoteErr == nil {
			m.same(op+" "+p, strings.TrimPrefix(remote, "/"+m.base), nil, strings.TrimPrefix(local, m.dir), nil)
			return
		}
		m.same(op+" "+p, "", remoteErr, "", localErr)
	}},
	{"open", (*model).open},
	{"handle", (*model).useHandle},
	{"handle again", (*model).useHandle},
	{"close", (*model).closeOne},
}

// target draws a link's target that stays within the run's directory.
func (m *model) target() string {
	names := rapid.SliceOfN(modelName, 1, 2).Draw(m.t, "target")
	return strings.Join(names, "/")
}

func (m *model) open(op string) {
	if len(m.handles) >= 8 {
		m.closeOne(op)
	}
	p, flags := m.path("path"), modelFlag.Draw(m.t, "flags")
	remote, remoteErr := m.fs.OpenFile(m.remote(p), flags, 0o644)
	local, localErr := os.OpenFile(m.local(p), flags, 0o644)
	m.same(fmt.Sprintf("%s %s %#o", op, p, flags), nil, remoteErr, nil, localErr)
	if localErr == nil {
		m.handles = append(m.handles, handlePair{remote, local, flags&os.O_APPEND != 0})
	}
}

func (m *model) useHandle(op string) {
	if len(m.handles) == 0 {
		return
	}
	h := rapid.SampledFrom(m.handles).Draw(m.t, "handle")
	off := rapid.Int64Range(0, 400).Draw(m.t, "offset")
	data := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(m.t, "data")
	remote, local := make([]byte, len(data)), make([]byte, len(data))
	switch rapid.IntRange(0, 5).Draw(m.t, "handle op") {
	case 0:
		rn, rerr := h.remote.Write(data)
		ln, lerr := h.local.Write(data)
		m.same(op+" write", rn, rerr, ln, lerr)
	case 1:
		rn, rerr := h.remote.WriteAt(data, off)
		if h.appends {
			if rerr == nil {
				m.t.Fatalf("WriteAt on a file opened with O_APPEND is not refused")
			}
			return
		}
		ln, lerr := unix.Pwrite(int(h.local.Fd()), data, off)
		m.same(op+" pwrite", rn, rerr, ln, lerr)
	case 2:
		rn, rerr := h.remote.Read(remote)
		ln, lerr := h.local.Read(local)
		m.same(op+" read", string(remote[:rn]), rerr, string(local[:max(ln, 0)]), lerr)
	case 3:
		rn, rerr := h.remote.ReadAt(remote, off)
		ln, lerr := h.local.ReadAt(local, off)
		m.same(op+" pread", string(remote[:rn]), rerr, string(local[:max(ln, 0)]), lerr)
	case 4:
		m.same(op+" truncate", nil, h.remote.Truncate(off), nil, h.local.Truncate(off))
	case 5:
		rst, rerr := h.remote.Stat()
		lst, lerr := h.local.Stat()
		m.same(op+" fstat", shape(rst), rerr, shape(lst), lerr)
	}
}

func (m *model) closeOne(op string) {
	if len(m.handles) == 0 {
		return
	}
	h := m.handles[0]
	m.handles = m.handles[1:]
	m.same(op+" close", nil, h.remote.Close(), nil, h.local.Close())
}

func (m *model) closeAll() {
	for _, h := range m.handles {
		_, _ = h.remote.Close(), h.local.Close()
	}
}

// compareTrees requires the same names, types, modes, sizes, contents and targets.
func (m *model) compareTrees() {
	remote, err := describeTree(func(p string) ([]fs.DirEntry, error) { return m.fs.ReadDir(path.Join(m.base, p)) },
		func(p string) (string, error) { return describe(m.fs, path.Join(m.base, p)) }, ".")
	if err != nil {
		m.t.Fatal(err)
	}
	root := os.DirFS(m.dir)
	local, err := describeTree(func(p string) ([]fs.DirEntry, error) { return fs.ReadDir(root, p) },
		func(p string) (string, error) { return describe(root, p) }, ".")
	if err != nil {
		m.t.Fatal(err)
	}
	if diff := cmp.Diff(local, remote); diff != "" {
		m.t.Fatalf("trees (-plain +context):\n%s", diff)
	}
}

func describeTree(list func(string) ([]fs.DirEntry, error), one func(string) (string, error), dir string) ([]string, error) {
	entries, err := list(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		line, err := one(p)
		if err != nil {
			return nil, err
		}
		out = append(out, line)
		if e.IsDir() {
			below, err := describeTree(list, one, p)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
	}
	sort.Strings(out)
	return out, nil
}

func describe(fsys fs.FS, p string) (string, error) {
	info, err := fs.Lstat(fsys, p)
	if err != nil {
		return "", err
	}
	content := ""
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		content, err = fs.ReadLink(fsys, p)
	case 0:
		var data []byte
		data, err = fs.ReadFile(fsys, p)
		content = string(data)
	}
	return fmt.Sprintf("%s %s %q", path.Base(p), shape(info), content), err
}

// shape is what must be equal of two files' attributes.
func shape(info fs.FileInfo) string {
	if info == nil {
		return ""
	}
	size := info.Size()
	if info.IsDir() {
		size = 0 // the file system's business
	}
	return fmt.Sprintf("%s %d", info.Mode(), size)
}

func dirNames(entries []fs.DirEntry) []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name()+" "+e.Type().String())
	}
	sort.Strings(names)
	return names
}

// localAtomic replaces a regular file by a new one of the same mode, which leaves
// its other names and open handles with the old content.
func localAtomic(name string, data []byte) error {
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() || strings.HasSuffix(name, "/") {
		return os.WriteFile(name, data, 0o644)
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(real+".new", data, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chmod(real+".new", st.Mode()), os.Rename(real+".new", real))
}

func localAppend(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// localCopy copies a regular file as fs.copyFile does: content and mode, in place.
func localCopy(from, to string, mode client.CopyMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE
	if mode == client.CopyExclusive {
		flags |= os.O_EXCL
	}
	dst, err := os.OpenFile(to, flags, st.Mode())
	if err != nil {
		return err
	}
	defer dst.Close()
	if same, err := dst.Stat(); err != nil || os.SameFile(st, same) {
		return err
	}
	data, err := io.ReadAll(src)
	if err == nil {
		err = dst.Truncate(0)
	}
	if err == nil {
		_, err = dst.Write(data)
	}
	return errors.Join(err, dst.Chmod(st.Mode()))
}

// localMkdirAll is mkdir(2) for each component: a file on the way is ENOTDIR, one at the end EEXIST.
func localMkdirAll(dir, p string) error {
	parts := strings.Split(p, "/")
	for i := range parts {
		at := dir + "/" + strings.Join(parts[:i+1], "/")
		err := unix.Mkdir(at, 0o755)
		if err == nil {
			continue
		}
		st, statErr := os.Stat(at)
		if err == unix.EEXIST && statErr == nil && st.IsDir() {
			continue
		}
		if err == unix.EEXIST && statErr != nil {
			return statErr
		}
		if err == unix.EEXIST && i < len(parts)-1 {
			return unix.ENOTDIR
		}
		return err
	}
	return nil
}

// localReaddir opens as scandir does: a file is ENOTDIR.
func localReaddir(name string) ([]fs.DirEntry, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func localReadlink(name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlink(name, buf)
	return string(buf[:max(n, 0)]), err
}

package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// StateFormat is the format of the state directory that this version reads and writes.
const StateFormat = 1

// StateDir is the name of the state directory within the contexts directory.
const StateDir = ".ctxfs"

// Layout names every path that ctxfs keeps beside a workspace. All are absolute.
type Layout struct {
	// Workspace is the folder whose repositories are copied, with links resolved.
	Workspace string
	// Dir holds the contexts' folders, by ID.
	Dir string
	// State (0700), in Dir, is the server's own.
	State string
	// Format is a file that names the version of the state.
	Format string
	// DB is the database, Socket the unix socket, HostToken the host's token. Clients find the server through ServerJSON.
	DB, Socket, ServerJSON, HostToken string
	// Identity has the ID of the directory, and Epoch the highest epoch of its servers, for records in a shared database. Records
	// names that database; there is no such file while the records are in DB.
	Identity, Epoch, Records string
	// Locks, Layers, Staging, Manifests, Specs, Snapshots and Pool are directories of State.
	Locks, Layers, Staging, Manifests, Specs, Snapshots, Pool string
	// Parts is the directory of what drivers have frozen of contexts (driver.Sharer). They make it.
	Parts string
	// Batches is a directory of the journals of batches. Package gate makes it.
	Batches string
	// Feeds is a directory of the feeds of changes. Package feed makes it.
	Feeds string
	// Review is a directory of what reviews keep. They make it.
	Review string
	// Git is a directory of staged commits. Package repos makes it.
	Git string
	// Reserve is a directory of space that is kept for deletions on a full disk.
	Reserve string
}

// NewLayout returns the layout of a workspace, and creates nothing. contextsDir "" means <workspace>/.contexts; a relative one
// is relative to the workspace. It fails with ENOTDIR or ENOENT if the workspace is no directory.
func NewLayout(workspace, contextsDir string) (Layout, error) {
	ws, err := realDir(workspace)
	if err != nil {
		return Layout{}, err
	}
	dir := contextsDir
	if dir == "" {
		dir = ".contexts"
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(ws, dir)
	}
	return layoutOf(ws, filepath.Clean(dir)), nil
}

func realDir(workspace string) (string, error) {
	abs, err := filepath.Abs(workspace)
	if err != nil {
		return "", fmt.Errorf("workspace %s: %w", workspace, err)
	}
	ws, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", LayoutError(fserr.CodeOf(err), err, "workspace %s cannot be opened: %s", abs, fserr.CodeOf(err).Text())
	}
	st, err := os.Stat(ws)
	if err != nil {
		return "", LayoutError(fserr.CodeOf(err), err, "workspace %s cannot be opened: %s", abs, fserr.CodeOf(err).Text())
	}
	if !st.IsDir() {
		return "", LayoutError(fserr.ENOTDIR, nil, "workspace %s is not a directory", abs)
	}
	return ws, nil
}

func layoutOf(ws, dir string) Layout {
	state := filepath.Join(dir, StateDir)
	in := func(name string) string { return filepath.Join(state, name) }
	return Layout{
		Workspace: ws, Dir: dir, State: state, Format: in("FORMAT"),
		DB: in("ctxfs.db"), Socket: in("ctxfs.sock"), ServerJSON: in("server.json"), HostToken: in("host.token"), Identity: in("directory.id"), Epoch: in("epoch"), Records: in("records"),
		Locks: in("locks"), Layers: in("layers"), Staging: in("staging"), Manifests: in("manifests"), Specs: in("specs"), Snapshots: in("snapshots"), Pool: in("pool"), Parts: in("parts"), Batches: in("batches"), Feeds: in("feeds"), Review: in("review"), Git: in("git"), Reserve: in("reserve"),
	}
}

// LayoutError returns an error for the host that starts ctxfs. Its text may name server paths, so it must not reach a client.
func LayoutError(code fserr.Code, cause error, format string, args ...any) error {
	return &fserr.Error{Code: code, Detail: fmt.Sprintf(format, args...), Err: cause}
}

// Folder returns the path of a context's folder.
func (l Layout) Folder(id ID) string { return filepath.Join(l.Dir, string(id)) }

// DriverState returns the directory in which a driver that mounts keeps the content of a context.
func (l Layout) DriverState(driver string, id ID) string {
	return filepath.Join(l.State, driver, string(id))
}

// SnapshotsOf returns the directory of a context's snapshots.
func (l Layout) SnapshotsOf(id ID) string { return filepath.Join(l.Snapshots, string(id)) }

// Snapshot returns the directory of a snapshot, whose name was checked.
func (l Layout) Snapshot(id ID, name string) string { return filepath.Join(l.SnapshotsOf(id), name) }

// Manifest returns the path of a context's manifest.
func (l Layout) Manifest(id ID) string { return filepath.Join(l.Manifests, string(id)) }

// Spec returns the path of the file that says what a context is made of.
func (l Layout) Spec(id ID) string { return filepath.Join(l.Specs, string(id)) }

// Batch returns the directory of the journal of a context's batches.
func (l Layout) Batch(id ID) string { return filepath.Join(l.Batches, string(id)) }

// Feed returns the directory of a context's feed of changes.
func (l Layout) Feed(id ID) string { return filepath.Join(l.Feeds, string(id)) }

// HasReserve reports whether the space for deletions on a full disk is kept.
func (l Layout) HasReserve() bool { return disk.Reserve{Dir: l.Reserve}.Kept() }

// MakeRoom gives up the space that is kept for deletions if the disk is full, and reports whether it was full. A server calls
// it before it opens its state. Open keeps the space again as soon as there is room.
func (l Layout) MakeRoom() (full bool) {
	if !disk.IsFull(l.State) {
		return false
	}
	disk.Reserve{Dir: l.Reserve}.Spend()
	return true
}

// Source returns the workspace as scans read it. root is the workspace's, opened to follow mounts.
func (l Layout) Source(root rootfs.Root) seed.Source {
	return seed.Source{Root: root, Dir: l.Workspace, Avoid: within(l.Workspace, l.Dir)}
}

// within returns dir relative to base, slash-separated, "" when it lies elsewhere.
func within(base, dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(base, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// FormatError reports that a newer ctxfs wrote the state. Nothing was changed.
type FormatError struct {
	// Format is the one found.
	Format int
	// Needs is the version that wrote it, Version the one that is running.
	Needs, Version string
}

// Error names both versions.
func (e *FormatError) Error() string {
	return fmt.Sprintf("state format %d needs ctxfs %s or later; this is %s; nothing was changed", e.Format, e.Needs, e.Version)
}

type formatFile struct {
	Format    int    `json:"format"`
	WrittenBy string `json:"written_by"`
	// Needs is the oldest version that reads the format. Newer formats may have it.
	Needs string `json:"needs,omitempty"`
}

// Make creates the directories and marker files that are missing. It fails with a *FormatError, and changes nothing, if the
// state is newer. It fails with EACCES, EROFS or ENOSPC, and names the owner, if it cannot write there.
func (l Layout) Make(version string) error {
	if err := l.checkFormat(version); err != nil {
		return err
	}
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{{l.Dir, 0o755}, {l.State, 0o700}, {l.Locks, 0o700}, {l.Layers, 0o700}, {l.Staging, 0o700}, {l.Manifests, 0o700}, {l.Specs, 0o700}, {l.Snapshots, 0o700}, {l.Pool, 0o700}} {
		if err := makeDir(d.path, d.mode); err != nil {
			return l.cannotCreate(d.path, err)
		}
	}
	if err := os.Chmod(l.State, 0o700); err != nil {
		return l.cannotCreate(l.State, err)
	}
	for path, content := range l.markers(version) {
		if err := writeMissing(path, content); err != nil {
			return l.cannotCreate(path, err)
		}
	}
	for _, name := range []string{".gitignore", ".ignore"} {
		if err := l.admitSearches(name); err != nil {
			return l.cannotCreate(filepath.Join(l.Dir, name), err)
		}
	}
	return nil
}

// ignoreContexts keeps git, ripgrep and fd in the workspace out of the contexts directory. It must not match below the contexts' own
// folders: ripgrep and fd inside a context obey the ignore files of its parents, and "*", which earlier versions wrote, hid
// everything from them.
const ignoreContexts = "/*\n"

// admitSearches replaces the "*" of an earlier version. It writes in place, in one call and without truncation, so that it works on a
// full disk and a kill leaves one of the two. A file that a person changed stays. So does anything but a file, such as a link.
func (l Layout) admitSearches(name string) error {
	path := filepath.Join(l.Dir, name)
	data, err := statedir.ReadFile(path, statedir.MaxRecord)
	if _, other := errors.AsType[*statedir.NotPlainError](err); other || err == nil && string(data) != "*\n" {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := statedir.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(ignoreContexts)
	return errors.Join(err, f.Close())
}

// makeDir accepts a directory that exists, and refuses a link in its place: others could choose where a link leads.
func makeDir(path string, mode fs.FileMode) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(path, mode)
	if err == nil {
		err = durable.Names(filepath.Dir(path))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fserr.ENOTDIR
	}
	return nil
}

// cacheTag is the content of CACHEDIR.TAG (https://bford.info/cachedir/): backups leave such directories out.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by ctxfs; it can be made again from the workspace.\n"

func (l Layout) markers(version string) map[string]string {
	format, err := json.Marshal(formatFile{Format: StateFormat, WrittenBy: version})
	if err != nil {
		panic("contexts: FORMAT does not encode: " + err.Error())
	}
	return map[string]string{
		filepath.Join(l.Dir, ".gitignore"):            ignoreContexts,
		filepath.Join(l.Dir, ".ignore"):               ignoreContexts,
		filepath.Join(l.Dir, ".metadata_never_index"): "",
		// git inside a context must not find the workspace's repository: a reset there would destroy real edits.
		filepath.Join(l.Dir, ".git"):             "gitdir: .ctxfs/not-a-repository\n",
		filepath.Join(l.Layers, "CACHEDIR.TAG"):  cacheTag,
		filepath.Join(l.Staging, "CACHEDIR.TAG"): cacheTag,
		filepath.Join(l.Pool, "CACHEDIR.TAG"):    cacheTag,
		l.Format:                                 string(format) + "\n",
	}
}

// writeMissing writes a marker file whole, so that a power failure leaves none that says nothing.
func writeMissing(path, content string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.WriteFile(path, []byte(content), 0o644)
}

func (l Layout) checkFormat(version string) error {
	data, err := statedir.ReadFile(l.Format, statedir.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.cannotCreate(l.Format, err)
	}
	var f formatFile
	if strings.TrimSpace(string(data)) == "" {
		// A crash came between creating and filling the file, so it is ours.
		return os.Remove(l.Format)
	}
	if err := json.Unmarshal(data, &f); err != nil || f.Format < 1 {
		return LayoutError(fserr.EINVAL, err, "%s is damaged: it should say {\"format\":%d}", l.Format, StateFormat)
	}
	if f.Format > StateFormat {
		needs := f.Needs
		if needs == "" {
			needs = f.WrittenBy
		}
		return &FormatError{Format: f.Format, Needs: needs, Version: version}
	}
	return nil
}

// cannotCreate explains why the state cannot be written, and the remedy. It names the owner of the directory that refused,
// because containers and shared machines often get that wrong.
func (l Layout) cannotCreate(path string, err error) error {
	if _, other := errors.AsType[*statedir.NotPlainError](err); other {
		return err
	}
	code := fserr.CodeOf(err)
	switch code {
	case fserr.EACCES, fserr.EPERM:
	case fserr.EROFS:
		return LayoutError(code, nil, "%s is on a read-only file system: make it writable (mount -o remount,rw, after a repair if its disk failed), "+
			"or use --contexts-dir with a directory on another disk", path)
	case fserr.ENOSPC, fserr.EDQUOT:
		return LayoutError(code, nil, "cannot create %s: %s; free 1 MiB and start again", path, code.Text())
	default:
		return LayoutError(code, err, "cannot create %s: %s", path, code.Text())
	}
	dir := existing(filepath.Dir(path))
	owner := disk.OwnerOf(dir)
	if owner == "" {
		return LayoutError(code, err, "cannot create %s: %s; use --contexts-dir with a directory that ctxfs may write to", path, code.Text())
	}
	return LayoutError(code, err, "cannot create %s: %s is owned by uid %s, ctxfs runs as %d; use --contexts-dir /state or run as %s",
		path, dir, owner, os.Getuid(), owner)
}

func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

package layer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/internal/xattr"
)

// A layer that was built together with a context is packed: until its tree is written, it has these two files instead. The first has
// the content of all files, one after the other. The second is a packIndex.
//
// A copy of small files spends most of its time on making inodes. A pack needs one inode, so the first context of a workspace does not
// wait for two copies. A pack has the content of the context's files from before any program could change them.
const (
	packName      = "pack"
	packIndexName = "pack-index"
)

// packIndex says where in a pack each file's content is. It is written with encoding/gob.
type packIndex struct {
	// MtimeNs is the time of the tree's top.
	MtimeNs int64
	Files   []packed
}

// packed is a file's content, or a directory that has extended attributes. A further name of the same file has no entry.
type packed struct {
	Path         string
	Offset, Size int64
	Xattrs       map[string][]byte
}

const (
	// packSmall is the size in bytes up to which content waits in memory for others.
	packSmall = 64 << 10
	// packBuffer is the size in bytes of a write of small files, and of a block of a large one. A block of zeros takes no space.
	packBuffer = 1 << 20
)

var packBuffers = sync.Pool{New: func() any { b := make([]byte, packBuffer); return &b }}

// packer writes a pack. Its add is safe for concurrent use.
type packer struct {
	dir  string
	file *os.File

	mu    sync.Mutex
	index packIndex
	// end is where the next reservation begins.
	end int64
	// small has the content of small files, which belongs at smallAt.
	small   []byte
	smallAt int64
}

func newPacker(dir string) (*packer, error) {
	file, err := os.OpenFile(filepath.Join(dir, packName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the pack: %w", fserr.CodeOf(err))
	}
	return &packer{dir: dir, file: file}, nil
}

// add packs a file that a copy made.
func (p *packer) add(m tree.Made) error {
	e := packed{Path: m.Rel, Size: m.Stat.Size, Xattrs: m.Xattrs}
	if e.Size <= packSmall {
		return p.addSmall(e, m.Content)
	}
	p.mu.Lock()
	e.Offset = p.end
	p.end += e.Size
	p.index.Files = append(p.index.Files, e)
	p.mu.Unlock()
	_, err := copyContent(m.Content, 0, p.file, e.Offset, e.Size)
	return err
}

func (p *packer) addSmall(e packed, content io.ReaderAt) error {
	buf := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buf)
	data := (*buf)[:e.Size]
	if e.Size > 0 {
		if n, err := content.ReadAt(data, 0); int64(n) < e.Size {
			return shortRead(err)
		}
	}
	full, at := p.append(e, data)
	if full == nil {
		return nil
	}
	_, err := p.file.WriteAt(full, at)
	return err
}

// append adds content to the small files in memory. If they were full before, it returns them and their place; the caller writes them.
func (p *packer) append(e packed, data []byte) (full []byte, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.small == nil || len(p.small)+len(data) > packBuffer {
		full, at = p.small, p.smallAt
		p.small, p.smallAt = make([]byte, 0, packBuffer), p.end
		p.end += packBuffer
	}
	e.Offset = p.smallAt + int64(len(p.small))
	p.small = append(p.small, data...)
	p.index.Files = append(p.index.Files, e)
	return full, at
}

// finish writes what is left, and the index, and closes the pack.
func (p *packer) finish() error {
	_, err := p.file.WriteAt(p.small, p.smallAt)
	if err == nil {
		err = p.file.Truncate(p.end) // zeros at the end were not written
	}
	if err = cmp.Or(err, p.file.Close()); err != nil {
		return fmt.Errorf("write the pack: %w", fserr.CodeOf(err))
	}
	index, err := os.OpenFile(filepath.Join(p.dir, packIndexName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		buf := bufio.NewWriterSize(index, 64<<10)
		err = errors.Join(gob.NewEncoder(buf).Encode(p.index), buf.Flush(), index.Close())
	}
	if err != nil {
		return fmt.Errorf("write the pack's index: %w", fserr.CodeOf(err))
	}
	return nil
}

func shortRead(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = fserr.EIO
	}
	return fmt.Errorf("read what was copied: %w", err)
}

var zeros [packBuffer]byte

// copyContent copies size bytes, without blocks of zeros: what it writes to has none of its own. It returns where the last block that it
// wrote ends, from toAt on.
func copyContent(from io.ReaderAt, at int64, to io.WriterAt, toAt, size int64) (end int64, err error) {
	buf := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buf)
	for done := int64(0); done < size; {
		block := (*buf)[:min(packBuffer, size-done)]
		if n, err := from.ReadAt(block, at+done); n < len(block) {
			return end, shortRead(err)
		}
		done += int64(len(block))
		if bytes.Equal(block, zeros[:len(block)]) {
			continue
		}
		if _, err := to.WriteAt(block, toAt+done-int64(len(block))); err != nil {
			return end, err
		}
		end = done
	}
	return end, nil
}

// Has reports whether a layer has its content.
func (s *Store) Has(digest string) bool { return exists(s.Tree(digest)) || s.Packed(digest) }

// Packed reports whether a layer has a pack and no tree.
func (s *Store) Packed(digest string) bool {
	l := s.layer(digest)
	return !exists(l.Tree) && exists(filepath.Join(l.Dir, packName))
}

// UnpackOptions of Unpack and Complete.
type UnpackOptions struct {
	// Workers bounds the files written at once.
	Workers int
	// Progress may be nil. It is called from one goroutine at a time.
	Progress func(tree.CopyProgress)
}

// Load reads the manifest of a layer.
func (s *Store) Load(digest string) (l *Layer, err error) {
	l = s.layer(digest)
	l.Manifest, err = seed.ReadManifest(l.ManifestFile)
	return l, err
}

// Complete writes the tree of a packed layer in staging, an empty directory on the layers' file system, and then removes the pack. A layer
// whose tree appears meanwhile, or that is removed, is no error. step is called with "unpacked" before the tree gets its name, and with
// "completed" before the pack is removed.
func (s *Store) Complete(ctx context.Context, l *Layer, staging string, opts UnpackOptions, step func(string)) error {
	made, err := s.makeTree(staging)
	if err == nil {
		err = s.Unpack(ctx, l, made, opts)
	}
	if err == nil {
		err = durable.Tree(made)
	}
	if err == nil {
		step("unpacked")
		err = os.Rename(made, l.Tree)
	}
	if err == nil {
		err = durable.Names(l.Dir) // before the pack goes
	}
	if err != nil && !exists(l.Tree) && exists(l.ManifestFile) {
		return fmt.Errorf("write the tree of layer %s: %w", l.Digest, err)
	}
	step("completed")
	return s.DropPack(l.Digest)
}

// DropPack removes the pack of a layer that has its tree. It is no error if there is none.
func (s *Store) DropPack(digest string) error {
	for _, name := range []string{packIndexName, packName} {
		if err := os.Remove(filepath.Join(s.Dir(digest), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what was unpacked: %w", fserr.CodeOf(err))
		}
	}
	return nil
}

// Unpack fills folder, an empty directory that no other program uses, from a packed layer. The folder is then what a copy of the layer's
// tree would be. Unpack fails with fs.ErrNotExist, and changes nothing, if the layer is no longer packed.
func (s *Store) Unpack(ctx context.Context, l *Layer, folder string, opts UnpackOptions) error {
	pack, err := statedir.OpenFile(filepath.Join(l.Dir, packName), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = pack.Close() }()
	index, err := readPackIndex(filepath.Join(l.Dir, packIndexName))
	if err != nil {
		return err
	}
	to, err := rootfs.Open(folder, rootfs.Options{Owner: s.owner, AllowChown: s.owner != nil})
	if err != nil {
		return fmt.Errorf("open the copy: %w", err)
	}
	defer func() { _ = to.Close() }()
	u := &unpacker{ctx: ctx, pack: pack, to: to, folder: folder, opts: opts, content: make(map[string]packed, len(index.Files))}
	for _, e := range index.Files {
		u.content[e.Path] = e
	}
	return u.run(l.Manifest.Entries, index.MtimeNs)
}

func readPackIndex(file string) (index packIndex, err error) {
	f, err := statedir.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		return index, err
	}
	defer func() { _ = f.Close() }()
	if err := gob.NewDecoder(bufio.NewReader(f)).Decode(&index); err != nil {
		return index, fmt.Errorf("read the pack's index: %w: %w", fserr.EIO, err)
	}
	return index, nil
}

// unpacker is one Unpack.
type unpacker struct {
	ctx     context.Context //nolint:containedctx // an unpacker lives for one call
	pack    *os.File
	to      rootfs.Root
	folder  string
	opts    UnpackOptions
	content map[string]packed

	mu   sync.Mutex
	done tree.CopyProgress
}

// unpackBatch is how many files a worker writes at once.
const unpackBatch = 64

// run makes directories and links itself, and has workers write the files. Entries are by path, so that a directory comes before what is
// in it.
func (u *unpacker) run(entries []seed.Entry, topNs int64) error {
	workers, ctx := errgroup.WithContext(u.ctx)
	workers.SetLimit(max(1, u.opts.Workers))
	u.ctx = ctx
	batch := make([]seed.Entry, 0, unpackBatch)
	flush := func() {
		files := batch
		batch = make([]seed.Entry, 0, unpackBatch)
		workers.Go(func() error { return u.files(files) })
	}
	var dirs, links []seed.Entry
	var err error
	for _, e := range entries {
		_, has := u.content[e.Path]
		switch {
		case e.Type == rootfs.TypeDirectory:
			dirs = append(dirs, e)
			err = u.dir(e)
		case e.Type == rootfs.TypeSymlink:
			err = u.symlink(e)
		case !has:
			links = append(links, e)
		default:
			if batch = append(batch, e); len(batch) == unpackBatch {
				flush()
			}
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			break
		}
	}
	flush()
	if failed := workers.Wait(); failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = failed
	}
	if err != nil {
		return err
	}
	if err := u.hardLinks(entries, links); err != nil {
		return err
	}
	for _, e := range slices.Backward(dirs) {
		if err := u.to.Utimes(e.Path, e.MtimeNs, e.MtimeNs, false); err != nil {
			return fserr.Wrap(err, "utime", "/"+e.Path, "")
		}
		if err := u.to.Chmod(e.Path, e.Mode&^0o6000); err != nil {
			return fserr.Wrap(err, "chmod", "/"+e.Path, "")
		}
	}
	return fserr.Wrap(u.to.Utimes(".", topNs, topNs, false), "utime", "/", "")
}

// dir makes a directory that only the server can enter until it is complete.
func (u *unpacker) dir(e seed.Entry) error {
	if err := u.to.Mkdir(e.Path, 0o700); err != nil {
		return fserr.Wrap(err, "mkdir", "/"+e.Path, "")
	}
	return u.xattrs(e.Path)
}

func (u *unpacker) xattrs(path string) error {
	attrs := u.content[path].Xattrs
	if len(attrs) == 0 {
		return nil
	}
	return fserr.Wrap(xattr.Set(filepath.Join(u.folder, filepath.FromSlash(path)), attrs), "setxattr", "/"+path, "")
}

func (u *unpacker) symlink(e seed.Entry) error {
	if err := u.to.Symlink(e.Target, e.Path); err != nil {
		return fserr.Wrap(err, "symlink", "/"+e.Path, "")
	}
	err := u.to.Utimes(e.Path, e.MtimeNs, e.MtimeNs, false)
	if fserr.CodeOf(err) == fserr.EOPNOTSUPP {
		err = nil
	}
	u.count(0)
	return fserr.Wrap(err, "lutime", "/"+e.Path, "")
}

func (u *unpacker) files(batch []seed.Entry) error {
	for _, e := range batch {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.file(e); err != nil {
			return fserr.Wrap(err, "copy", "/"+e.Path, "")
		}
		u.count(u.content[e.Path].Size)
	}
	return nil
}

// file writes one file. No other program sees it before the folder is complete, so it has its mode from the start.
func (u *unpacker) file(e seed.Entry) error {
	const flags = rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_EXCL | rootfs.O_NOFOLLOW
	from := u.content[e.Path]
	f, err := u.to.OpenFile(e.Path, flags, e.Mode&^0o6000|0o200)
	if err != nil {
		return err
	}
	end, err := copyContent(u.pack, from.Offset, f, 0, from.Size)
	if err == nil && end < from.Size {
		err = f.Truncate(from.Size)
	}
	if err == nil {
		err = u.xattrs(e.Path)
	}
	if err == nil && e.Mode&0o200 == 0 {
		err = f.Chmod(e.Mode &^ 0o6000)
	}
	if err == nil {
		err = f.Utimes(e.MtimeNs, e.MtimeNs)
	}
	return cmp.Or(err, f.Close())
}

// hardLinks makes the further names of files that are there.
func (u *unpacker) hardLinks(entries, links []seed.Entry) error {
	if len(links) == 0 {
		return nil
	}
	type file struct{ dev, ino uint64 }
	first := map[file]string{}
	for _, e := range entries {
		if _, has := u.content[e.Path]; has && e.Type == rootfs.TypeFile {
			first[file{e.Dev, e.Ino}] = e.Path
		}
	}
	for _, e := range links {
		to, ok := first[file{e.Dev, e.Ino}]
		if !ok {
			return &fserr.Error{Op: "copy", Path: "/" + e.Path, Code: fserr.EIO, Detail: "the layer's pack has no content for it"}
		}
		if err := u.to.Link(to, e.Path); err != nil {
			return fserr.Wrap(err, "link", "/"+to, "/"+e.Path)
		}
		u.count(0)
	}
	return nil
}

func (u *unpacker) count(bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done.Files++
	u.done.Bytes += bytes
	if u.opts.Progress != nil {
		u.opts.Progress(u.done)
	}
}

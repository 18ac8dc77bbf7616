package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// wholeFile is the largest content that one call reads or writes, in bytes; larger files are streamed.
const wholeFile = 1 << 20

// archived counts what an export or an import carried.
type archived struct {
	ContextID string `json:"contextId"`
	Files     int64  `json:"files"`
	Bytes     int64  `json:"bytes"`
	// LeftOut are names that could not be read, and special files.
	LeftOut []string `json:"leftOut"`
}

func (r *archived) leaveOut(name string) { r.LeftOut = append(r.LeftOut, show(name)) }

// incomplete is the error for what was left out.
func (r *archived) incomplete() error {
	if len(r.LeftOut) == 0 {
		return nil
	}
	return fmt.Errorf("left out because they could not be read, or are special files: %s", strings.Join(r.LeftOut, ", "))
}

func (a *app) reportArchived(r archived) error {
	if a.json {
		return errors.Join(a.printJSON(r), r.incomplete())
	}
	return errors.Join(a.printf("%s  %s, %s\n", r.ContextID, files(r.Files), size(r.Bytes)), r.incomplete())
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export NAME [FILE]", Short: "Write what a context holds into a tar archive, or to standard output",
		Long: "Writes files, directories, symbolic links and hard links with their modes and times. FILE appears whole or not at all.\n" +
			"Programs may use the context meanwhile. Export a fork to get the state of one moment:\n\n" +
			"  ctxfs context fork ID NEW-ID && ctxfs context export NEW-ID FILE; ctxfs context delete NEW-ID",
		Example: "  ctxfs context export ctx_panels~editor editor.tar\n  ctxfs context export ctx_panels~editor | zstd > editor.tar.zst",
		Args:    usage(cobra.RangeArgs(1, 2)),
		RunE: a.withContext(func(ctx context.Context, c *client.Client, args []string) error {
			x, err := c.GetContext(ctx, args[0]) // which also refuses panels
			if err != nil {
				return err
			}
			if x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_READY {
				return fmt.Errorf("%s cannot be exported: it is %s", args[0], stateName(x.GetState()))
			}
			e := exporter{fs: c.Context(args[0]).With(ctx), links: map[inode]string{}, archived: archived{ContextID: args[0], LeftOut: []string{}}}
			switch {
			case len(args) == 2 && args[1] != "-":
				if err := writeWhole(args[1], e.run); err != nil {
					return err
				}
				return a.reportArchived(e.archived)
			case isTerminal(a.env.Stdout):
				return usagef("standard output is a terminal: name a FILE, or redirect the output")
			}
			return errors.Join(e.run(a.env.Stdout), e.incomplete())
		}),
	}
}

// writeWhole lets write fill a file beside name, which takes its place if that succeeds.
func writeWhole(name string, write func(io.Writer) error) error {
	w, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".part*")
	if err != nil {
		return err
	}
	err = write(w)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(w.Name(), name)
	}
	if err != nil {
		_ = os.Remove(w.Name())
	}
	return err
}

// inode identifies a file with several names.
type inode struct{ dev, ino uint64 }

// exporter writes a context's folder into a tar archive.
type exporter struct {
	archived
	fs  *client.FS
	tar *tar.Writer
	// links are the first names of files that have several.
	links map[inode]string
}

func (e *exporter) run(w io.Writer) error {
	e.tar = tar.NewWriter(w)
	root, err := e.fs.Lstat(".")
	if err != nil {
		return err
	}
	if err := e.header(".", root, &tar.Header{Typeflag: tar.TypeDir, Name: "./"}); err != nil {
		return err
	}
	if err := e.directory("."); err != nil {
		return err
	}
	return e.tar.Close()
}

// directory writes what is in a directory. It asks for one directory at a time, so that a large context takes little memory.
func (e *exporter) directory(dir string) error {
	entries, err := e.fs.List(dir, client.ListOptions{Stats: true})
	if err != nil {
		return e.unlessUnreadable(dir, err)
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		info, err := entry.Info()
		if err == nil {
			err = e.entry(name, info)
		}
		if err = e.unlessUnreadable(name, err); err != nil {
			return err
		}
	}
	return nil
}

// unlessUnreadable returns err unless a name is gone, or the server may not read it.
func (e *exporter) unlessUnreadable(name string, err error) error {
	var broken *brokenEntryError
	switch {
	case errors.As(err, &broken):
		return broken.err
	case errors.Is(err, fs.ErrPermission):
		e.leaveOut(name)
		return nil
	case errors.Is(err, fs.ErrNotExist) && name != ".":
		return nil
	}
	return err
}

// brokenEntryError is an error after the header of an entry was written: the export cannot continue.
type brokenEntryError struct{ err error }

func (b *brokenEntryError) Error() string { return b.err.Error() }

func (e *exporter) entry(name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		if err := e.header(name, info, &tar.Header{Typeflag: tar.TypeDir, Name: name + "/"}); err != nil {
			return err
		}
		return e.directory(name)
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := e.fs.Readlink(name)
		if err != nil {
			return err
		}
		return e.header(name, info, &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target})
	case !info.Mode().IsRegular():
		e.leaveOut(name)
		return nil
	}
	if st, ok := info.Sys().(*ctxfsv1.Stat); ok && st.GetNlink() > 1 {
		id := inode{st.GetDev(), st.GetIno()}
		if first, ok := e.links[id]; ok {
			return e.header(name, info, &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first})
		}
		if err := e.file(name, info); err != nil {
			return err
		}
		e.links[id] = name
		return nil
	}
	return e.file(name, info)
}

func (e *exporter) header(name string, info fs.FileInfo, h *tar.Header) error {
	h.Format, h.ModTime, h.Mode = tar.FormatPAX, info.ModTime(), int64(info.Mode().Perm())
	if info.Mode()&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if st, ok := info.Sys().(*ctxfsv1.Stat); ok {
		h.Uid, h.Gid = int(st.GetUid()), int(st.GetGid())
	}
	if err := e.tar.WriteHeader(h); err != nil {
		return &brokenEntryError{fmt.Errorf("archive %s: %w", show(name), err)}
	}
	return nil
}

// file writes a regular file. Its header has the size that it had when it was opened.
func (e *exporter) file(name string, info fs.FileInfo) error {
	var content io.Reader
	length := info.Size()
	if length <= wholeFile {
		data, err := e.fs.ReadFile(name)
		if err != nil {
			return err
		}
		content, length = bytes.NewReader(data), int64(len(data))
	} else {
		r, err := e.fs.ReadStream(name, client.ReadOptions{})
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		content, info, length = r, r.Stat(), r.Stat().Size()
	}
	if err := e.header(name, info, &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: length}); err != nil {
		return err
	}
	switch n, err := io.CopyN(e.tar, content, length); {
	case errors.Is(err, io.EOF):
		return &brokenEntryError{fmt.Errorf("%s became shorter while it was exported (%d of %d bytes): export a fork of the context", show(name), n, length)}
	case err != nil:
		return &brokenEntryError{err}
	}
	e.Files, e.Bytes = e.Files+1, e.Bytes+length
	return nil
}

func (a *app) importCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import ID [FILE]", Short: "Make a context of a tar archive, or of standard input",
		Long: "Makes the context ID, which must not exist, with what the archive holds and nothing else. It appears whole or not at all.\n" +
			"Owners are not restored: all files are the server's user's. Names that lead outside are refused.",
		Example: "  ctxfs context import ctx_panels~editor editor.tar\n  zstd -dc editor.tar.zst | ctxfs context import ctx_panels~editor",
		Args:    usage(cobra.RangeArgs(1, 2)),
		RunE: a.withHost(func(ctx context.Context, c *client.Client, args []string) error {
			r := a.env.Stdin
			if len(args) == 2 && args[1] != "-" {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer func() { _ = f.Close() }()
				r = f
			}
			m, err := importContext(ctx, c, args[0], r)
			if err != nil {
				return err
			}
			return a.reportArchived(m)
		}),
	}
}

// importContext fills a context of another name and forks it to id: what an interrupted import leaves is never taken for whole.
func importContext(ctx context.Context, c *client.Client, id string, r io.Reader) (archived, error) {
	m := importer{archived: archived{ContextID: id, LeftOut: []string{}}}
	x, err := c.GetContext(ctx, id)
	if err != nil {
		return m.archived, err
	}
	if x.GetState() != ctxfsv1.ContextState_CONTEXT_STATE_MISSING {
		return m.archived, fmt.Errorf("%s exists (%s): delete it first, or name another", id, stateName(x.GetState()))
	}
	scratch := scratchID(id)
	if _, err := c.EnsureContext(ctx, scratch, nil); err != nil {
		return m.archived, err
	}
	m.fs = c.Context(scratch).With(ctx)
	err = m.run(r)
	if err == nil {
		_, err = c.Fork(ctx, scratch, id)
	}
	_, deleteErr := c.DeleteContext(context.WithoutCancel(ctx), scratch)
	return m.archived, errors.Join(err, deleteErr)
}

// scratchID returns an ID of the same kind as id, as forks require.
func scratchID(id string) string {
	kind := "ctx_"
	if strings.HasPrefix(id, "unsafe_noctx_") {
		kind = "unsafe_noctx_"
	} else if parts := strings.SplitAfterN(id, "_", 4); strings.HasPrefix(id, "safe_tpl_") && len(parts) == 4 {
		kind = strings.Join(parts[:3], "")
	}
	return kind + "import-" + rand.Text()
}

// importer fills a context's folder from a tar archive.
type importer struct {
	archived
	fs *client.FS
	// dirs get their modes and times at the end, when nothing changes in them any more.
	dirs []*tar.Header
}

func (m *importer) run(r io.Reader) error {
	seeded, err := m.fs.List(".", client.ListOptions{})
	if err != nil {
		return err
	}
	for _, entry := range seeded {
		if err := m.fs.RemoveAll(entry.Name()); err != nil {
			return err
		}
	}
	read := &counter{r: r}
	archive := tar.NewReader(read)
	for {
		entryEnd := read.n
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if read.n-entryEnd < endMark {
				return errors.New("import: the archive ends without its end mark: it was cut off")
			}
			break
		}
		if err == nil {
			err = m.entry(h, archive)
		}
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // the program that writes into a pipe must not fail
		return fmt.Errorf("import: %w", err)
	}
	for i := len(m.dirs) - 1; i >= 0; i-- {
		if err := m.attributes(m.dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *importer) entry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return fmt.Errorf("%s leads outside", show(h.Name))
	}
	h.Name = name
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		m.dirs = append(m.dirs, h)
		return m.fs.MkdirAll(name, 0o700)
	case tar.TypeSymlink:
		return errors.Join(m.place(name, func() error { return m.fs.Symlink(h.Linkname, name) }), m.fs.Lchtimes(name, h.ModTime, h.ModTime))
	case tar.TypeLink:
		return m.place(name, func() error { return m.fs.Link(path.Clean(h.Linkname), name) })
	case tar.TypeReg:
		return m.file(h, content)
	}
	m.leaveOut(name)
	return nil
}

// place creates a name, and its parents if the archive does not have them.
func (m *importer) place(name string, create func() error) error {
	err := create()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := m.fs.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	return create()
}

func (m *importer) file(h *tar.Header, content io.Reader) error {
	create := func() error {
		w, err := m.fs.WriteStream(h.Name, client.WriteOptions{})
		if err != nil {
			return err
		}
		if _, err := w.ReadFrom(content); err != nil {
			w.Abort()
			return err
		}
		return w.Close()
	}
	if h.Size <= wholeFile {
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		create = func() error { return m.fs.WriteFile(h.Name, data, 0o600) }
	} else if err := m.fs.MkdirAll(path.Dir(h.Name), 0o777); err != nil { // a stream is sent once
		return err
	}
	if err := m.place(h.Name, create); err != nil {
		return err
	}
	m.Files, m.Bytes = m.Files+1, m.Bytes+h.Size
	return m.attributes(h)
}

func (m *importer) attributes(h *tar.Header) error {
	if err := m.fs.Chmod(h.Name, fs.FileMode(h.Mode).Perm()|h.FileInfo().Mode()&fs.ModeSticky); err != nil {
		return err
	}
	return m.fs.Chtimes(h.Name, h.ModTime, h.ModTime)
}

// endMark is the length of the zeros that end a tar archive. tar.Reader takes an archive that was cut off before them for whole.
const endMark = 1024

// counter counts what was read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

package seed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/internal/statedir"
)

// Mark says that the file with this inode and ctime is equal to an entry of a manifest. A program inside a context can set neither; it can
// set an mtime. The zero Mark says nothing.
type Mark struct {
	Ino     uint64
	CtimeNs int64
}

// Is reports whether a file is the marked one, unchanged. e is the entry that it is equal to then.
func (m Mark) Is(st rootfs.Stat, e *Entry) bool {
	return m.Ino != 0 && m.Ino == st.Ino && m.CtimeNs == st.CtimeNs && e.looksLike(st)
}

// Marks are what is known of a copy of a layer: a Mark for each entry of the layer's manifest. They are a cache: those that are missing cost
// a comparison of contents. In a context that was seeded into a directory, they are of that directory alone: of Manifest.Seeded.
type Marks []Mark

// MarksFile returns where the marks of a folder are kept until the folder is a context's.
func MarksFile(folder string) string { return folder + ".marks" }

// MarksOf returns the marks of a folder that was just made as a copy of a manifest's layer, and that no other program can reach yet.
func MarksOf(ctx context.Context, folder string, m *Manifest) (Marks, error) {
	m, folder = m.seededIn(folder)
	marks := make(Marks, len(m.Entries))
	err := m.walk(ctx, folder, func(i int, st rootfs.Stat) { marks[i] = Mark{st.Ino, st.CtimeNs} })
	return marks.settled(time.Now()), err
}

// NewMarks returns the marks of a folder that was copied together with its manifest's layer, by the paths of its files. No other program
// can reach the folder yet.
func NewMarks(m *Manifest, made map[string]Mark) Marks {
	into := m.Scope.Into
	m = m.Seeded()
	marks := make(Marks, len(m.Entries))
	for i, e := range m.Entries {
		marks[i] = made[path.Join(into, e.Path)]
	}
	return marks.settled(time.Now())
}

// Carried returns the marks of copied, a folder that was just made as a copy of folder, which marks are of, and that no other program can
// reach yet. Files of folder that changed are not marked.
func (marks Marks) Carried(ctx context.Context, folder, copied string, m *Manifest) (Marks, error) {
	_, copied = m.seededIn(copied)
	m, folder = m.seededIn(folder)
	if len(marks) != len(m.Entries) {
		return nil, nil
	}
	out := make(Marks, len(m.Entries))
	err := m.walk(ctx, copied, func(i int, st rootfs.Stat) { out[i] = Mark{st.Ino, st.CtimeNs} })
	if err != nil {
		return nil, err
	}
	// A file that has its mark after it was copied had it while it was copied.
	same := make([]bool, len(m.Entries))
	err = m.walk(ctx, folder, func(i int, st rootfs.Stat) { same[i] = marks[i].Is(st, &m.Entries[i]) })
	for i := range out {
		if !same[i] {
			out[i] = Mark{}
		}
	}
	return out.settled(time.Now()), err
}

// Moved returns the marks, which are of the manifest old, for the manifest now. Files that are not the same in both must have been
// replaced since.
func (marks Marks) Moved(old, now *Manifest) Marks {
	if len(marks) != len(old.Entries) {
		return nil
	}
	out := make(Marks, len(now.Entries))
	for i := range old.Entries {
		if at, ok := now.find(old.Entries[i].Path); ok {
			out[at] = marks[i]
		}
	}
	return out
}

// seededIn returns the manifest of what was seeded, and where that is in a folder.
func (m *Manifest) seededIn(folder string) (*Manifest, string) {
	return m.Seeded(), filepath.Join(folder, m.Scope.Into)
}

// walk calls f with each file and link of a folder that has an entry which it may be equal to.
func (m *Manifest) walk(ctx context.Context, folder string, f func(i int, st rootfs.Stat)) error {
	root, err := rootfs.Open(folder, rootfs.Options{})
	if err != nil {
		return err
	}
	err = root.Walk(ctx, "/", tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, err error) error {
		if err != nil || e.Stat == nil || e.Type == rootfs.TypeDirectory {
			return nil // it has no mark
		}
		if i, ok := m.find(rel); ok && m.Entries[i].looksLike(*e.Stat) {
			f(i, *e.Stat)
		}
		return nil
	})
	return errors.Join(err, root.Close())
}

func (m *Manifest) find(p string) (int, bool) {
	return slices.BinarySearchFunc(m.Entries, p, func(e Entry, p string) int { return cmp.Compare(e.Path, p) })
}

// executable are the permission bits that count for git.
const executable = 0o111

// looksLike reports whether a file or link may be equal to the entry.
func (e *Entry) looksLike(st rootfs.Stat) bool {
	switch e.Type {
	case rootfs.TypeFile:
		return st.Type() == rootfs.TypeFile && st.Size == e.Size && (st.Mode&executable != 0) == (e.Mode&executable != 0)
	case rootfs.TypeSymlink:
		return st.Type() == rootfs.TypeSymlink
	}
	return false
}

// settled drops the marks that a change from now on could leave valid.
func (marks Marks) settled(now time.Time) Marks {
	for i := range marks {
		if !Settled(marks[i].CtimeNs, now) {
			marks[i] = Mark{}
		}
	}
	return marks
}

// Settled reports whether every change of a file from now on will show in its ctime. This is git's rule for racily clean files.
func Settled(ctimeNs int64, now time.Time) bool {
	granularity := TickTime
	if ctimeNs%int64(time.Second) == 0 { // the file system may keep whole seconds
		granularity = secondsTime
	}
	return time.Unix(0, ctimeNs).Before(now.Add(-granularity))
}

// marksMagic begins a file of marks, with its version. The layer's digest and a newline follow, and 16 bytes for each Mark: inode and
// ctime, little-endian.
const marksMagic = "ctxfs known 1\n"

const markSize = 16

// ReadMarks reads marks of a layer's copy, nil if there are none that can be used.
func ReadMarks(file, digest string) Marks {
	data, err := statedir.ReadFile(file, statedir.MaxList)
	if err != nil {
		return nil
	}
	rest, ok := bytes.CutPrefix(data, []byte(marksMagic+digest+"\n"))
	if !ok || len(rest)%markSize != 0 {
		return nil
	}
	marks := make(Marks, len(rest)/markSize)
	for i := range marks {
		at := rest[i*markSize:]
		marks[i] = Mark{binary.LittleEndian.Uint64(at), int64(binary.LittleEndian.Uint64(at[8:]))}
	}
	return marks
}

// Write replaces a file by the marks, which are of a copy of the layer with the digest.
func (marks Marks) Write(file, digest string) (err error) {
	data := make([]byte, 0, len(marksMagic)+len(digest)+1+len(marks)*markSize)
	data = append(append(append(data, marksMagic...), digest...), '\n')
	for _, m := range marks {
		data = binary.LittleEndian.AppendUint64(data, m.Ino)
		data = binary.LittleEndian.AppendUint64(data, uint64(m.CtimeNs))
	}
	f, err := os.CreateTemp(filepath.Dir(file), "new-")
	if err != nil {
		return fmt.Errorf("keep which files are unchanged: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

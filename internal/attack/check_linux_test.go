package attack

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// leak records what must not be.
func (w *world) leak(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.leaks) < 20 {
		w.leaks = append(w.leaks, fmt.Sprintf(format, args...))
	}
}

// takeLeaks returns what was found since it was asked last.
func (w *world) takeLeaks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.leaks
	w.leaks = nil
	return found
}

// report fails the test by what was found.
func (w *world) report() {
	w.Helper()
	for _, l := range w.takeLeaks() {
		w.Error(l)
	}
}

func (w *world) leaking() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.leaks) > 0
}

// checkBytes looks for what must not leave in what left.
func (w *world) checkBytes(what string, data []byte) {
	for needle, is := range w.needles {
		if bytes.Contains(data, []byte(needle)) {
			w.leak("%s carries %s: %.300q", what, is, data)
		}
	}
}

// checkReply looks into a message, as it is on the wire, and at the identities of files in it.
func (w *world) checkReply(what string, m proto.Message) {
	data, err := proto.Marshal(m)
	if err != nil {
		w.leak("%s: %v", what, err)
		return
	}
	w.checkBytes(what, data)
	w.checkStats(what, m.ProtoReflect())
}

// checkStats looks for attributes of a file that lies outside.
func (w *world) checkStats(what string, m protoreflect.Message) {
	if st, ok := m.Interface().(*ctxfsv1.Stat); ok {
		if name, outside := w.before.ids[fileID{st.GetDev(), st.GetIno()}]; outside {
			w.leak("%s tells the attributes of %s", what, name)
		}
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				w.checkStats(what, v.List().Get(i).Message())
			}
		default:
			w.checkStats(what, v.Message())
		}
		return true
	})
}

// checkAll is what is checked after every case.
func (w *world) checkAll(what string) {
	w.checkLog(what)
	after := w.snapshot()
	for _, d := range w.before.diff(after) {
		w.leak("%s: outside, %s", what, d)
	}
	w.checkVictim(what)
}

// checkInside looks for outside content that came into the context, and for files that
// would run as another user. It has to be asked before the context is planted anew. What
// the case itself put there is named in planted, from the top of the context.
func (w *world) checkInside(what string, planted map[string]bool) {
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, w.dir+"/")
		switch {
		case err != nil:
			return nil //nolint:nilerr // what cannot be read has not come in
		case strings.Contains(d.Name(), w.secret) && !planted[name]:
			w.leak("%s: %s has come in", what, name)
		case planted[name] && d.IsDir():
			return filepath.SkipDir
		case planted[name], !d.Type().IsRegular() && !d.IsDir():
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(w.secret)) {
			w.leak("%s: %s has outside content", what, name)
		}
		if info, err := d.Info(); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			w.leak("%s: %s is setuid", what, name)
		}
		return nil
	})
	if err != nil {
		w.leak("%s: %v", what, err)
	}
}

type fileID struct{ dev, ino uint64 }

// snapshot is all that lies outside the attacker's context.
type snapshot struct {
	files map[string]string
	ids   map[fileID]string
}

// snapshot looks at everything below base but the attacker's context, and what the
// server itself keeps changing, as the mark of a layer that differs from the workspace. Of the service's
// own directory, of layers and of the directory that a mover moves directories to, size and time are left out.
func (w *world) snapshot() snapshot { return w.snapshotOf(w.base) }

func (w *world) snapshotOf(top string) snapshot {
	w.Helper()
	s := snapshot{files: map[string]string{}, ids: map[fileID]string{}}
	own := w.in("ws", ".contexts", ".ctxfs")
	layers := filepath.Join(own, "layers")
	skip := map[string]bool{
		w.dir: true, w.attacker.dir: true, filepath.Join(own, "overlay", filepath.Base(w.dir)): true, filepath.Join(own, "locks"): true, filepath.Join(own, "batches"): true, filepath.Join(own, "feeds"): true,
	}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case skip[path]:
			return filepath.SkipDir
		case filepath.Dir(path) == own && strings.HasPrefix(d.Name(), "ctxfs."):
			return nil // the database and the socket
		case filepath.Dir(filepath.Dir(path)) == layers && d.Name() == "stale":
			return nil
		}
		return s.add(path, path == own || path == w.away() || filepath.Dir(path) == layers)
	})
	if err != nil {
		w.leak("look outside: %v", err)
	}
	return s
}

func (s snapshot) add(path string, changing bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	s.ids[fileID{st.Dev, st.Ino}] = path
	text := fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
	if !changing {
		text += fmt.Sprintf(" %d %s", info.Size(), info.ModTime())
	}
	if info.Mode().IsRegular() {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text += fmt.Sprintf(" %x", sha256.Sum256(data))
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		text += " -> " + target
	}
	s.files[path] = text
	return nil
}

func (s snapshot) diff(now snapshot) (found []string) {
	for path, was := range s.files {
		if is := now.files[path]; is != was {
			found = append(found, fmt.Sprintf("%s was %q and is %q", path, was, is))
		}
	}
	for path := range now.files {
		if _, ok := s.files[path]; !ok {
			found = append(found, path+" is new")
		}
	}
	return found
}

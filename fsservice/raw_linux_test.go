package fsservice_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// What every case finds, by names that are not UTF-8: macOS and Windows refuse them.
const (
	rawDir   = "d\xff"
	rawFile  = "d\xff/f\xfe" // holds "hello"
	rawLink  = "l\xfd"       // to rawFile
	rawEmpty = "e\xfc"       // a directory
	rawNew   = "n\xfb"       // not there
)

// rawCase calls a method, after which names are gone, others made.
type rawCase struct {
	method string
	req    proto.Message
	// begin, unless nil, is called before.
	begin func(w *world)
	gone  []string
	made  map[string]string // as tree has them
	// check says what is wrong with the replies; "" when nothing is.
	check func(w *world, replies []proto.Message) string
}

// tree returns what the context holds: "dir", "-> target", or mode and content.
func (w *world) tree() map[string]string {
	w.Helper()
	all := map[string]string{}
	w.must(filepath.WalkDir(w.dir, func(full string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(full, w.dir), "/")
		if err != nil || name == "" {
			return err
		}
		all[name], err = described(full, e)
		return err
	}))
	return all
}

func described(full string, e fs.DirEntry) (string, error) {
	switch e.Type() {
	case fs.ModeDir:
		return "dir", nil
	case fs.ModeSymlink:
		target, err := os.Readlink(full)
		return "-> " + target, err
	}
	st, err := e.Info()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(full)
	return fmt.Sprintf("%o %s", st.Mode().Perm(), content), err
}

func newRawWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.put(rawFile, "hello")
	w.must(os.Symlink(rawFile, filepath.Join(w.dir, rawLink)))
	w.must(os.Mkdir(filepath.Join(w.dir, rawEmpty), 0o755))
	return w
}

// TestNamesThatAreNotUTF8OnEveryMethod fails for a method with a raw twin and without a case.
func TestNamesThatAreNotUTF8OnEveryMethod(t *testing.T) {
	t.Parallel()
	cases := append(append(append(rawReads(), rawWrites()...), rawNames()...), rawLists()...)
	for _, m := range methods() {
		twins, _ := rawTwins(t, m)
		has := false
		for _, c := range cases {
			if c.method == string(m.Name()) {
				has = true
				t.Run(c.method, func(t *testing.T) {
					c.run(newRawWorld(t), func(w *world) ([]proto.Message, error) { return w.invoke(w.as("a"), m, c.req) })
				})
				if sessiontest.MethodOf(c.req) != nil {
					t.Run("Session/"+c.method, func(t *testing.T) {
						c.run(newRawWorld(t), func(w *world) ([]proto.Message, error) { return w.session("a", "").whole(c.req) })
					})
				}
			}
		}
		if has != (len(twins) > 0) {
			t.Errorf("%s: has a case: %v, has raw fields: %v", m.Name(), has, len(twins) > 0)
		}
	}
}

func (c rawCase) run(w *world, call func(*world) ([]proto.Message, error)) {
	w.Helper()
	if c.begin != nil {
		c.begin(w)
	}
	want := w.tree()
	replies, err := call(w)
	w.must(err)
	if c.check != nil {
		if wrong := c.check(w, replies); wrong != "" {
			w.Error(wrong)
		}
	}
	for _, name := range c.gone {
		delete(want, name)
	}
	maps.Copy(want, c.made)
	if d := cmp.Diff(want, w.tree()); d != "" {
		w.Error(d)
	}
}

// is checks something of the first reply.
func is[M proto.Message, T comparable](get func(M) T, want T) func(*world, []proto.Message) string {
	return func(_ *world, replies []proto.Message) string {
		m, ok := replies[0].(M)
		if !ok {
			return fmt.Sprintf("reply %T", replies[0])
		}
		if got := get(m); got != want {
			return fmt.Sprintf("got %#v, want %#v", got, want)
		}
		return ""
	}
}

func rawReads() []rawCase {
	file, link := []byte(rawFile), []byte(rawLink)
	return []rawCase{
		{method: "ReadFile", req: &ctxfsv1.ReadFileRequest{RawPath: link}, check: is(func(m *ctxfsv1.ReadFileResponse) string { return string(m.GetData()) }, "hello")},
		{method: "ReadStream", req: &ctxfsv1.ReadStreamRequest{RawPath: file}, check: streamed},
		{method: "Export", req: &ctxfsv1.ExportRequest{RawPath: file}, check: exported},
		{method: "Stat", req: &ctxfsv1.StatRequest{RawPath: link}, check: is(func(m *ctxfsv1.StatResponse) int64 { return m.GetStat().GetSize() }, 5)},
		{method: "Lstat", req: &ctxfsv1.LstatRequest{RawPath: link}, check: is(func(m *ctxfsv1.LstatResponse) int64 { return m.GetStat().GetSize() }, int64(len(rawFile)))},
		{method: "Statfs", req: &ctxfsv1.StatfsRequest{RawPath: file}, check: is(func(m *ctxfsv1.StatfsResponse) bool { return m.GetBsize() > 0 }, true)},
		{method: "Access", req: &ctxfsv1.AccessRequest{RawPath: file, Mode: 4}},
		{method: "Exists", req: &ctxfsv1.ExistsRequest{RawPath: link}, check: is((*ctxfsv1.ExistsResponse).GetExists, true)},
		{method: "Realpath", req: &ctxfsv1.RealpathRequest{RawPath: link}, check: is(func(m *ctxfsv1.RealpathResponse) string { return m.GetPath() + string(m.GetRawPath()) }, "/"+rawFile)},
		{method: "Readlink", req: &ctxfsv1.ReadlinkRequest{RawPath: link}, check: is(func(m *ctxfsv1.ReadlinkResponse) string { return m.GetTarget() + string(m.GetRawTarget()) }, rawFile)},
		{method: "Open", req: &ctxfsv1.OpenRequest{RawPath: file}, check: opened},
	}
}

func streamed(_ *world, replies []proto.Message) string {
	var b strings.Builder
	for _, m := range replies {
		if m, ok := m.(*ctxfsv1.ReadStreamResponse); ok {
			b.Write(m.GetData())
		}
	}
	if b.String() != "hello" {
		return fmt.Sprintf("streamed %q", b.String())
	}
	return ""
}

// exported checks that the archive names the file.
func exported(_ *world, replies []proto.Message) string {
	first, ok := replies[0].(*ctxfsv1.ExportResponse)
	h, err := tar.NewReader(bytes.NewReader(first.GetChunk())).Next()
	if !ok || err != nil || h.Name != filepath.Base(rawFile) {
		return fmt.Sprintf("exported %v (%v)", h, err)
	}
	return ""
}

// openArchive opens handle 3 on an empty archive.
func openArchive(w *world) {
	w.Helper()
	_, err := w.client.Open(w.as("a"), &ctxfsv1.OpenRequest{Path: "/archive", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w+"}, Atomic: true})
	w.must(err)
	_, err = w.client.Write(w.as("a"), &ctxfsv1.WriteRequest{Fd: 3, Content: &ctxfsv1.WriteRequest_Data{Data: make([]byte, 1024)}})
	w.must(err)
}

// opened reads through the handle, and checks that the handle is listed by its name.
func opened(w *world, replies []proto.Message) string {
	open, ok := replies[0].(*ctxfsv1.OpenResponse)
	if got := w.read(open.GetFd(), nil, 9); !ok || got != "hello" {
		return fmt.Sprintf("%v reads %q", replies[0], got)
	}
	list, err := w.client.ListHandles(w.as("a"), &ctxfsv1.ListHandlesRequest{})
	w.must(err)
	if h := list.GetHandles(); len(h) != 1 || string(h[0].GetRawPath()) != rawFile || h[0].GetPath() != "" {
		return fmt.Sprintf("handles %v", h)
	}
	return ""
}

func rawWrites() []rawCase {
	file, link, fresh := []byte(rawFile), []byte(rawLink), []byte(rawNew)
	one, two := proto.Int64(1_000_000_001), proto.Int64(2_000_000_002)
	none := proto.Int64(-1)
	holds := func(content string) map[string]string { return map[string]string{rawFile: content} }
	return []rawCase{
		{method: "WriteFile", req: &ctxfsv1.WriteFileRequest{RawPath: fresh}, made: map[string]string{rawNew: "644 "}},
		{method: "WriteFile", req: &ctxfsv1.WriteFileRequest{RawPath: file, Atomic: true}, made: holds("644 ")},
		{method: "AppendFile", req: &ctxfsv1.AppendFileRequest{RawPath: link, Content: &ctxfsv1.AppendFileRequest_Text{Text: "!"}}, made: holds("644 hello!")},
		{method: "Import", req: &ctxfsv1.ImportOpen{RawPath: fresh}, made: map[string]string{rawNew: "dir"}},
		{method: "Extract", req: &ctxfsv1.ExtractRequest{Fd: 3, RawPath: fresh}, begin: openArchive, made: map[string]string{rawNew: "dir"}},
		{method: "WriteStream", req: &ctxfsv1.WriteStreamOpen{RawPath: file}, made: holds("644 ")},
		{method: "WriteStream", req: &ctxfsv1.WriteStreamOpen{RawPath: fresh}, made: map[string]string{rawNew: "644 "}},
		{method: "Truncate", req: &ctxfsv1.TruncateRequest{RawPath: file, Len: proto.Int64(2)}, made: holds("644 he")},
		{
			method: "EditFile", req: &ctxfsv1.EditFileRequest{RawPath: file, Edits: []*ctxfsv1.TextEdit{{OldText: "ell", NewText: "a"}}}, made: holds("644 hao"),
		},
		{method: "Chmod", req: &ctxfsv1.ChmodRequest{RawPath: link, ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: 0o600}}, made: holds("600 hello")},
		{method: "Chown", req: &ctxfsv1.ChownRequest{RawPath: link, Uid: none, Gid: none}},
		{method: "Lchown", req: &ctxfsv1.LchownRequest{RawPath: link, Uid: none, Gid: none}},
		{method: "Utimes", req: &ctxfsv1.UtimesRequest{RawPath: link, AtimeNs: one, MtimeNs: two}, check: modified(rawFile)},
		{method: "Lutimes", req: &ctxfsv1.LutimesRequest{RawPath: link, AtimeNs: one, MtimeNs: two}, check: modified(rawLink)},
	}
}

// modified checks that a name's mtime is 2 s and 2 ns.
func modified(name string) func(*world, []proto.Message) string {
	return func(w *world, _ []proto.Message) string {
		st, err := os.Lstat(filepath.Join(w.dir, name))
		w.must(err)
		if st.ModTime().UnixNano() != 2_000_000_002 {
			return fmt.Sprintf("%q was modified at %v", name, st.ModTime())
		}
		return ""
	}
}

func rawNames() []rawCase {
	dir, file, link, empty, fresh := []byte(rawDir), []byte(rawFile), []byte(rawLink), []byte(rawEmpty), []byte(rawNew)
	copied := map[string]string{rawNew: "644 hello"}
	return []rawCase{
		{method: "Rename", req: &ctxfsv1.RenameRequest{RawPath: file, RawDest: fresh}, gone: []string{rawFile}, made: copied},
		{method: "Link", req: &ctxfsv1.LinkRequest{RawPath: file, RawDest: fresh}, made: copied},
		{method: "CopyFile", req: &ctxfsv1.CopyFileRequest{RawPath: link, RawDest: fresh}, made: copied},
		{
			method: "Cp", req: &ctxfsv1.CpRequest{RawPath: dir, RawDest: fresh, Recursive: true},
			made: map[string]string{rawNew: "dir", rawNew + "/f\xfe": "644 hello"},
		},
		{method: "Rm", req: &ctxfsv1.RmRequest{RawPath: dir, Recursive: true}, gone: []string{rawDir, rawFile}},
		{method: "Rmdir", req: &ctxfsv1.RmdirRequest{RawPath: empty}, gone: []string{rawEmpty}},
		{method: "Unlink", req: &ctxfsv1.UnlinkRequest{RawPath: link}, gone: []string{rawLink}},
		{method: "Symlink", req: &ctxfsv1.SymlinkRequest{RawTarget: []byte("t\xf9"), RawPath: fresh}, made: map[string]string{rawNew: "-> t\xf9"}},
		{
			method: "Mkdir", req: &ctxfsv1.MkdirRequest{RawPath: []byte(rawNew + "/m\xfa"), Recursive: true},
			made:  map[string]string{rawNew: "dir", rawNew + "/m\xfa": "dir"},
			check: is(func(m *ctxfsv1.MkdirResponse) string { return m.GetPath() + string(m.GetRawPath()) }, "/"+rawNew),
		},
		{method: "Mkdtemp", req: &ctxfsv1.MkdtempRequest{RawPrefix: []byte(rawDir + "/t\xfb-")}, check: tempMade},
	}
}

// tempMade removes what was made, by the name of the reply.
func tempMade(w *world, replies []proto.Message) string {
	made, ok := replies[0].(*ctxfsv1.MkdtempResponse)
	if !ok || made.GetPath() != "" || !strings.HasPrefix(string(made.GetRawPath()), rawDir+"/t\xfb-") {
		return fmt.Sprintf("made %v", replies[0])
	}
	w.must(os.Remove(filepath.Join(w.dir, string(made.GetRawPath()))))
	return ""
}

func rawLists() []rawCase {
	dir := []byte(rawDir)
	entries := func(replies []proto.Message) (all []*ctxfsv1.DirEntry) {
		for _, m := range replies {
			switch m := m.(type) {
			case *ctxfsv1.ReaddirResponse:
				all = append(all, m.GetEntries()...)
			case *ctxfsv1.OpendirResponse:
				all = append(all, m.GetEntries().GetEntries()...)
			case *ctxfsv1.GlobResponse:
				all = append(all, m.GetMatches().GetEntries()...)
			}
		}
		return all
	}
	theFile := func(_ *world, replies []proto.Message) string {
		e := entries(replies)
		if len(e) != 1 || string(e[0].GetRawName()) != "f\xfe" || string(e[0].GetRawParentPath()) != "/"+rawDir || e[0].GetName()+e[0].GetParentPath() != "" {
			return fmt.Sprintf("entries %v", e)
		}
		return ""
	}
	return []rawCase{
		{method: "Readdir", req: &ctxfsv1.ReaddirRequest{RawPath: dir}, check: theFile},
		{method: "Readdir", req: &ctxfsv1.ReaddirRequest{RawPath: dir, Recursive: true, WithStats: true}, check: theFile},
		{method: "Opendir", req: &ctxfsv1.OpendirRequest{RawPath: dir, WithStats: true}, check: theFile},
		{method: "Opendir", req: &ctxfsv1.OpendirRequest{RawPath: dir, Recursive: true}, check: theFile},
		{method: "Glob", req: &ctxfsv1.GlobRequest{RawPath: dir, Patterns: []string{"f?"}}, check: theFile},
		{method: "Glob", req: &ctxfsv1.GlobRequest{Patterns: []string{"**/f*"}, Exclude: []string{"e?"}}, check: theFile},
		{method: "Grep", req: &ctxfsv1.GrepRequest{RawPath: dir, Pattern: "el+"}, check: grepped},
		{method: "Grep", req: &ctxfsv1.GrepRequest{Path: "/", Pattern: "el+", Include: []string{"f?"}}, check: grepped},
		{method: "Grep", req: &ctxfsv1.GrepRequest{RawPath: []byte(rawFile), Pattern: "el+"}, check: grepped},
		{method: "WatchChanges", req: &ctxfsv1.WatchChangesRequest{RawPath: dir, Follow: proto.Bool(false)}, check: is(func(m *ctxfsv1.WatchChangesResponse) bool { return m.GetReady() != nil }, true)},
		{method: "Watch", req: &ctxfsv1.WatchRequest{RawPath: dir, Recursive: true}, check: is(func(m *ctxfsv1.WatchResponse) bool { return m.GetReady() != nil }, true)},
	}
}

func grepped(_ *world, replies []proto.Message) string {
	m, ok := replies[0].(*ctxfsv1.GrepResponse)
	if f := m.GetFile(); !ok || string(f.GetRawPath()) != "/"+rawFile || f.GetPath() != "" || len(f.GetLines()) != 1 {
		return fmt.Sprintf("found %v", replies[0])
	}
	return ""
}

// TestWatchNamesWhatIsNotUTF8 waits for an event of a file, and for one of a file in a directory below.
func TestWatchNamesWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	w := newRawWorld(t)
	w.must(os.Mkdir(filepath.Join(w.dir, rawDir, "s\xf8"), 0o755))
	s, err := w.client.Watch(w.as("a"), &ctxfsv1.WatchRequest{RawPath: []byte(rawDir), Recursive: true})
	w.must(err)
	_, err = s.Recv()
	w.must(err)
	for _, name := range []string{"new\xfb", "s\xf8/new\xfb"} {
		w.put(rawDir+"/"+name, "x")
		for {
			msg, err := s.Recv()
			if err != nil {
				t.Fatalf("no event of %q: %v", name, err)
			}
			if e := msg.GetEvent(); string(e.GetRawFilename()) == name && e.GetFilename() == "" {
				break
			}
		}
	}
}

package fsservice_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// effect is what a call does. It succeeds for callers that may write.
type effect string

const (
	reading  effect = "reads"
	changing effect = "changes"
	// refused is what a read-only panel may not do although nothing is seen to change.
	refused effect = "is refused"
	// once is reading, and does not work a second time.
	once effect = "ends something"
)

// rightsCase is a call. Handle 3 is /file, open for reading and writing, of both panels.
type rightsCase struct {
	method string
	effect effect
	req    proto.Message
}

// TestFlagsDecideWhetherTheGateIsEnteredToWrite holds the calls that read or write by their flags to what a fork relies on: while
// it copies, no writer is admitted.
func TestFlagsDecideWhetherTheGateIsEnteredToWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for flag, want := range map[string]contexts.Use{
		"r": contexts.Read, "rs": contexts.Read, "r+": contexts.Write, "w+": contexts.Write, "wx+": contexts.Write, "a+": contexts.Write,
	} {
		_, _ = w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{Path: "/new-" + flag, FlagForm: &ctxfsv1.ReadFileRequest_Flag{Flag: flag}})
		if w.gate.used != want {
			t.Errorf("ReadFile with flag %s enters the gate with use %v, want %v", flag, w.gate.used, want)
		}
		_, _ = w.client.Open(w.as("a"), &ctxfsv1.OpenRequest{Path: "/new-" + flag, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: flag}})
		if w.gate.used != want {
			t.Errorf("Open with flag %s enters the gate with use %v, want %v", flag, w.gate.used, want)
		}
	}
}

// TestReaderOfASnapshotSeesItAlone checks that a caller whose identity names a snapshot reads that, by all kinds of calls, and changes nothing.
func TestReaderOfASnapshotSeesItAlone(t *testing.T) {
	w := newWorld(t)
	w.put("live", "the context's")
	w.gate.ready["ctx_b"] = true
	if _, err := w.client.WriteFile(w.as("b"), &ctxfsv1.WriteFileRequest{Path: "/kept", Content: &ctxfsv1.WriteFileRequest_Data{Data: []byte("the snapshot's")}}); err != nil {
		t.Fatal(err)
	}
	stream, err := w.client.ReadStream(w.as("a-snapshot"), &ctxfsv1.ReadStreamRequest{Path: "/kept"})
	var got []byte
	for err == nil {
		var part *ctxfsv1.ReadStreamResponse
		if part, err = stream.Recv(); err == nil {
			got = append(got, part.GetData()...)
		}
	}
	if !errors.Is(err, io.EOF) || string(got) != "the snapshot's" {
		t.Errorf("it reads %q, %v", got, err)
	}
	for name, call := range map[string]func() error{
		"ENOENT": func() error {
			_, err := w.client.Stat(w.as("a-snapshot"), &ctxfsv1.StatRequest{Path: "/live"})
			return err
		},
		"EROFS": func() error {
			_, err := w.client.Unlink(w.as("a-snapshot"), &ctxfsv1.UnlinkRequest{Path: "/kept"})
			return err
		},
	} {
		if e, ok := fserrpb.FromStatus(call()); !ok || e.Code.String() != name {
			t.Errorf("got %v, want %s", e, name)
		}
	}
}

// withoutCase are the methods that have none, and why.
var withoutCase = map[protoreflect.Name]string{
	"Session": "its operations are the other methods; each has its case in a session too",
	"Hold":    "it keeps handles and touches no file",
	"Extract": "it needs an archive; TestExtractReadsAHandle has its case",
}

// TestAReadOnlyPanelChangesNothing fails for a method without a case.
func TestAReadOnlyPanelChangesNothing(t *testing.T) {
	t.Parallel()
	cases := append(append(rightsOfNames(), rightsOfFiles()...), append(rightsOfHandles(), rightsOfReads()...)...)
	for _, m := range methods() {
		has := withoutCase[m.Name()] != ""
		for i, c := range cases {
			if c.method != string(m.Name()) {
				continue
			}
			has = true
			t.Run(fmt.Sprintf("%s/%d", c.method, i), func(t *testing.T) {
				w := newWorld(t)
				c.run(w, func(who string) error { _, err := w.invoke(w.as(who), m, c.req); return err })
			})
			if sessiontest.MethodOf(c.req) != nil {
				t.Run(fmt.Sprintf("Session/%s/%d", c.method, i), func(t *testing.T) {
					w := newWorld(t)
					c.run(w, func(who string) error { _, err := w.session(who, "").whole(c.req); return err })
				})
			}
		}
		if !has {
			t.Errorf("%s: say what a read-only panel may do with it", m.Name())
		}
	}
}

// run makes the call as a read-only panel, and as one that may write.
func (c rightsCase) run(w *world, call func(who string) error) {
	w.Helper()
	w.put("file", "hello")
	w.put("dir/inner", "inner")
	w.must(os.Mkdir(filepath.Join(w.dir, "empty"), 0o755))
	w.must(os.Symlink("file", filepath.Join(w.dir, "link")))
	w.open("a", "/file", "r+")
	before := w.stats()
	err := call("a-readonly")
	if c.effect == changing || c.effect == refused {
		if !isErrno(err, fserr.EROFS) {
			w.Errorf("read-only: %v, want EROFS", err)
		}
	} else {
		w.must(err)
	}
	if d := cmp.Diff(before, w.stats()); d != "" {
		w.Errorf("a read-only panel changed this: %s", d)
	}
	if c.effect == once {
		return
	}
	w.must(call("a"))
	if changed := !cmp.Equal(before, w.stats()); changed != (c.effect == changing) {
		w.Errorf("who may write changed something: %v", changed)
	}
}

// isErrno says that err is of a code, whether it came as a status or in a session.
func isErrno(err error, code fserr.Code) bool {
	e, ok := fserrpb.FromStatus(err)
	return ok && e.Code == code || errors.Is(err, code)
}

// stats returns what there is, with all that a call could change.
func (w *world) stats() map[string]string {
	w.Helper()
	all := map[string]string{}
	w.must(filepath.WalkDir(w.dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(name)
		if err == nil {
			all[name] = fmt.Sprintf("%v %d %v", st.Mode(), st.Size(), st.ModTime())
		}
		return err
	}))
	return all
}

func rightsOfNames() []rightsCase {
	return []rightsCase{
		{"CopyFile", changing, &ctxfsv1.CopyFileRequest{Path: "/file", Dest: "/new"}},
		{"Cp", changing, &ctxfsv1.CpRequest{Path: "/dir", Dest: "/new", Recursive: true}},
		{"Rename", changing, &ctxfsv1.RenameRequest{Path: "/file", Dest: "/new"}},
		{"Rm", changing, &ctxfsv1.RmRequest{Path: "/dir", Recursive: true}},
		{"Rm", changing, &ctxfsv1.RmRequest{Path: "/file", Force: true}},
		{"Rmdir", changing, &ctxfsv1.RmdirRequest{Path: "/empty"}},
		{"Unlink", changing, &ctxfsv1.UnlinkRequest{Path: "/file"}},
		{"Mkdir", changing, &ctxfsv1.MkdirRequest{Path: "/new"}},
		{"Mkdir", changing, &ctxfsv1.MkdirRequest{Path: "/new/below", Recursive: true}},
		{"Mkdtemp", changing, &ctxfsv1.MkdtempRequest{Prefix: "/new"}},
		{"Symlink", changing, &ctxfsv1.SymlinkRequest{Target: "file", Path: "/new"}},
		{"Import", changing, &ctxfsv1.ImportOpen{Path: "/new"}},
		{"Link", changing, &ctxfsv1.LinkRequest{Path: "/file", Dest: "/new"}},
	}
}

func rightsOfFiles() []rightsCase {
	open := func(flags string) *ctxfsv1.OpenRequest {
		return &ctxfsv1.OpenRequest{Path: "/new", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: flags}}
	}
	one, same := proto.Int64(1), proto.Int64(-1)
	return []rightsCase{
		{"WriteFile", changing, &ctxfsv1.WriteFileRequest{Path: "/new"}},
		{"WriteFile", changing, &ctxfsv1.WriteFileRequest{Path: "/file", Atomic: true}},
		{"WriteFile", changing, &ctxfsv1.WriteFileRequest{Fd: proto.Int32(3), Content: &ctxfsv1.WriteFileRequest_Text{Text: "x"}}},
		{"AppendFile", changing, &ctxfsv1.AppendFileRequest{Path: "/file", Content: &ctxfsv1.AppendFileRequest_Text{Text: "x"}}},
		{"AppendFile", changing, &ctxfsv1.AppendFileRequest{Fd: proto.Int32(3), Content: &ctxfsv1.AppendFileRequest_Text{Text: "x"}}},
		{"WriteStream", changing, &ctxfsv1.WriteStreamOpen{Path: "/new"}},
		{"WriteStream", changing, &ctxfsv1.WriteStreamOpen{Path: "/new", FlagForm: &ctxfsv1.WriteStreamOpen_Flag{Flag: "a"}}},
		{"Truncate", changing, &ctxfsv1.TruncateRequest{Path: "/file"}},
		{"Batch", changing, &ctxfsv1.BatchRequest{Steps: []*ctxfsv1.BatchStep{{Change: &ctxfsv1.BatchStep_Rm{Rm: &ctxfsv1.RmRequest{Path: "/file"}}}}}},
		{"EditFile", changing, &ctxfsv1.EditFileRequest{Path: "/file", Edits: []*ctxfsv1.TextEdit{{OldText: "hello", NewText: "y"}}}},
		{"Chmod", changing, &ctxfsv1.ChmodRequest{Path: "/file", ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: 0o400}}},
		{"Chown", refused, &ctxfsv1.ChownRequest{Path: "/file", Uid: same, Gid: same}},
		{"Lchown", refused, &ctxfsv1.LchownRequest{Path: "/link", Uid: same, Gid: same}},
		{"Utimes", changing, &ctxfsv1.UtimesRequest{Path: "/file", AtimeNs: one, MtimeNs: one}},
		{"Lutimes", changing, &ctxfsv1.LutimesRequest{Path: "/link", AtimeNs: one, MtimeNs: one}},
		{"Open", changing, open("w")},
		{"Open", changing, open("a+")},
		{"Open", changing, open("wx")},
	}
}

func rightsOfHandles() []rightsCase {
	one, same, fd := proto.Int64(1), proto.Int64(-1), int32(3)
	return []rightsCase{
		{"Write", changing, &ctxfsv1.WriteRequest{Fd: fd, Content: &ctxfsv1.WriteRequest_Text{Text: "much to write"}}},
		{"Writev", changing, &ctxfsv1.WritevRequest{Fd: fd, Buffers: [][]byte{[]byte("much to "), []byte("write")}}},
		{"WriteStream", refused, &ctxfsv1.WriteStreamOpen{Fd: &fd}},
		{"Ftruncate", changing, &ctxfsv1.FtruncateRequest{Fd: fd}},
		{"Fchmod", changing, &ctxfsv1.FchmodRequest{Fd: fd, ModeForm: &ctxfsv1.FchmodRequest_Mode{Mode: 0o400}}},
		{"Fchown", refused, &ctxfsv1.FchownRequest{Fd: fd, Uid: same, Gid: same}},
		{"Futimes", changing, &ctxfsv1.FutimesRequest{Fd: fd, AtimeNs: one, MtimeNs: one}},
		{"Read", reading, &ctxfsv1.ReadRequest{Fd: fd, Position: proto.Int64(0)}},
		{"Readv", reading, &ctxfsv1.ReadvRequest{Fd: fd, Position: proto.Int64(0), Lengths: []int64{1, 2}}},
		{"Fstat", reading, &ctxfsv1.FstatRequest{Fd: fd}},
		{"Fsync", reading, &ctxfsv1.FsyncRequest{Fd: fd}},
		{"Fdatasync", reading, &ctxfsv1.FdatasyncRequest{Fd: fd}},
		{"Close", once, &ctxfsv1.CloseRequest{Fd: fd}},
		{"ListHandles", reading, &ctxfsv1.ListHandlesRequest{}},
	}
}

func rightsOfReads() []rightsCase {
	return []rightsCase{
		{"ReadFile", reading, &ctxfsv1.ReadFileRequest{Path: "/file"}},
		{"ReadStream", reading, &ctxfsv1.ReadStreamRequest{Path: "/file"}},
		{"Open", reading, &ctxfsv1.OpenRequest{Path: "/file"}},
		{"Stat", reading, &ctxfsv1.StatRequest{Path: "/file"}},
		{"Lstat", reading, &ctxfsv1.LstatRequest{Path: "/link"}},
		{"Statfs", reading, &ctxfsv1.StatfsRequest{Path: "/"}},
		{"Access", reading, &ctxfsv1.AccessRequest{Path: "/file", Mode: 4}},
		{"Access", refused, &ctxfsv1.AccessRequest{Path: "/file", Mode: 2}},
		{"Exists", reading, &ctxfsv1.ExistsRequest{Path: "/file"}},
		{"Realpath", reading, &ctxfsv1.RealpathRequest{Path: "/link"}},
		{"Readlink", reading, &ctxfsv1.ReadlinkRequest{Path: "/link"}},
		{"Readdir", reading, &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true}},
		{"Opendir", reading, &ctxfsv1.OpendirRequest{Path: "/", WithStats: true}},
		{"Glob", reading, &ctxfsv1.GlobRequest{Patterns: []string{"**"}}},
		{"Grep", reading, &ctxfsv1.GrepRequest{Path: "/", Pattern: "e"}},
		{"Export", reading, &ctxfsv1.ExportRequest{Path: "/"}},
		{"Watch", reading, &ctxfsv1.WatchRequest{Path: "/"}},
		{"WatchChanges", reading, &ctxfsv1.WatchChangesRequest{Follow: proto.Bool(false)}},
	}
}

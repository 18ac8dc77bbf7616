package fsservice_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// conditional is a change that may have a condition. The request changes a fresh context in which /file is a file, /dir an empty
// directory, and /link a link to /file.
type conditional struct {
	name string
	req  proto.Message
	// field has the condition, and path is what it is about.
	field, path string
}

func matching() []conditional {
	text := func(t string) *ctxfsv1.WriteFileRequest_Text { return &ctxfsv1.WriteFileRequest_Text{Text: t} }
	mode, one, none := &ctxfsv1.ChmodRequest_Mode{Mode: 0o600}, proto.Int64(1), proto.Int64(-1)
	return []conditional{
		{"WriteFile", &ctxfsv1.WriteFileRequest{Path: "/file", Content: text("new")}, "if_match", "/file"},
		{"WriteFile atomic", &ctxfsv1.WriteFileRequest{Path: "/file", Atomic: true, Content: text("new")}, "if_match", "/file"},
		{"WriteFile of a link", &ctxfsv1.WriteFileRequest{Path: "/link", Atomic: true, Content: text("new")}, "if_match", "/file"},
		{"AppendFile", &ctxfsv1.AppendFileRequest{Path: "/file", Content: &ctxfsv1.AppendFileRequest_Text{Text: "more"}}, "if_match", "/file"},
		{"WriteStream", &ctxfsv1.WriteStreamOpen{Path: "/file"}, "if_match", "/file"},
		{"WriteStream in place", &ctxfsv1.WriteStreamOpen{Path: "/file", Start: one}, "if_match", "/file"},
		{"EditFile", &ctxfsv1.EditFileRequest{Path: "/file", Edits: []*ctxfsv1.TextEdit{{OldText: "old", NewText: "new"}}}, "if_match", "/file"},
		{"Truncate", &ctxfsv1.TruncateRequest{Path: "/file", Len: one}, "if_match", "/file"},
		{"Open w", &ctxfsv1.OpenRequest{Path: "/file", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}}, "if_match", "/file"},
		{"CopyFile from", &ctxfsv1.CopyFileRequest{Path: "/file", Dest: "/fresh"}, "if_match", "/file"},
		{"CopyFile to", &ctxfsv1.CopyFileRequest{Path: "/other", Dest: "/file"}, "dest_if_match", "/file"},
		{"Rename from", &ctxfsv1.RenameRequest{Path: "/file", Dest: "/fresh"}, "if_match", "/file"},
		{"Rename to", &ctxfsv1.RenameRequest{Path: "/other", Dest: "/file"}, "dest_if_match", "/file"},
		{"Link", &ctxfsv1.LinkRequest{Path: "/file", Dest: "/fresh"}, "if_match", "/file"},
		{"Unlink", &ctxfsv1.UnlinkRequest{Path: "/file"}, "if_match", "/file"},
		{"Rm", &ctxfsv1.RmRequest{Path: "/file", Force: true}, "if_match", "/file"},
		{"Rm recursive", &ctxfsv1.RmRequest{Path: "/dir", Recursive: true}, "if_match", "/dir"},
		{"Rmdir", &ctxfsv1.RmdirRequest{Path: "/dir"}, "if_match", "/dir"},
		{"Chmod", &ctxfsv1.ChmodRequest{Path: "/file", ModeForm: mode}, "if_match", "/file"},
		{"Chown", &ctxfsv1.ChownRequest{Path: "/file", Uid: none, Gid: none}, "if_match", "/file"},
		{"Lchown", &ctxfsv1.LchownRequest{Path: "/file", Uid: none, Gid: none}, "if_match", "/file"},
		{"Utimes", &ctxfsv1.UtimesRequest{Path: "/link", AtimeNs: one, MtimeNs: one}, "if_match", "/file"},
		{"Lutimes", &ctxfsv1.LutimesRequest{Path: "/file", AtimeNs: one, MtimeNs: one}, "if_match", "/file"},
	}
}

func creating() []conditional {
	text := &ctxfsv1.WriteFileRequest_Text{Text: "new"}
	return []conditional{
		{"WriteFile", &ctxfsv1.WriteFileRequest{Path: "/fresh", Content: text}, "if_none_match", "/fresh"},
		{"WriteFile atomic", &ctxfsv1.WriteFileRequest{Path: "/fresh", Atomic: true, Content: text}, "if_none_match", "/fresh"},
		{"AppendFile", &ctxfsv1.AppendFileRequest{Path: "/fresh"}, "if_none_match", "/fresh"},
		{"WriteStream", &ctxfsv1.WriteStreamOpen{Path: "/fresh"}, "if_none_match", "/fresh"},
		{"Open a", &ctxfsv1.OpenRequest{Path: "/fresh", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "a"}}, "if_none_match", "/fresh"},
		{"CopyFile", &ctxfsv1.CopyFileRequest{Path: "/file", Dest: "/fresh"}, "dest_if_none_match", "/fresh"},
		{"Rename", &ctxfsv1.RenameRequest{Path: "/file", Dest: "/fresh"}, "dest_if_none_match", "/fresh"},
		{"Link", &ctxfsv1.LinkRequest{Path: "/file", Dest: "/fresh"}, "dest_if_none_match", "/fresh"},
		{"Mkdir", &ctxfsv1.MkdirRequest{Path: "/fresh"}, "if_none_match", "/fresh"},
		{"Mkdir recursive", &ctxfsv1.MkdirRequest{Path: "/fresh", Recursive: true}, "if_none_match", "/fresh"},
		{"Symlink", &ctxfsv1.SymlinkRequest{Path: "/fresh", Target: "file"}, "if_none_match", "/fresh"},
	}
}

func newConditionalWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.reset()
	return w
}

// reset makes the context of the conditional cases.
func (w *world) reset() {
	w.Helper()
	entries, err := os.ReadDir(w.dir)
	w.must(err)
	for _, e := range entries {
		w.must(os.RemoveAll(filepath.Join(w.dir, e.Name())))
	}
	w.put("file", "old")
	w.put("other", "other")
	w.must(errors.Join(os.Mkdir(filepath.Join(w.dir, "dir"), 0o755), os.Symlink("file", filepath.Join(w.dir, "link"))))
}

// do calls the method of a request with the condition.
func (w *world) do(c conditional, value string) error {
	w.Helper()
	req := proto.Clone(c.req)
	field := req.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(c.field))
	req.ProtoReflect().Set(field, protoreflect.ValueOfString(value))
	for _, m := range methods() {
		if string(m.Name()) == strings.Fields(c.name)[0] {
			_, err := w.invoke(w.as("a"), m, req)
			return err
		}
	}
	w.Fatalf("no method %s", c.name)
	return nil
}

// etag returns the etag of a path.
func (w *world) etag(path string) string {
	w.Helper()
	r, err := w.client.Stat(w.as("a"), &ctxfsv1.StatRequest{Path: path})
	w.must(err)
	if r.GetEtag() == "" {
		w.Fatalf("%s has no etag", path)
	}
	return r.GetEtag()
}

// wantCondition checks the error of a condition that does not hold.
func (w *world) wantCondition(err error, code fserr.Code, etag string) {
	w.Helper()
	e, ok := fserrpb.FromStatus(err)
	if status.Code(err) != codes.Aborted || !ok || e.Code != code || e.Kind != fserr.KindCondition || e.ETag != etag || e.Hint == "" {
		w.Errorf("got %v (%+v), want ABORTED, %s with the etag %q and a hint", err, e, code.String(), etag)
	}
}

// TestChangeRequiresTheEtagOfIfMatch makes each change with the present etag, with an earlier one, and when the file is gone.
func TestChangeRequiresTheEtagOfIfMatch(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	for _, c := range matching() {
		w.reset()
		before := w.etag(c.path)
		w.must(os.Chmod(filepath.Join(w.dir, c.path), 0o700))
		now := w.etag(c.path)
		tree := w.tree()
		w.wantCondition(w.do(c, before), fserr.ESTALE, now)
		if got := w.tree(); !maps.Equal(tree, got) || w.etag(c.path) != now {
			w.Errorf("%s: a stale etag left %v, want %v", c.name, got, tree)
		}
		if err := w.do(c, now); err != nil {
			w.Errorf("%s: with the present etag: %v", c.name, err)
		}
		w.reset()
		w.must(os.RemoveAll(filepath.Join(w.dir, c.path)))
		w.wantCondition(w.do(c, now), fserr.ESTALE, "")
		if _, err := os.Lstat(filepath.Join(w.dir, c.path)); !os.IsNotExist(err) {
			w.Errorf("%s: created the file that was gone", c.name)
		}
	}
}

// TestChangeRequiresThatNothingIsThereWithIfNoneMatch makes each change when nothing has the name, when a file has it, and when a link
// that leads nowhere has it.
func TestChangeRequiresThatNothingIsThereWithIfNoneMatch(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	for _, c := range creating() {
		w.reset()
		if err := w.do(c, "*"); err != nil {
			w.Errorf("%s: with a name that is free: %v", c.name, err)
		}
		w.reset()
		w.put(c.path, "here")
		w.wantCondition(w.do(c, "*"), fserr.EEXIST, w.etag(c.path))
		w.wantContent(c.path, "here")
		w.reset()
		w.must(os.Symlink("nowhere", filepath.Join(w.dir, c.path)))
		if err := w.do(c, "*"); status.Code(err) != codes.Aborted {
			w.Errorf("%s: over a link: %v, want ABORTED", c.name, err)
		}
		if _, err := os.Lstat(filepath.Join(w.dir, "nowhere")); err == nil {
			w.Errorf("%s: created what a link leads to", c.name)
		}
		w.wantInvalid(w.do(c, "x"))
	}
}

func (w *world) wantInvalid(err error) {
	w.Helper()
	if status.Code(err) != codes.InvalidArgument {
		w.Errorf("got %v, want INVALID_ARGUMENT", err)
	}
}

// TestEveryChangeAnswersTheEtagThatStatAnswers compares the etag in the response of a change with that of the path afterwards.
func TestEveryChangeAnswersTheEtagThatStatAnswers(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	last := ""
	for _, c := range append(matching(), creating()...) {
		for _, m := range methods() {
			if string(m.Name()) != strings.Fields(c.name)[0] {
				continue
			}
			field := m.Output().Fields().ByName("etag")
			if field == nil { // see withoutETag
				continue
			}
			w.reset()
			replies, err := w.invoke(w.as("a"), m, c.req)
			w.must(err)
			path := c.path
			if strings.HasSuffix(c.name, " from") || c.name == "Link" {
				path = "/fresh"
			}
			r, err := w.client.Lstat(w.as("a"), &ctxfsv1.LstatRequest{Path: path})
			w.must(err)
			got := replies[0].ProtoReflect().Get(field).String()
			if got == "" || got != r.GetEtag() || got == last {
				w.Errorf("%s: etag %q, of %s %q, of the change before %q", c.name, got, path, r.GetEtag(), last)
			}
			last = got
		}
	}
}

// withoutETag are the changes whose response has no etag, and why.
var withoutETag = map[string]string{
	"Write": handleWrite, "Writev": handleWrite, "Ftruncate": handleWrite, "Fchmod": handleWrite, "Fchown": handleWrite, "Futimes": handleWrite,
	"Open": "it may empty or create the file, which the handle then changes: see Fstat", "Fsync": handleWrite, "Fdatasync": handleWrite,
	"Cp": "it makes many files", "Import": "it makes many files", "Extract": "it makes many files",
	"Batch": "each result has one", "Session": "its responses are those of the methods",
	"Unlink": "nothing is there", "Rm": "nothing is there", "Rmdir": "nothing is there",
}

const handleWrite = "many writes make one change: Fstat and Close return the etag"

// otherETags are the changes with an etag in their response that TestEveryChangeAnswersTheEtagThatStatAnswers does not call.
var otherETags = []string{"Close", "Mkdtemp", "ReadFile"} // ReadFile may create the file

// TestChangesWithoutAnETagAreKnown fails for a further method that changes something and returns no etag, or is not tested.
func TestChangesWithoutAnETagAreKnown(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	for _, c := range append(matching(), creating()...) {
		called[strings.Fields(c.name)[0]] = true
	}
	for _, m := range methods() {
		name := string(m.Name())
		if !method.Of("/ctxfs.v1.FsService/" + name).Changes(nil) {
			continue
		}
		has := m.Output().Fields().ByName("etag") != nil
		if why, known := withoutETag[name]; has == known {
			t.Errorf("%s: its response has an etag: %v; withoutETag says %q", name, has, why)
		}
		if has && !called[name] && !slices.Contains(otherETags, name) {
			t.Errorf("%s: no test compares its etag", name)
		}
	}
}

// TestContradictoryConditionsAreInvalid has requests whose condition contradicts something else of them.
func TestContradictoryConditionsAreInvalid(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	wx := &ctxfsv1.WriteFileRequest_Flag{Flag: "wx"}
	plus := &ctxfsv1.WriteFileRequest_Flag{Flag: "r+"}
	for _, req := range []*ctxfsv1.WriteFileRequest{
		{Path: "/file", IfMatch: "x", IfNoneMatch: "*"}, {Path: "/file", IfMatch: "x", FlagForm: wx},
		{Path: "/file", IfNoneMatch: "*", FlagForm: plus}, {Fd: proto.Int32(w.open("a", "/file", "r+")), IfMatch: "x"},
	} {
		_, err := w.client.WriteFile(w.as("a"), req)
		w.wantInvalid(err)
	}
	_, err := w.client.CopyFile(w.as("a"), &ctxfsv1.CopyFileRequest{Path: "/file", Dest: "/other", Mode: 1, DestIfMatch: "x"})
	w.wantInvalid(err)
}

// TestCommitChecksTheConditionOfOpen changes the file between Open and Close of an atomic handle.
func TestCommitChecksTheConditionOfOpen(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	ctx := w.as("a")
	for _, changed := range []bool{false, true} {
		w.reset()
		r, err := w.client.Open(ctx, &ctxfsv1.OpenRequest{
			Path: "/file", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}, Atomic: true, IfMatch: w.etag("/file"),
		})
		w.must(err)
		_, err = w.client.Write(ctx, &ctxfsv1.WriteRequest{Fd: r.GetFd(), Content: &ctxfsv1.WriteRequest_Text{Text: "mine"}})
		w.must(err)
		if changed {
			w.put("file", "theirs")
		}
		now := w.etag("/file")
		_, err = w.client.Close(ctx, &ctxfsv1.CloseRequest{Fd: r.GetFd(), Commit: true})
		if !changed {
			w.must(err)
			w.wantContent("file", "mine")
			continue
		}
		w.wantCondition(err, fserr.ESTALE, now)
		w.wantContent("file", "theirs")
	}
}

// increments is how often each client of a counter increments it.
const increments, counterClients = 4, 64

// TestEveryConditionalIncrementCounts has 64 clients increment one number in a file. Each reads it, and writes the next one if the file has
// not changed since.
func TestEveryConditionalIncrementCounts(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	text := func(n int) *ctxfsv1.WriteFileRequest_Text {
		return &ctxfsv1.WriteFileRequest_Text{Text: strconv.Itoa(n)}
	}
	for name, put := range map[string]func(ctx context.Context, n int, etag string) error{
		"in place": func(ctx context.Context, n int, etag string) error {
			_, err := w.client.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/in place", Content: text(n + 1), IfMatch: etag})
			return err
		},
		"atomic": func(ctx context.Context, n int, etag string) error {
			_, err := w.client.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/atomic", Atomic: true, Content: text(n + 1), IfMatch: etag})
			return err
		},
		"edited": func(ctx context.Context, n int, etag string) error {
			_, err := w.client.EditFile(ctx, &ctxfsv1.EditFileRequest{
				Path: "/edited", IfMatch: etag, Edits: []*ctxfsv1.TextEdit{{OldText: strconv.Itoa(n), NewText: strconv.Itoa(n + 1)}},
			})
			return err
		},
	} {
		w.put(name, "100000") // all numbers have one length: the size does not show a change
		var clients sync.WaitGroup
		for range counterClients / 2 {
			clients.Go(func() { w.increment(name, put) })
		}
		clients.Wait()
		w.wantContent(name, strconv.Itoa(100000+counterClients/2*increments))
	}
}

func (w *world) increment(name string, put func(ctx context.Context, n int, etag string) error) {
	for done := 0; done < increments; {
		ctx := w.as("a")
		r, err := w.client.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/" + name, Encoding: "utf8"})
		if err != nil {
			w.Error(err)
			return
		}
		n, err := strconv.Atoi(r.GetText())
		if err != nil {
			w.Error(err)
			return
		}
		switch err := put(ctx, n, r.GetEtag()); {
		case err == nil:
			done++
		case status.Code(err) != codes.Aborted:
			w.Error(err)
			return
		}
	}
}

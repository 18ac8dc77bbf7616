package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// follower reads the feed of a context.
type follower struct {
	*testing.T
	stream grpc.ServerStreamingClient[ctxfsv1.WatchChangesResponse]
	cursor string
}

// followFeed begins to read behind a cursor.
func followFeed(t *testing.T, ctx context.Context, fs ctxfsv1.FsServiceClient, req *ctxfsv1.WatchChangesRequest) *follower {
	t.Helper()
	stream, err := fs.WatchChanges(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return &follower{t, stream, req.GetCursor()}
}

func (f *follower) next() *ctxfsv1.WatchChangesResponse {
	f.Helper()
	m, err := f.stream.Recv()
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range []string{m.GetReady().GetCursor(), m.GetChange().GetCursor(), m.GetReset_().GetCursor()} {
		if c != "" {
			f.cursor = c
		}
	}
	return m
}

func (f *follower) ready() {
	f.Helper()
	if m := f.next(); m.GetReady() == nil {
		f.Fatalf("got %v, want ready", m)
	}
}

func (f *follower) change() *ctxfsv1.FeedChange {
	f.Helper()
	m := f.next()
	if m.GetChange() == nil {
		f.Fatalf("got %v, want a change", m)
	}
	return m.GetChange()
}

// words are a change in one line: its operation, path and dest.
func words(c *ctxfsv1.FeedChange) string {
	out := []string{c.GetOperation(), c.GetPath() + string(c.GetRawPath())}
	if c.GetDest() != "" {
		out = append(out, c.GetDest())
	}
	for _, also := range c.GetAlso() {
		out = append(out, "also "+also.GetPath())
	}
	if c.GetFailed() != "" {
		out = append(out, "failed "+c.GetFailed())
	}
	return strings.Join(out, " ")
}

func (f *follower) want(all ...string) {
	f.Helper()
	for _, want := range all {
		if got := words(f.change()); got != want {
			f.Fatalf("the feed has %q, want %q", got, want)
		}
	}
}

// feedCase is one method of FsService that changes files.
type feedCase struct {
	// before runs first; its changes do not count.
	before []proto.Message
	// req is sent; fd is replaced by that of the open file /h.
	req proto.Message
	// want is what the feed has of it.
	want string
}

// fdPlaceholder stands for the handle of a case.
const fdPlaceholder = -7

func writeOf(path string) *ctxfsv1.WriteFileRequest {
	return &ctxfsv1.WriteFileRequest{Path: path, Content: &ctxfsv1.WriteFileRequest_Text{Text: "x"}}
}

func feedCases() map[string]feedCase {
	write := []proto.Message{writeOf("/a")}
	one := proto.Int64(1)
	return map[string]feedCase{
		"ReadFile":    {nil, &ctxfsv1.ReadFileRequest{Path: "/made", FlagForm: &ctxfsv1.ReadFileRequest_Flag{Flag: "w+"}}, "ReadFile /made"},
		"WriteFile":   {nil, writeOf("w//./f"), "WriteFile /w/f"},
		"AppendFile":  {nil, &ctxfsv1.AppendFileRequest{Path: "/a", Content: &ctxfsv1.AppendFileRequest_Text{Text: "x"}}, "AppendFile /a"},
		"EditFile":    {write, &ctxfsv1.EditFileRequest{Path: "/a", Edits: []*ctxfsv1.TextEdit{{OldText: "x", NewText: "y"}}}, "EditFile /a"},
		"Truncate":    {write, &ctxfsv1.TruncateRequest{Path: "/a"}, "Truncate /a"},
		"CopyFile":    {write, &ctxfsv1.CopyFileRequest{Path: "/a", Dest: "/b"}, "CopyFile /a /b"},
		"Cp":          {write, &ctxfsv1.CpRequest{Path: "/a", Dest: "/c"}, "Cp /a /c"},
		"Rename":      {write, &ctxfsv1.RenameRequest{Path: "/a", Dest: "/r"}, "Rename /a /r"},
		"Rm":          {write, &ctxfsv1.RmRequest{Path: "/a"}, "Rm /a"},
		"Rmdir":       {[]proto.Message{&ctxfsv1.MkdirRequest{Path: "/d"}}, &ctxfsv1.RmdirRequest{Path: "/d"}, "Rmdir /d"},
		"Unlink":      {write, &ctxfsv1.UnlinkRequest{Path: "/a"}, "Unlink /a"},
		"Mkdir":       {nil, &ctxfsv1.MkdirRequest{Path: "/deep/er", Recursive: true}, "Mkdir /deep/er also /deep"},
		"Mkdtemp":     {nil, &ctxfsv1.MkdtempRequest{Prefix: "/t-"}, "Mkdtemp /t-"},
		"Symlink":     {nil, &ctxfsv1.SymlinkRequest{Path: "/l", Target: "nowhere"}, "Symlink /l"},
		"Link":        {write, &ctxfsv1.LinkRequest{Path: "/a", Dest: "/hard"}, "Link /a /hard"},
		"Chmod":       {write, &ctxfsv1.ChmodRequest{Path: "/a", ModeForm: &ctxfsv1.ChmodRequest_Mode{Mode: 0o600}}, "Chmod /a"},
		"Chown":       {write, &ctxfsv1.ChownRequest{Path: "/a", Uid: proto.Int64(-1), Gid: proto.Int64(-1)}, "Chown /a"},
		"Lchown":      {write, &ctxfsv1.LchownRequest{Path: "/a", Uid: proto.Int64(-1), Gid: proto.Int64(-1)}, "Lchown /a"},
		"Utimes":      {write, &ctxfsv1.UtimesRequest{Path: "/a", AtimeNs: one, MtimeNs: one}, "Utimes /a"},
		"Lutimes":     {write, &ctxfsv1.LutimesRequest{Path: "/a", AtimeNs: one, MtimeNs: one}, "Lutimes /a"},
		"Open":        {nil, &ctxfsv1.OpenRequest{Path: "/o", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"}}, "Open /o"},
		"Write":       {nil, &ctxfsv1.WriteRequest{Fd: fdPlaceholder, Content: &ctxfsv1.WriteRequest_Text{Text: "x"}}, "Write /h"},
		"Writev":      {nil, &ctxfsv1.WritevRequest{Fd: fdPlaceholder, Buffers: [][]byte{{1}}}, "Writev /h"},
		"Ftruncate":   {nil, &ctxfsv1.FtruncateRequest{Fd: fdPlaceholder}, "Ftruncate /h"},
		"Fchmod":      {nil, &ctxfsv1.FchmodRequest{Fd: fdPlaceholder, ModeForm: &ctxfsv1.FchmodRequest_Mode{Mode: 0o600}}, "Fchmod /h"},
		"Fchown":      {nil, &ctxfsv1.FchownRequest{Fd: fdPlaceholder, Uid: proto.Int64(-1), Gid: proto.Int64(-1)}, "Fchown /h"},
		"Futimes":     {nil, &ctxfsv1.FutimesRequest{Fd: fdPlaceholder, AtimeNs: one, MtimeNs: one}, "Futimes /h"},
		"Close":       {nil, &ctxfsv1.CloseRequest{Fd: fdPlaceholder, Commit: true}, "Close /h"},
		"Batch":       {nil, &ctxfsv1.BatchRequest{Steps: []*ctxfsv1.BatchStep{stepWrite("/s/1", "x"), stepMkdir("/s/2")}}, "Batch /s"},
		"WriteStream": {nil, &ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: "/ws"}}}, "WriteStream /ws"},
		"Import":      {nil, &ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Open{Open: &ctxfsv1.ImportOpen{Path: "/im", Format: ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR}}}, "Import /im"},
		"Extract":     {nil, &ctxfsv1.ExtractRequest{Fd: fdPlaceholder, Path: "/ex", Format: ctxfsv1.ArchiveFormat_ARCHIVE_FORMAT_TAR}, "Extract /ex"},
	}
}

// TestFeedHasEveryMethodThatChangesFiles calls each method of FsService that may change files. One without a case fails the test.
func TestFeedHasEveryMethodThatChangesFiles(t *testing.T) {
	t.Parallel()
	b := newBatched(t, start(t, testConfig(t)), "p")
	cc := b.conn
	f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{})
	f.ready()
	cases := feedCases()
	list := ctxfsv1.File_ctxfs_v1_fs_proto.Services().ByName("FsService").Methods()
	for i := range list.Len() {
		m := method.New(list.Get(i))
		name := string(list.Get(i).Name())
		c, has := cases[name]
		if m.Reads() {
			if has {
				t.Errorf("%s changes nothing, and has a case", name)
			}
			continue
		}
		if !has {
			t.Errorf("%s may change files, and has no case: call it here, and see that the feed has it", name)
			continue
		}
		c.run(b, cc, m, f)
	}
}

// run calls a case's method, and checks that the feed has exactly that.
func (c feedCase) run(b *batched, cc *grpc.ClientConn, m *method.Method, f *follower) {
	b.Helper()
	for _, r := range append([]proto.Message{&ctxfsv1.MkdirRequest{Path: "/w", Recursive: true}, &ctxfsv1.MkdirRequest{Path: "/s", Recursive: true}}, c.before...) {
		b.call(cc, r)
	}
	if fd := c.req.ProtoReflect().Descriptor().Fields().ByName("fd"); fd != nil && c.req.ProtoReflect().Get(fd).Int() == fdPlaceholder {
		open := &ctxfsv1.OpenRequest{Path: "/h", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w+"}, Atomic: m.Desc.Name() == "Close"}
		opened, err := b.fs.Open(b.ctx, open)
		if err != nil {
			b.Fatal(err)
		}
		if m.Desc.Name() == "Extract" {
			b.call(cc, &ctxfsv1.WriteRequest{Fd: opened.GetFd(), Content: &ctxfsv1.WriteRequest_Data{Data: make([]byte, 1024)}})
		}
		c.req.ProtoReflect().Set(fd, protoreflect.ValueOfInt32(opened.GetFd()))
	}
	mark := writeOf("/mark")
	b.call(cc, mark)
	for f.change().GetPath() != "/mark" {
	}
	if m.Desc.IsStreamingClient() {
		b.stream(cc, m, c.req)
	} else if err := cc.Invoke(b.ctx, m.Name, c.req, newOutput(m)); err != nil {
		b.Fatalf("%s: %v", m.Desc.Name(), err)
	}
	b.call(cc, mark)
	got := f.change()
	if w := words(got); w != c.want && !(m.Desc.Name() == "Mkdtemp" && strings.HasPrefix(w, c.want)) {
		b.Errorf("the feed has %q of %s, want %q", w, m.Desc.Name(), c.want)
	}
	if got.GetRole() != "panel" || got.GetPanelId() != "p" || got.GetRequestId() == "" || got.GetTimeNs() == 0 {
		b.Errorf("%s: the caller is missing: %v", m.Desc.Name(), got)
	}
	if next := f.change(); next.GetPath() != "/mark" || next.GetSequence() != got.GetSequence()+1 {
		b.Errorf("%s is in the feed twice: %v", m.Desc.Name(), next)
	}
}

// call calls the method whose request has the type of req.
func (b *batched) call(cc *grpc.ClientConn, req proto.Message) {
	b.Helper()
	name := strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request")
	m := method.Of("/ctxfs.v1.FsService/" + name)
	if err := cc.Invoke(b.ctx, m.Name, req, newOutput(m)); err != nil {
		b.Fatalf("%s: %v", name, err)
	}
}

func newOutput(m *method.Method) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.Desc.Output().FullName())
	if err != nil {
		panic(err)
	}
	return t.New().Interface()
}

// stream sends the first message of a client stream, and for an Import an empty archive.
func (b *batched) stream(cc *grpc.ClientConn, m *method.Method, first proto.Message) {
	b.Helper()
	stream, err := cc.NewStream(b.ctx, &grpc.StreamDesc{ClientStreams: true}, m.Name)
	if err == nil {
		err = stream.SendMsg(first)
	}
	if err == nil && m.Desc.Name() == "Import" {
		err = stream.SendMsg(&ctxfsv1.ImportRequest{Event: &ctxfsv1.ImportRequest_Data{Data: make([]byte, 1024)}})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(newOutput(m))
	}
	if err != nil {
		b.Fatalf("%s: %v", m.Desc.Name(), err)
	}
}

func TestFeedContinuesAtItsCursorOverARestart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	r := start(t, cfg)
	b := newBatched(t, r, "p")
	f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{})
	f.ready()
	b.call(b.conn, writeOf("/1"))
	f.want("WriteFile /1")
	seen := f.cursor
	b.call(b.conn, writeOf("/2"))
	r.stop()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	b = newBatched(t, start(t, cfg), "p")
	b.call(b.conn, writeOf("/3"))
	f = followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{Cursor: seen})
	f.want("WriteFile /2", "WriteFile /3")
	f.ready()
	b.call(b.conn, writeOf("/4"))
	f.want("WriteFile /4")
	f = followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{Cursor: seen, Path: "/3", Follow: proto.Bool(false)})
	f.want("WriteFile /3")
	f.ready()
	if _, err := f.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("without follow the call ends with %v", err)
	}
}

func TestFeedNamesWhatLinksLeadTo(t *testing.T) {
	t.Parallel()
	b := newBatched(t, start(t, testConfig(t)), "p")
	f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{Path: "/real"})
	f.ready()
	b.call(b.conn, &ctxfsv1.MkdirRequest{Path: "/real"})
	b.call(b.conn, &ctxfsv1.SymlinkRequest{Path: "/dir", Target: "real"})
	b.call(b.conn, writeOf("/dir/f"))
	b.call(b.conn, &ctxfsv1.SymlinkRequest{Path: "/file", Target: "/real/f"})
	b.call(b.conn, writeOf("/file"))
	b.call(b.conn, writeOf("/other"))
	b.call(b.conn, writeOf("/dir/../real/g"))
	b.call(b.conn, &ctxfsv1.UnlinkRequest{Path: "/dir/f"})
	f.want("Mkdir /real", "Symlink /dir also /real", "WriteFile /dir/f also /real/f", "Symlink /file also /real/f", "WriteFile /file also /real/f", "WriteFile /dir/../real/g also /real/g", "Unlink /dir/f also /real/f")
	opened, err := b.fs.Open(b.ctx, &ctxfsv1.OpenRequest{Path: "/other", FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "r+"}})
	if err != nil {
		t.Fatal(err)
	}
	b.call(b.conn, &ctxfsv1.RenameRequest{Path: "/other", Dest: "/moved"})
	b.call(b.conn, &ctxfsv1.WriteRequest{Fd: opened.GetFd(), Content: &ctxfsv1.WriteRequest_Text{Text: "x"}})
	if c := f.change(); words(c) != "Write /other also /" || !c.GetBelow() {
		t.Errorf("a write to a file that was renamed since it was opened is %v", c)
	}
}

func TestFeedHasCallsOfOtherServices(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	b := newBatched(t, r, "p")
	id := r.openPanel(t, "p").GetContextId()
	f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{Path: "/deep"})
	f.ready()
	admin := ctxfsv1.NewContextServiceClient(b.conn)
	if _, err := admin.Snapshot(t.Context(), &ctxfsv1.SnapshotRequest{ContextId: id, Name: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Restore(t.Context(), &ctxfsv1.RestoreRequest{ContextId: id, Name: "s", DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	if c := f.change(); words(c) != "Restore /" || !c.GetBelow() || c.GetRole() != "host" {
		t.Errorf("a restore is %v", c)
	}
	if _, err := admin.DeleteContext(t.Context(), &ctxfsv1.DeleteContextRequest{ContextId: id, DiscardChanges: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.stream.Recv(); fserrpb.ReasonOf(err) != "ESTALE" && fserrpb.ReasonOf(err) != "EACCES" {
		t.Errorf("the feed of a deleted context ends with %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.claim.layout.Feeds, id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the deleted context's feed is there: %v", err)
	}
}

func TestFeedHasContentOverHTTPBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.HTTP = "127.0.0.1:0"
	r := start(t, cfg)
	b := newBatched(t, r, "p")
	f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{})
	f.ready()
	for i, path := range []string{"/put", "/second"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.Info().Addresses.HTTP+"/v1/content?path="+path, bytes.NewReader([]byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", bearerOf(r.openPanel(t, "p").GetToken()))
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
			t.Fatal(resp.Status)
		}
		now := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{Cursor: f.cursor, Follow: proto.Bool(false)})
		now.want("WriteStream " + path)
		if f.cursor = now.cursor; i == 0 {
			now.ready()
		}
	}
}

func TestFeedLeavesOutWhatChangedNothing(t *testing.T) {
	t.Parallel()
	b := newBatched(t, start(t, testConfig(t)), "p")
	f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{})
	f.ready()
	b.call(b.conn, writeOf("/a"))
	f.want("WriteFile /a")
	for _, refused := range []error{
		func() error { _, err := b.fs.Unlink(b.ctx, &ctxfsv1.UnlinkRequest{Path: "/missing"}); return err }(),
		func() error {
			req := writeOf("/a")
			req.IfMatch = "old"
			_, err := b.fs.WriteFile(b.ctx, req)
			return err
		}(),
		func() error { _, err := b.run(stepWrite("/b", "x"), stepRemove("/missing")); return err }(),
	} {
		if refused == nil {
			t.Error("a call was not refused")
		}
	}
	b.call(b.conn, &ctxfsv1.EditFileRequest{Path: "/a", DryRun: true, Edits: []*ctxfsv1.TextEdit{{OldText: "x", NewText: "y"}}})
	b.call(b.conn, &ctxfsv1.BatchRequest{DryRun: true, Steps: []*ctxfsv1.BatchStep{stepWrite("/b", "x")}})
	b.call(b.conn, writeOf("/end"))
	f.want("WriteFile /end")
}

func TestFeedRefusesForeignCursors(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	p, q := newBatched(t, r, "p"), newBatched(t, r, "q")
	f := followFeed(t, p.ctx, p.fs, &ctxfsv1.WatchChangesRequest{})
	f.ready()
	for _, cursor := range []string{f.cursor, "nonsense", f.cursor + "-", strings.Repeat("-", 100)} {
		_, err := followFeed(t, q.ctx, q.fs, &ctxfsv1.WatchChangesRequest{Cursor: cursor}).stream.Recv()
		wantError(t, err, codes.InvalidArgument, "EINVAL", "begin without a cursor")
	}
}

// TestUnreadFeedsDoNotBlockWriters writes while three callers do not read their feeds, and then reads all of them.
func TestUnreadFeedsDoNotBlockWriters(t *testing.T) {
	t.Parallel()
	b := newBatched(t, start(t, testConfig(t)), "p")
	var sleep []*follower
	for range 3 {
		f := followFeed(t, b.ctx, b.fs, &ctxfsv1.WatchChangesRequest{})
		f.ready()
		sleep = append(sleep, f)
	}
	const writes = 300
	deep := "/" + strings.Repeat("d/", 1000)
	b.call(b.conn, &ctxfsv1.MkdirRequest{Path: deep, Recursive: true})
	for range writes {
		b.call(b.conn, writeOf(deep+"f"))
	}
	var steps []*ctxfsv1.BatchStep
	for i := range 16 {
		steps = append(steps, stepWrite(fmt.Sprint(deep, i), "x"))
	}
	b.call(b.conn, &ctxfsv1.BatchRequest{Steps: steps})
	for _, f := range sleep {
		f.change()
		for range writes {
			f.want("WriteFile " + deep + "f")
		}
		if c := f.change(); len(c.GetSteps()) != len(steps) {
			t.Errorf("a batch of %d steps has %d in the feed", len(steps), len(c.GetSteps()))
		}
	}
}

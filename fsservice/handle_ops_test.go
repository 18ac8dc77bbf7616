package fsservice_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (w *world) open(as, path, flags string) int32 {
	w.Helper()
	resp, err := w.client.Open(w.as(as), &ctxfsv1.OpenRequest{Path: path, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: flags}})
	w.must(err)
	return resp.GetFd()
}

func (w *world) read(fd int32, position *int64, length int64) string {
	w.Helper()
	resp, err := w.client.Read(w.as("a"), &ctxfsv1.ReadRequest{Fd: fd, Position: position, Length: proto.Int64(length), Encoding: "utf8"})
	w.must(err)
	return resp.GetText()
}

func TestReadsAndWritesAtPositions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "0123456789")
	fd := w.open("a", "/f", "r+")
	if got := w.read(fd, nil, 3) + "|" + w.read(fd, proto.Int64(8), 9) + "|" + w.read(fd, proto.Int64(-1), 3) + "|" + w.read(fd, proto.Int64(20), 3); got != "012|89|345|" {
		t.Errorf("read %q", got)
	}
	write := func(position *int64, text string) {
		t.Helper()
		_, err := w.client.Write(w.as("a"), &ctxfsv1.WriteRequest{Fd: fd, Position: position, Content: &ctxfsv1.WriteRequest_Text{Text: text}})
		w.must(err)
	}
	write(nil, "X")
	write(proto.Int64(0), "Y")
	write(nil, "Z")
	w.wantContent("f", "Y12345XZ89")
	_, err := w.client.Writev(w.as("a"), &ctxfsv1.WritevRequest{Fd: fd, Position: proto.Int64(1), Buffers: [][]byte{[]byte("ab"), []byte("c")}})
	w.must(err)
	v, err := w.client.Readv(w.as("a"), &ctxfsv1.ReadvRequest{Fd: fd, Position: proto.Int64(0), Lengths: []int64{2, 2}})
	w.must(err)
	if string(v.GetData()) != "Yabc" {
		t.Errorf("readv %q", v.GetData())
	}
	rest, err := w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{Fd: &fd})
	w.must(err)
	if string(rest.GetData()) != "89" {
		t.Errorf("the rest is %q, want 89", rest.GetData())
	}
}

func TestHandleErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill(w)
	fd, ro := w.open("a", "/file", "r+"), w.open("a", "/dir", "r")
	c := w.client
	for _, tc := range []struct {
		as   string
		call func(context.Context) error
		want string
	}{
		{"b", do(c.Fstat, &ctxfsv1.FstatRequest{Fd: fd}), "EBADF: bad file descriptor 3, fstat"},
		{"host", do(c.Fstat, &ctxfsv1.FstatRequest{Fd: fd}), "EBADF: bad file descriptor 3, fstat"},
		{"a", do(c.Fstat, &ctxfsv1.FstatRequest{Fd: fd, ContextId: "ctx_b"}), "EBADF: bad file descriptor 3, fstat"},
		{"a", do(c.Fstat, &ctxfsv1.FstatRequest{Fd: fd, ContextId: "ctx_a"}), ""},
		{"a", do(c.Read, &ctxfsv1.ReadRequest{Fd: fd, Length: proto.Int64(-1)}), "EINVAL: a length of -1 is negative, read"},
		{"a", do(c.Read, &ctxfsv1.ReadRequest{Fd: fd, Length: proto.Int64(4 << 20)}), "EINVAL: a length of 4194304 exceeds 3670016 (3.5 MiB); read less at a time, or use FsService/ReadStream, read"},
		{"a", do(c.Read, &ctxfsv1.ReadRequest{Fd: fd, Position: proto.Int64(-2)}), "EINVAL: position -2 is negative, read"},
		{"a", do(c.Read, &ctxfsv1.ReadRequest{Fd: ro}), "EISDIR: illegal operation on a directory, read"},
		{"a-readonly", do(c.Write, &ctxfsv1.WriteRequest{Fd: fd}), "EROFS: read-only file system; this panel was opened read-only, write"},
		{"a-readonly", do(c.Ftruncate, &ctxfsv1.FtruncateRequest{Fd: fd}), "EROFS: read-only file system; this panel was opened read-only, ftruncate"},
		{"a-readonly", do(c.Read, &ctxfsv1.ReadRequest{Fd: fd}), ""},
		{"a", do(c.Ftruncate, &ctxfsv1.FtruncateRequest{Fd: fd, Len: proto.Int64(2)}), ""},
		{"a", do(c.Fchmod, &ctxfsv1.FchmodRequest{Fd: fd, ModeForm: &ctxfsv1.FchmodRequest_ModeOctal{ModeOctal: "0600"}}), ""},
		{"a", do(c.Fchown, &ctxfsv1.FchownRequest{Fd: fd, Uid: proto.Int64(-1), Gid: proto.Int64(-1)}), ""},
		{"a", do(c.Futimes, &ctxfsv1.FutimesRequest{Fd: fd, AtimeNs: proto.Int64(1), MtimeNs: proto.Int64(2)}), ""},
		{"a", do(c.Fsync, &ctxfsv1.FsyncRequest{Fd: fd}), ""},
		{"a", do(c.Fdatasync, &ctxfsv1.FdatasyncRequest{Fd: fd}), ""},
		{"a", do(c.Close, &ctxfsv1.CloseRequest{Fd: fd}), ""},
		{"a", do(c.Read, &ctxfsv1.ReadRequest{Fd: fd}), "EBADF: bad file descriptor 3, read"},
	} {
		w.wantError(tc.call(w.as(tc.as)), tc.want)
	}
	w.wantContent("file", "he")
	st, err := os.Stat(filepath.Join(w.dir, "file"))
	w.must(err)
	if st.Mode().Perm() != 0o600 || st.ModTime().UnixNano() != 2 {
		t.Errorf("mode %o, mtime %v", st.Mode().Perm(), st.ModTime())
	}
}

func TestAHandleOfAnOlderFolderIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "x")
	fd := w.open("a", "/f", "r")
	w.gate.mu.Lock()
	w.gate.generation++
	w.gate.mu.Unlock()
	for name, call := range map[string]func(context.Context) error{
		"Read": do(w.client.Read, &ctxfsv1.ReadRequest{Fd: fd}), "Extract": do(w.client.Extract, &ctxfsv1.ExtractRequest{Fd: fd}),
	} {
		err := call(w.as("a"))
		e, _ := fserrpb.FromStatus(err)
		if e == nil || e.Code != fserr.ESTALE || e.Kind != fserr.KindContext {
			t.Errorf("%s: got %v, want ESTALE of the context", name, err)
		}
	}
	w.wantError(do(w.client.Close, &ctxfsv1.CloseRequest{Fd: fd})(w.as("a")), "")
}

func TestListHandles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "x")
	w.open("a", "/f", "r+")
	for as, want := range map[string]int{"a": 1, "b": 0, "host": 1} {
		resp, err := w.client.ListHandles(w.as(as), &ctxfsv1.ListHandlesRequest{})
		w.must(err)
		if len(resp.GetHandles()) != want {
			t.Errorf("%s sees %d handles, want %d", as, len(resp.GetHandles()), want)
		}
		for _, h := range resp.GetHandles() {
			if h.GetOwner() != "a" || h.GetPath() != "/f" || h.GetFlags() != "r+" || h.GetContextId() != "ctx_a" {
				t.Errorf("handle %v", h)
			}
		}
	}
}

func (w *world) readStream(req *ctxfsv1.ReadStreamRequest) (string, int) {
	w.Helper()
	s, err := w.client.ReadStream(w.as("a"), req)
	w.must(err)
	first, err := s.Recv()
	w.must(err)
	if first.GetStart().GetStat() == nil {
		w.Errorf("the first message is %v", first)
	}
	var b strings.Builder
	for n := 0; ; n++ {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return b.String(), n
		}
		w.must(err)
		b.Write(msg.GetData())
	}
}

func TestReadStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "0123456789")
	fd := w.open("a", "/f", "r")
	w.read(fd, nil, 4)
	for _, tc := range []struct {
		req  *ctxfsv1.ReadStreamRequest
		want string
		n    int
	}{
		{&ctxfsv1.ReadStreamRequest{Path: "/f"}, "0123456789", 1},
		{&ctxfsv1.ReadStreamRequest{Path: "/f", ChunkSize: 4}, "0123456789", 3},
		{&ctxfsv1.ReadStreamRequest{Path: "/f", Start: proto.Int64(2), End: proto.Int64(4)}, "234", 1},
		{&ctxfsv1.ReadStreamRequest{Path: "/f", Start: proto.Int64(20)}, "", 0},
		{&ctxfsv1.ReadStreamRequest{Fd: &fd, Start: proto.Int64(8)}, "89", 1},
		{&ctxfsv1.ReadStreamRequest{Fd: &fd}, "456789", 1}, // from its position, which moves
		{&ctxfsv1.ReadStreamRequest{Fd: &fd}, "", 0},
	} {
		if got, n := w.readStream(tc.req); got != tc.want || n != tc.n {
			t.Errorf("%v: %q in %d, want %q in %d", tc.req, got, n, tc.want, tc.n)
		}
	}
	s, err := w.client.ReadStream(w.as("a"), &ctxfsv1.ReadStreamRequest{Path: "/"})
	w.must(err)
	_, err = s.Recv()
	w.wantError(err, "EISDIR: illegal operation on a directory, read '/'")
}

func (w *world) writeStream(ctx context.Context, open *ctxfsv1.WriteStreamOpen, chunks ...string) ctxfsv1.FsService_WriteStreamClient {
	w.Helper()
	s, err := w.client.WriteStream(ctx)
	w.must(err)
	w.must(s.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}}))
	for _, chunk := range chunks {
		w.must(s.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: []byte(chunk)}}))
	}
	return s
}

func TestWriteStream(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		open *ctxfsv1.WriteStreamOpen
		want string
	}{
		"whole":          {&ctxfsv1.WriteStreamOpen{Path: "/f", Flush: true}, "abcd"},
		"from a start":   {&ctxfsv1.WriteStreamOpen{Path: "/f", Start: proto.Int64(2)}, "01abcd6789"},
		"append":         {&ctxfsv1.WriteStreamOpen{Path: "/f", FlagForm: &ctxfsv1.WriteStreamOpen_Flag{Flag: "a"}}, "0123456789abcd"},
		"without a cut":  {&ctxfsv1.WriteStreamOpen{Path: "/f", FlagForm: &ctxfsv1.WriteStreamOpen_Flag{Flag: "r+"}}, "abcd456789"},
		"handle":         {&ctxfsv1.WriteStreamOpen{Fd: proto.Int32(3)}, "abcd456789"},
		"handle, start ": {&ctxfsv1.WriteStreamOpen{Fd: proto.Int32(3), Start: proto.Int64(8)}, "01234567abcd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("f", "0123456789")
			w.open("a", "/f", "r+")
			resp, err := w.writeStream(w.as("a"), tc.open, "ab", "", "cd").CloseAndRecv()
			w.must(err)
			w.wantContent("f", tc.want)
			if resp.GetBytesWritten() != 4 {
				t.Errorf("written %d, want 4", resp.GetBytesWritten())
			}
		})
	}
}

func TestACancelledWriteStreamLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", "old")
	ctx, cancel := context.WithCancel(w.as("a"))
	s := w.writeStream(ctx, &ctxfsv1.WriteStreamOpen{Path: "/f"}, "new")
	fresh := w.writeStream(ctx, &ctxfsv1.WriteStreamOpen{Path: "/fresh"}, "new")
	cancel()
	for _, stream := range []ctxfsv1.FsService_WriteStreamClient{s, fresh} {
		if err := stream.RecvMsg(&ctxfsv1.WriteStreamResponse{}); err == nil {
			t.Error("the cancelled stream succeeded")
		}
	}
	w.wantContent("f", "old")
	entries, err := os.ReadDir(w.dir)
	w.must(err)
	for _, e := range entries {
		if e.Name() == "fresh" {
			t.Error("a half-written file appeared")
		}
	}
}

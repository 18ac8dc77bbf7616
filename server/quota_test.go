package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The quotas of these tests, and what content is written at a time.
const (
	quotaBytes   = 4 << 20
	quotaEntries = 200
	quotaPiece   = 256 << 10
)

// filler writes to a context until no more goes.
type filler struct {
	*testing.T
	r     *running
	fs    ctxfsv1.FsServiceClient
	ctx   context.Context //nolint:containedctx // a test's
	token string
	piece []byte
	// session is the one that has begun, fd the file that was opened.
	session *talk
	fd      int32
}

func newFiller(t *testing.T, cfg Config, piece int) *filler {
	t.Helper()
	r := start(t, cfg)
	token := r.openPanel(t, "p").GetToken()
	return &filler{
		T: t, r: r, fs: ctxfsv1.NewFsServiceClient(r.host(t)), ctx: with(t, "authorization", bearerOf(token)),
		token: token, piece: bytes.Repeat([]byte("x"), piece),
	}
}

func (f *filler) writeFile(path string) error {
	_, err := f.fs.WriteFile(f.ctx, &ctxfsv1.WriteFileRequest{Path: path, Content: &ctxfsv1.WriteFileRequest_Data{Data: f.piece}})
	return err
}

// open opens a file for writing and returns its fd.
func (f *filler) open(path, flags string) (int32, error) {
	opened, err := f.fs.Open(f.ctx, &ctxfsv1.OpenRequest{Path: path, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: flags}})
	return opened.GetFd(), err
}

// one opens a file at the first time.
func (f *filler) one(i int) (err error) {
	if i == 0 {
		f.fd, err = f.open("/one", "w")
	}
	return err
}

// write writes a piece to the open file, at its position or, when that is not nil, at one.
func (f *filler) write(at *int64) error {
	_, err := f.fs.Write(f.ctx, &ctxfsv1.WriteRequest{Fd: f.fd, Position: at, Content: &ctxfsv1.WriteRequest_Data{Data: f.piece}})
	return err
}

// inSession does an operation in a session.
func (f *filler) inSession(op proto.Message) (*sessiontest.Result, error) {
	if f.session == nil {
		f.session = beginWeb(f.T, f.r.Info().Addresses.HTTP, f.token, "")
	}
	return f.session.do(op)
}

func (f *filler) stream(path string) error {
	s, err := f.fs.WriteStream(f.ctx)
	if err != nil {
		return err
	}
	for _, m := range []*ctxfsv1.WriteStreamRequest{
		{Event: &ctxfsv1.WriteStreamRequest_Open{Open: &ctxfsv1.WriteStreamOpen{Path: path}}},
		{Event: &ctxfsv1.WriteStreamRequest_Data{Data: f.piece}},
	} {
		if s.Send(m) != nil {
			break // the reason comes by CloseAndRecv
		}
	}
	_, err = s.CloseAndRecv()
	return err
}

// imports imports an archive of one file.
func (f *filler) imports(name string) error {
	s, err := f.fs.Import(f.ctx)
	if err != nil {
		return err
	}
	for _, m := range []*ctxfsv1.ImportRequest{
		{Event: &ctxfsv1.ImportRequest_Open{Open: &ctxfsv1.ImportOpen{}}},
		{Event: &ctxfsv1.ImportRequest_Data{Data: tarOfFile(f.T, name, string(f.piece))}},
	} {
		if s.Send(m) != nil {
			break // as above
		}
	}
	_, err = s.CloseAndRecv()
	return err
}

// put writes by HTTP, and returns a refusal as gRPC has it.
func (f *filler) put(path string) error {
	resp := askBy(f.T, f.r, f.token)["http"].do(http.MethodPut, "path="+path, bytes.NewReader(f.piece))
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return err
	}
	m := new(ctxfsv1.SessionError)
	if err := protojson.Unmarshal(body, m); err != nil {
		return fmt.Errorf("HTTP %d, %q: %w", resp.StatusCode, body, err)
	}
	return fserrpb.FromSession(m)
}

// fillings are the ways to write. Each call writes once, and i is the number of calls before it; entries says that each makes a new
// entry.
var fillings = map[string]struct {
	bytes, entries bool
	do             func(f *filler, i int) error
}{
	"WriteFile": {true, true, func(f *filler, i int) error { return f.writeFile(fmt.Sprint("/f", i)) }},
	"Import":    {true, true, func(f *filler, i int) error { return f.imports(fmt.Sprint("i", i)) }},
	"AppendFile": {true, false, func(f *filler, _ int) error {
		_, err := f.fs.AppendFile(f.ctx, &ctxfsv1.AppendFileRequest{Path: "/a", Content: &ctxfsv1.AppendFileRequest_Data{Data: f.piece}})
		return err
	}},
	"Open and Write": {true, true, func(f *filler, i int) (err error) {
		if f.fd, err = f.open(fmt.Sprint("/w", i), "w"); err != nil {
			return err
		}
		return f.write(nil)
	}},
	"Write to one": {true, false, func(f *filler, i int) error {
		if err := f.one(i); err != nil {
			return err
		}
		return f.write(nil)
	}},
	"Writev": {true, false, func(f *filler, i int) error {
		if err := f.one(i); err != nil {
			return err
		}
		half := len(f.piece) / 2
		_, err := f.fs.Writev(f.ctx, &ctxfsv1.WritevRequest{Fd: f.fd, Buffers: [][]byte{f.piece[:half], f.piece[half:]}})
		return err
	}},
	"WriteFile to a handle": {true, false, func(f *filler, i int) error {
		if err := f.one(i); err != nil {
			return err
		}
		_, err := f.fs.WriteFile(f.ctx, &ctxfsv1.WriteFileRequest{Fd: &f.fd, Content: &ctxfsv1.WriteFileRequest_Data{Data: f.piece}})
		return err
	}},
	"WriteStream": {true, true, func(f *filler, i int) error { return f.stream(fmt.Sprint("/s", i)) }},
	"PUT":         {true, true, func(f *filler, i int) error { return f.put(fmt.Sprint("/p", i)) }},
	"WriteFile in a session": {true, true, func(f *filler, i int) error {
		_, err := f.inSession(opWriteFile(fmt.Sprint("/f", i), string(f.piece)))
		return err
	}},
	"Write in a session": {true, false, func(f *filler, i int) error {
		if i == 0 {
			opened, err := f.inSession(opOpen("/one", "w"))
			if err != nil {
				return err
			}
			f.fd = opened.GetOpen().GetFd()
		}
		_, err := f.inSession(opWrite(f.fd, string(f.piece)))
		return err
	}},
	"Open in a session": {false, true, func(f *filler, i int) error {
		_, err := f.inSession(opOpen(fmt.Sprint("/o", i), "w"))
		return err
	}},
	"CopyFile": {true, true, func(f *filler, i int) error {
		if i == 0 {
			return f.writeFile("/source")
		}
		_, err := f.fs.CopyFile(f.ctx, &ctxfsv1.CopyFileRequest{Path: "/source", Dest: fmt.Sprint("/c", i)})
		return err
	}},
	"Cp": {true, true, func(f *filler, i int) error {
		if i > 0 {
			_, err := f.fs.Cp(f.ctx, &ctxfsv1.CpRequest{Path: "/tree", Dest: fmt.Sprint("/t", i), Recursive: true})
			return err
		}
		if _, err := f.fs.Mkdir(f.ctx, &ctxfsv1.MkdirRequest{Path: "/tree"}); err != nil {
			return err
		}
		return f.writeFile("/tree/f")
	}},
	"Mkdir": {false, true, func(f *filler, i int) error {
		_, err := f.fs.Mkdir(f.ctx, &ctxfsv1.MkdirRequest{Path: fmt.Sprint("/d", i)})
		return err
	}},
	"Mkdtemp": {false, true, func(f *filler, _ int) error {
		_, err := f.fs.Mkdtemp(f.ctx, &ctxfsv1.MkdtempRequest{Prefix: "/t-"})
		return err
	}},
	"Symlink": {false, true, func(f *filler, i int) error {
		_, err := f.fs.Symlink(f.ctx, &ctxfsv1.SymlinkRequest{Path: fmt.Sprint("/l", i), Target: "x"})
		return err
	}},
	"Link": {false, true, func(f *filler, i int) error {
		if i == 0 {
			return f.writeFile("/source")
		}
		_, err := f.fs.Link(f.ctx, &ctxfsv1.LinkRequest{Path: "/source", Dest: fmt.Sprint("/h", i)})
		return err
	}},
	"Open": {false, true, func(f *filler, i int) error {
		_, err := f.open(fmt.Sprint("/o", i), "w")
		return err
	}},
	"ReadFile with flag w+": {false, true, func(f *filler, i int) error {
		_, err := f.fs.ReadFile(f.ctx, &ctxfsv1.ReadFileRequest{Path: fmt.Sprint("/r", i), FlagForm: &ctxfsv1.ReadFileRequest_Flag{Flag: "w+"}})
		return err
	}},
	"ReadFile with a flag number": {false, true, func(f *filler, i int) error {
		_, err := f.fs.ReadFile(f.ctx, &ctxfsv1.ReadFileRequest{Path: fmt.Sprint("/r", i), FlagForm: &ctxfsv1.ReadFileRequest_FlagNumber{FlagNumber: 0o102}})
		return err
	}},
	// To be long takes no space: what is written into the hole does.
	"Truncate, then Write": {true, false, func(f *filler, i int) error {
		if err := f.one(i); err != nil {
			return err
		}
		length := int64(1) << 32
		if _, err := f.fs.Truncate(f.ctx, &ctxfsv1.TruncateRequest{Path: "/one", Len: &length}); err != nil {
			f.Errorf("a file that takes nothing cannot be made long: %v", err)
		}
		at := int64(i) << 24
		return f.write(&at)
	}},
	"Ftruncate, then Write": {true, false, func(f *filler, i int) error {
		if err := f.one(i); err != nil {
			return err
		}
		length := int64(1) << 32
		if _, err := f.fs.Ftruncate(f.ctx, &ctxfsv1.FtruncateRequest{Fd: f.fd, Len: &length}); err != nil {
			f.Errorf("a file that takes nothing cannot be made long: %v", err)
		}
		at := int64(i) << 24
		return f.write(&at)
	}},
}

// fill does it until it is refused, and checks that this is neither late nor much too early. each is
// how much one time takes, at least and at most.
func (f *filler) fill(do func(*filler, int) error, quota, least, most int, words string) {
	f.Helper()
	done, err := 0, error(nil)
	for ; err == nil && done*least <= quota; done++ {
		err = do(f, done)
	}
	done--
	wantError(f.T, err, codes.ResourceExhausted, "EDQUOT", words)
	if done*least > quota || (done+1)*most < quota/2 {
		f.Errorf("refused after %d", done)
	}
	wantRejections(f.T, f.r, map[string]int{"context_size": 1})
	if _, err := f.fs.Stat(f.ctx, &ctxfsv1.StatRequest{Path: "/"}); err != nil {
		f.Error(err)
	}
	f.removeOne()
}

// removeOne removes something of what is there.
func (f *filler) removeOne() {
	f.Helper()
	list, err := f.fs.Readdir(f.ctx, &ctxfsv1.ReaddirRequest{Path: "/"})
	if err != nil || len(list.GetEntries()) == 0 {
		f.Fatalf("the context has %v, %v", list, err)
	}
	if _, err := f.fs.Rm(f.ctx, &ctxfsv1.RmRequest{Path: "/" + list.GetEntries()[0].GetName(), Recursive: true}); err != nil {
		f.Errorf("nothing can be removed: %v", err)
	}
}

// TestTheQuotaOfAContext writes by every way there is until no more goes.
func TestTheQuotaOfAContext(t *testing.T) {
	t.Parallel()
	for name, way := range fillings {
		if way.bytes {
			t.Run(name+"/bytes", func(t *testing.T) {
				cfg := sessionConfig(t)
				cfg.ContextMaxBytes, cfg.ContextMaxEntries = quotaBytes, 0
				newFiller(t, cfg, quotaPiece).fill(way.do, quotaBytes, quotaPiece, quotaPiece, "MiB of 4 MiB")
			})
		}
		if way.entries {
			t.Run(name+"/entries", func(t *testing.T) {
				cfg := sessionConfig(t)
				cfg.ContextMaxBytes, cfg.ContextMaxEntries = 0, quotaEntries
				newFiller(t, cfg, 1).fill(way.do, quotaEntries, 1, 2, " of 200 files and directories")
			})
		}
	}
}

// TestMkdirIsChargedForWhatItMakes makes directories in a context that has room for a few.
func TestMkdirIsChargedForWhatItMakes(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.ContextMaxBytes, cfg.ContextMaxEntries = 0, 30
	f := newFiller(t, cfg, 1)
	mkdir := func(path string) error {
		_, err := f.fs.Mkdir(f.ctx, &ctxfsv1.MkdirRequest{Path: path, Recursive: true})
		return err
	}
	if err := mkdir("/a" + strings.Repeat("/b", 10)); err != nil {
		t.Fatal(err)
	}
	for range 50 { // all of it exists
		if err := mkdir("/a" + strings.Repeat("/b", 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mkdir("/a" + strings.Repeat("/b", 10) + strings.Repeat("/", 2000) + "c"); err != nil {
		t.Errorf("slashes: %v", err)
	}
	wantError(t, mkdir(strings.Repeat("/", 500_000)), codes.InvalidArgument, "ENAMETOOLONG", "")
	wantError(t, mkdir("/x"+strings.Repeat("/y", 100)), codes.ResourceExhausted, "EDQUOT", "")
}

// TestSparseCopiesAreChargedForTheirData copies a file of 4 GiB that takes a few KiB, where the quota is 4 MiB.
func TestSparseCopiesAreChargedForTheirData(t *testing.T) {
	t.Parallel()
	cfg := sessionConfig(t)
	cfg.ContextMaxBytes, cfg.ContextMaxEntries = quotaBytes, 0
	f := newFiller(t, cfg, 1<<10)
	length := int64(1) << 32
	for _, path := range []string{"/sparse", "/other"} {
		if err := f.writeFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.fs.Truncate(f.ctx, &ctxfsv1.TruncateRequest{Path: "/sparse", Len: &length}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := f.fs.CopyFile(f.ctx, &ctxfsv1.CopyFileRequest{Path: "/sparse", Dest: fmt.Sprint("/copy", i)}); err != nil {
			t.Fatalf("copyFile %d: %v", i, err)
		}
		if _, err := f.fs.Cp(f.ctx, &ctxfsv1.CpRequest{Path: "/sparse", Dest: fmt.Sprint("/cp", i)}); err != nil {
			t.Fatalf("cp %d: %v", i, err)
		}
	}
	tag := ""
	for range 20 {
		over, err := f.fs.CopyFile(f.ctx, &ctxfsv1.CopyFileRequest{Path: "/sparse", Dest: "/other", DestIfMatch: tag})
		if err != nil {
			t.Fatalf("copyFile over a file: %v", err)
		}
		tag = over.GetEtag()
	}
}

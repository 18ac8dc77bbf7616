package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// changes and asks are the traits of operations that carry little.
var (
	changes = traits{}
	asks    = traits{repeats: true}
)

// ask does an operation by a session, or else by rpc.
func ask[Q, R any](
	ctx context.Context, c *fsClient, t traits, in *Q, op *ctxfsv1.Operation, result func(*ctxfsv1.OperationResult) *R,
	rpc func(ctxfsv1.FsServiceClient, context.Context, *Q, ...grpc.CallOption) (*R, error), opts []grpc.CallOption,
) (*R, error) {
	res, err := c.do(ctx, op, t)
	switch {
	case err == nil:
	case err == errNoSession: //nolint:errorlint // it is never wrapped
		return rpc(c.FsServiceClient, ctx, in, opts...)
	default:
		return nil, err
	}
	r := result(res)
	if r == nil {
		return nil, status.Error(codes.Internal, "the session answered with the result of another operation")
	}
	return r, nil
}

// ReadFile implements ctxfsv1.FsServiceClient.
func (c *fsClient) ReadFile(ctx context.Context, in *ctxfsv1.ReadFileRequest, opts ...grpc.CallOption) (*ctxfsv1.ReadFileResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_ReadFile{ReadFile: in}}
	return ask(ctx, c, traits{repeats: onlyReads(in)}, in, op, (*ctxfsv1.OperationResult).GetReadFile, ctxfsv1.FsServiceClient.ReadFile, opts)
}

// onlyReads reports whether a ReadFile changes nothing: no file, as its flag may (open(2)'s Linux numbers), and not a handle's position.
func onlyReads(in *ctxfsv1.ReadFileRequest) bool {
	const accessMode, create, truncate = 0o3, 0o100, 0o1000
	switch f := in.GetFlagForm().(type) {
	case *ctxfsv1.ReadFileRequest_Flag:
		return in.Fd == nil && (f.Flag == "r" || f.Flag == "rs" || f.Flag == "sr")
	case *ctxfsv1.ReadFileRequest_FlagNumber:
		return in.Fd == nil && f.FlagNumber&(accessMode|create|truncate) == 0
	}
	return in.Fd == nil
}

// WriteFile implements ctxfsv1.FsServiceClient.
func (c *fsClient) WriteFile(ctx context.Context, in *ctxfsv1.WriteFileRequest, opts ...grpc.CallOption) (*ctxfsv1.WriteFileResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_WriteFile{WriteFile: in}}
	return ask(ctx, c, traits{content: len(in.GetData()) + len(in.GetText())}, in, op, (*ctxfsv1.OperationResult).GetWriteFile, ctxfsv1.FsServiceClient.WriteFile, opts)
}

// AppendFile implements ctxfsv1.FsServiceClient.
func (c *fsClient) AppendFile(ctx context.Context, in *ctxfsv1.AppendFileRequest, opts ...grpc.CallOption) (*ctxfsv1.AppendFileResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_AppendFile{AppendFile: in}}
	return ask(ctx, c, traits{content: len(in.GetData()) + len(in.GetText())}, in, op, (*ctxfsv1.OperationResult).GetAppendFile, ctxfsv1.FsServiceClient.AppendFile, opts)
}

// Truncate implements ctxfsv1.FsServiceClient.
func (c *fsClient) Truncate(ctx context.Context, in *ctxfsv1.TruncateRequest, opts ...grpc.CallOption) (*ctxfsv1.TruncateResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Truncate{Truncate: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetTruncate, ctxfsv1.FsServiceClient.Truncate, opts)
}

// CopyFile implements ctxfsv1.FsServiceClient.
func (c *fsClient) CopyFile(ctx context.Context, in *ctxfsv1.CopyFileRequest, opts ...grpc.CallOption) (*ctxfsv1.CopyFileResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_CopyFile{CopyFile: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetCopyFile, ctxfsv1.FsServiceClient.CopyFile, opts)
}

// Cp implements ctxfsv1.FsServiceClient.
func (c *fsClient) Cp(ctx context.Context, in *ctxfsv1.CpRequest, opts ...grpc.CallOption) (*ctxfsv1.CpResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Cp{Cp: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetCp, ctxfsv1.FsServiceClient.Cp, opts)
}

// Rename implements ctxfsv1.FsServiceClient.
func (c *fsClient) Rename(ctx context.Context, in *ctxfsv1.RenameRequest, opts ...grpc.CallOption) (*ctxfsv1.RenameResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Rename{Rename: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetRename, ctxfsv1.FsServiceClient.Rename, opts)
}

// Rm implements ctxfsv1.FsServiceClient.
func (c *fsClient) Rm(ctx context.Context, in *ctxfsv1.RmRequest, opts ...grpc.CallOption) (*ctxfsv1.RmResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Rm{Rm: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetRm, ctxfsv1.FsServiceClient.Rm, opts)
}

// Rmdir implements ctxfsv1.FsServiceClient.
func (c *fsClient) Rmdir(ctx context.Context, in *ctxfsv1.RmdirRequest, opts ...grpc.CallOption) (*ctxfsv1.RmdirResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Rmdir{Rmdir: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetRmdir, ctxfsv1.FsServiceClient.Rmdir, opts)
}

// Unlink implements ctxfsv1.FsServiceClient.
func (c *fsClient) Unlink(ctx context.Context, in *ctxfsv1.UnlinkRequest, opts ...grpc.CallOption) (*ctxfsv1.UnlinkResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Unlink{Unlink: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetUnlink, ctxfsv1.FsServiceClient.Unlink, opts)
}

// Mkdir implements ctxfsv1.FsServiceClient.
func (c *fsClient) Mkdir(ctx context.Context, in *ctxfsv1.MkdirRequest, opts ...grpc.CallOption) (*ctxfsv1.MkdirResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Mkdir{Mkdir: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetMkdir, ctxfsv1.FsServiceClient.Mkdir, opts)
}

// Mkdtemp implements ctxfsv1.FsServiceClient.
func (c *fsClient) Mkdtemp(ctx context.Context, in *ctxfsv1.MkdtempRequest, opts ...grpc.CallOption) (*ctxfsv1.MkdtempResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Mkdtemp{Mkdtemp: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetMkdtemp, ctxfsv1.FsServiceClient.Mkdtemp, opts)
}

// Symlink implements ctxfsv1.FsServiceClient.
func (c *fsClient) Symlink(ctx context.Context, in *ctxfsv1.SymlinkRequest, opts ...grpc.CallOption) (*ctxfsv1.SymlinkResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Symlink{Symlink: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetSymlink, ctxfsv1.FsServiceClient.Symlink, opts)
}

// Link implements ctxfsv1.FsServiceClient.
func (c *fsClient) Link(ctx context.Context, in *ctxfsv1.LinkRequest, opts ...grpc.CallOption) (*ctxfsv1.LinkResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Link{Link: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetLink, ctxfsv1.FsServiceClient.Link, opts)
}

// Readdir implements ctxfsv1.FsServiceClient.
func (c *fsClient) Readdir(ctx context.Context, in *ctxfsv1.ReaddirRequest, opts ...grpc.CallOption) (*ctxfsv1.ReaddirResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Readdir{Readdir: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetReaddir, ctxfsv1.FsServiceClient.Readdir, opts)
}

// Stat implements ctxfsv1.FsServiceClient.
func (c *fsClient) Stat(ctx context.Context, in *ctxfsv1.StatRequest, opts ...grpc.CallOption) (*ctxfsv1.StatResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Stat{Stat: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetStat, ctxfsv1.FsServiceClient.Stat, opts)
}

// Lstat implements ctxfsv1.FsServiceClient.
func (c *fsClient) Lstat(ctx context.Context, in *ctxfsv1.LstatRequest, opts ...grpc.CallOption) (*ctxfsv1.LstatResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Lstat{Lstat: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetLstat, ctxfsv1.FsServiceClient.Lstat, opts)
}

// Statfs implements ctxfsv1.FsServiceClient.
func (c *fsClient) Statfs(ctx context.Context, in *ctxfsv1.StatfsRequest, opts ...grpc.CallOption) (*ctxfsv1.StatfsResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Statfs{Statfs: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetStatfs, ctxfsv1.FsServiceClient.Statfs, opts)
}

// Access implements ctxfsv1.FsServiceClient.
func (c *fsClient) Access(ctx context.Context, in *ctxfsv1.AccessRequest, opts ...grpc.CallOption) (*ctxfsv1.AccessResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Access{Access: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetAccess, ctxfsv1.FsServiceClient.Access, opts)
}

// Exists implements ctxfsv1.FsServiceClient.
func (c *fsClient) Exists(ctx context.Context, in *ctxfsv1.ExistsRequest, opts ...grpc.CallOption) (*ctxfsv1.ExistsResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Exists{Exists: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetExists, ctxfsv1.FsServiceClient.Exists, opts)
}

// Realpath implements ctxfsv1.FsServiceClient.
func (c *fsClient) Realpath(ctx context.Context, in *ctxfsv1.RealpathRequest, opts ...grpc.CallOption) (*ctxfsv1.RealpathResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Realpath{Realpath: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetRealpath, ctxfsv1.FsServiceClient.Realpath, opts)
}

// Readlink implements ctxfsv1.FsServiceClient.
func (c *fsClient) Readlink(ctx context.Context, in *ctxfsv1.ReadlinkRequest, opts ...grpc.CallOption) (*ctxfsv1.ReadlinkResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Readlink{Readlink: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetReadlink, ctxfsv1.FsServiceClient.Readlink, opts)
}

// Chmod implements ctxfsv1.FsServiceClient.
func (c *fsClient) Chmod(ctx context.Context, in *ctxfsv1.ChmodRequest, opts ...grpc.CallOption) (*ctxfsv1.ChmodResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Chmod{Chmod: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetChmod, ctxfsv1.FsServiceClient.Chmod, opts)
}

// Chown implements ctxfsv1.FsServiceClient.
func (c *fsClient) Chown(ctx context.Context, in *ctxfsv1.ChownRequest, opts ...grpc.CallOption) (*ctxfsv1.ChownResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Chown{Chown: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetChown, ctxfsv1.FsServiceClient.Chown, opts)
}

// Lchown implements ctxfsv1.FsServiceClient.
func (c *fsClient) Lchown(ctx context.Context, in *ctxfsv1.LchownRequest, opts ...grpc.CallOption) (*ctxfsv1.LchownResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Lchown{Lchown: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetLchown, ctxfsv1.FsServiceClient.Lchown, opts)
}

// Utimes implements ctxfsv1.FsServiceClient.
func (c *fsClient) Utimes(ctx context.Context, in *ctxfsv1.UtimesRequest, opts ...grpc.CallOption) (*ctxfsv1.UtimesResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Utimes{Utimes: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetUtimes, ctxfsv1.FsServiceClient.Utimes, opts)
}

// Lutimes implements ctxfsv1.FsServiceClient.
func (c *fsClient) Lutimes(ctx context.Context, in *ctxfsv1.LutimesRequest, opts ...grpc.CallOption) (*ctxfsv1.LutimesResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Lutimes{Lutimes: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetLutimes, ctxfsv1.FsServiceClient.Lutimes, opts)
}

// Open implements ctxfsv1.FsServiceClient.
func (c *fsClient) Open(ctx context.Context, in *ctxfsv1.OpenRequest, opts ...grpc.CallOption) (*ctxfsv1.OpenResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Open{Open: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetOpen, ctxfsv1.FsServiceClient.Open, opts)
}

// Read implements ctxfsv1.FsServiceClient.
func (c *fsClient) Read(ctx context.Context, in *ctxfsv1.ReadRequest, opts ...grpc.CallOption) (*ctxfsv1.ReadResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Read{Read: in}}
	return ask(ctx, c, traits{content: int(in.GetLength()), repeats: in.Position != nil}, in, op, (*ctxfsv1.OperationResult).GetRead, ctxfsv1.FsServiceClient.Read, opts)
}

// Write implements ctxfsv1.FsServiceClient.
func (c *fsClient) Write(ctx context.Context, in *ctxfsv1.WriteRequest, opts ...grpc.CallOption) (*ctxfsv1.WriteResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Write{Write: in}}
	return ask(ctx, c, traits{content: len(in.GetData()) + len(in.GetText())}, in, op, (*ctxfsv1.OperationResult).GetWrite, ctxfsv1.FsServiceClient.Write, opts)
}

// Readv implements ctxfsv1.FsServiceClient.
func (c *fsClient) Readv(ctx context.Context, in *ctxfsv1.ReadvRequest, opts ...grpc.CallOption) (*ctxfsv1.ReadvResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Readv{Readv: in}}
	return ask(ctx, c, traits{content: total(in.GetLengths(), func(n int64) int { return int(n) }), repeats: in.Position != nil}, in, op, (*ctxfsv1.OperationResult).GetReadv, ctxfsv1.FsServiceClient.Readv, opts)
}

// Writev implements ctxfsv1.FsServiceClient.
func (c *fsClient) Writev(ctx context.Context, in *ctxfsv1.WritevRequest, opts ...grpc.CallOption) (*ctxfsv1.WritevResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Writev{Writev: in}}
	return ask(ctx, c, traits{content: total(in.GetBuffers(), func(b []byte) int { return len(b) })}, in, op, (*ctxfsv1.OperationResult).GetWritev, ctxfsv1.FsServiceClient.Writev, opts)
}

// Fstat implements ctxfsv1.FsServiceClient.
func (c *fsClient) Fstat(ctx context.Context, in *ctxfsv1.FstatRequest, opts ...grpc.CallOption) (*ctxfsv1.FstatResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Fstat{Fstat: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetFstat, ctxfsv1.FsServiceClient.Fstat, opts)
}

// Ftruncate implements ctxfsv1.FsServiceClient.
func (c *fsClient) Ftruncate(ctx context.Context, in *ctxfsv1.FtruncateRequest, opts ...grpc.CallOption) (*ctxfsv1.FtruncateResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Ftruncate{Ftruncate: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetFtruncate, ctxfsv1.FsServiceClient.Ftruncate, opts)
}

// Fchmod implements ctxfsv1.FsServiceClient.
func (c *fsClient) Fchmod(ctx context.Context, in *ctxfsv1.FchmodRequest, opts ...grpc.CallOption) (*ctxfsv1.FchmodResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Fchmod{Fchmod: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetFchmod, ctxfsv1.FsServiceClient.Fchmod, opts)
}

// Fchown implements ctxfsv1.FsServiceClient.
func (c *fsClient) Fchown(ctx context.Context, in *ctxfsv1.FchownRequest, opts ...grpc.CallOption) (*ctxfsv1.FchownResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Fchown{Fchown: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetFchown, ctxfsv1.FsServiceClient.Fchown, opts)
}

// Futimes implements ctxfsv1.FsServiceClient.
func (c *fsClient) Futimes(ctx context.Context, in *ctxfsv1.FutimesRequest, opts ...grpc.CallOption) (*ctxfsv1.FutimesResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Futimes{Futimes: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetFutimes, ctxfsv1.FsServiceClient.Futimes, opts)
}

// Fsync implements ctxfsv1.FsServiceClient.
func (c *fsClient) Fsync(ctx context.Context, in *ctxfsv1.FsyncRequest, opts ...grpc.CallOption) (*ctxfsv1.FsyncResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Fsync{Fsync: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetFsync, ctxfsv1.FsServiceClient.Fsync, opts)
}

// Fdatasync implements ctxfsv1.FsServiceClient.
func (c *fsClient) Fdatasync(ctx context.Context, in *ctxfsv1.FdatasyncRequest, opts ...grpc.CallOption) (*ctxfsv1.FdatasyncResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Fdatasync{Fdatasync: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetFdatasync, ctxfsv1.FsServiceClient.Fdatasync, opts)
}

// Close implements ctxfsv1.FsServiceClient.
func (c *fsClient) Close(ctx context.Context, in *ctxfsv1.CloseRequest, opts ...grpc.CallOption) (*ctxfsv1.CloseResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_Close{Close: in}}
	return ask(ctx, c, changes, in, op, (*ctxfsv1.OperationResult).GetClose, ctxfsv1.FsServiceClient.Close, opts)
}

// ListHandles implements ctxfsv1.FsServiceClient.
func (c *fsClient) ListHandles(ctx context.Context, in *ctxfsv1.ListHandlesRequest, opts ...grpc.CallOption) (*ctxfsv1.ListHandlesResponse, error) {
	op := &ctxfsv1.Operation{Request: &ctxfsv1.Operation_ListHandles{ListHandles: in}}
	return ask(ctx, c, asks, in, op, (*ctxfsv1.OperationResult).GetListHandles, ctxfsv1.FsServiceClient.ListHandles, opts)
}

func total[T any](parts []T, size func(T) int) (n int) {
	for _, p := range parts {
		n += size(p)
	}
	return n
}

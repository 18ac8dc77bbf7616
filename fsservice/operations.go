package fsservice

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// operation is an RPC of FsService as a session calls it.
type operation struct {
	// method is the RPC's full name, which metrics and logs use.
	method string
	// long says that it may take as long as there are files, so that it has a context of its own to be cancelled.
	long bool
	// heavy says that its request or its reply may be larger than budget.Small, so that it counts as memory.
	heavy bool
	// request returns the request within the envelope.
	request func(*ctxfsv1.Operation) any
	// do gives its result; of one that comes in parts it sends those, and gives an empty one.
	do func(ctx context.Context, s *Service, op *ctxfsv1.Operation, send func(*ctxfsv1.OperationResult) error) (*ctxfsv1.OperationResult, error)
}

// operations is the table by the type of the envelope's oneof.
var operations = tableOf(
	heavy[ctxfsv1.Operation_ReadFile](ctxfsv1.FsService_ReadFile_FullMethodName, (*Service).ReadFile, (*ctxfsv1.Operation).GetReadFile, func(r *ctxfsv1.ReadFileResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_ReadFile{ReadFile: r}}
	}),
	heavy[ctxfsv1.Operation_WriteFile](ctxfsv1.FsService_WriteFile_FullMethodName, (*Service).WriteFile, (*ctxfsv1.Operation).GetWriteFile, func(r *ctxfsv1.WriteFileResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_WriteFile{WriteFile: r}}
	}),
	heavy[ctxfsv1.Operation_AppendFile](ctxfsv1.FsService_AppendFile_FullMethodName, (*Service).AppendFile, (*ctxfsv1.Operation).GetAppendFile, func(r *ctxfsv1.AppendFileResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_AppendFile{AppendFile: r}}
	}),
	short[ctxfsv1.Operation_Truncate](ctxfsv1.FsService_Truncate_FullMethodName, (*Service).Truncate, (*ctxfsv1.Operation).GetTruncate, func(r *ctxfsv1.TruncateResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Truncate{Truncate: r}}
	}),
	long[ctxfsv1.Operation_CopyFile](ctxfsv1.FsService_CopyFile_FullMethodName, (*Service).CopyFile, (*ctxfsv1.Operation).GetCopyFile, func(r *ctxfsv1.CopyFileResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_CopyFile{CopyFile: r}}
	}),
	long[ctxfsv1.Operation_Cp](ctxfsv1.FsService_Cp_FullMethodName, (*Service).Cp, (*ctxfsv1.Operation).GetCp, func(r *ctxfsv1.CpResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Cp{Cp: r}}
	}),
	short[ctxfsv1.Operation_Rename](ctxfsv1.FsService_Rename_FullMethodName, (*Service).Rename, (*ctxfsv1.Operation).GetRename, func(r *ctxfsv1.RenameResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Rename{Rename: r}}
	}),
	long[ctxfsv1.Operation_Rm](ctxfsv1.FsService_Rm_FullMethodName, (*Service).Rm, (*ctxfsv1.Operation).GetRm, func(r *ctxfsv1.RmResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Rm{Rm: r}}
	}),
	short[ctxfsv1.Operation_Rmdir](ctxfsv1.FsService_Rmdir_FullMethodName, (*Service).Rmdir, (*ctxfsv1.Operation).GetRmdir, func(r *ctxfsv1.RmdirResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Rmdir{Rmdir: r}}
	}),
	short[ctxfsv1.Operation_Unlink](ctxfsv1.FsService_Unlink_FullMethodName, (*Service).Unlink, (*ctxfsv1.Operation).GetUnlink, func(r *ctxfsv1.UnlinkResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Unlink{Unlink: r}}
	}),
	short[ctxfsv1.Operation_Mkdir](ctxfsv1.FsService_Mkdir_FullMethodName, (*Service).Mkdir, (*ctxfsv1.Operation).GetMkdir, func(r *ctxfsv1.MkdirResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Mkdir{Mkdir: r}}
	}),
	short[ctxfsv1.Operation_Mkdtemp](ctxfsv1.FsService_Mkdtemp_FullMethodName, (*Service).Mkdtemp, (*ctxfsv1.Operation).GetMkdtemp, func(r *ctxfsv1.MkdtempResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Mkdtemp{Mkdtemp: r}}
	}),
	short[ctxfsv1.Operation_Symlink](ctxfsv1.FsService_Symlink_FullMethodName, (*Service).Symlink, (*ctxfsv1.Operation).GetSymlink, func(r *ctxfsv1.SymlinkResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Symlink{Symlink: r}}
	}),
	short[ctxfsv1.Operation_Link](ctxfsv1.FsService_Link_FullMethodName, (*Service).Link, (*ctxfsv1.Operation).GetLink, func(r *ctxfsv1.LinkResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Link{Link: r}}
	}),
	long[ctxfsv1.Operation_Readdir](ctxfsv1.FsService_Readdir_FullMethodName, (*Service).Readdir, (*ctxfsv1.Operation).GetReaddir, func(r *ctxfsv1.ReaddirResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Readdir{Readdir: r}}
	}),
	parts[ctxfsv1.Operation_Opendir](ctxfsv1.FsService_Opendir_FullMethodName, (*Service).Opendir, (*ctxfsv1.Operation).GetOpendir, func(r *ctxfsv1.OpendirResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Opendir{Opendir: r}}
	}),
	short[ctxfsv1.Operation_Stat](ctxfsv1.FsService_Stat_FullMethodName, (*Service).Stat, (*ctxfsv1.Operation).GetStat, func(r *ctxfsv1.StatResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Stat{Stat: r}}
	}),
	short[ctxfsv1.Operation_Lstat](ctxfsv1.FsService_Lstat_FullMethodName, (*Service).Lstat, (*ctxfsv1.Operation).GetLstat, func(r *ctxfsv1.LstatResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Lstat{Lstat: r}}
	}),
	short[ctxfsv1.Operation_Statfs](ctxfsv1.FsService_Statfs_FullMethodName, (*Service).Statfs, (*ctxfsv1.Operation).GetStatfs, func(r *ctxfsv1.StatfsResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Statfs{Statfs: r}}
	}),
	short[ctxfsv1.Operation_Access](ctxfsv1.FsService_Access_FullMethodName, (*Service).Access, (*ctxfsv1.Operation).GetAccess, func(r *ctxfsv1.AccessResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Access{Access: r}}
	}),
	short[ctxfsv1.Operation_Exists](ctxfsv1.FsService_Exists_FullMethodName, (*Service).Exists, (*ctxfsv1.Operation).GetExists, func(r *ctxfsv1.ExistsResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Exists{Exists: r}}
	}),
	short[ctxfsv1.Operation_Realpath](ctxfsv1.FsService_Realpath_FullMethodName, (*Service).Realpath, (*ctxfsv1.Operation).GetRealpath, func(r *ctxfsv1.RealpathResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Realpath{Realpath: r}}
	}),
	short[ctxfsv1.Operation_Readlink](ctxfsv1.FsService_Readlink_FullMethodName, (*Service).Readlink, (*ctxfsv1.Operation).GetReadlink, func(r *ctxfsv1.ReadlinkResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Readlink{Readlink: r}}
	}),
	short[ctxfsv1.Operation_Chmod](ctxfsv1.FsService_Chmod_FullMethodName, (*Service).Chmod, (*ctxfsv1.Operation).GetChmod, func(r *ctxfsv1.ChmodResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Chmod{Chmod: r}}
	}),
	short[ctxfsv1.Operation_Chown](ctxfsv1.FsService_Chown_FullMethodName, (*Service).Chown, (*ctxfsv1.Operation).GetChown, func(r *ctxfsv1.ChownResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Chown{Chown: r}}
	}),
	short[ctxfsv1.Operation_Lchown](ctxfsv1.FsService_Lchown_FullMethodName, (*Service).Lchown, (*ctxfsv1.Operation).GetLchown, func(r *ctxfsv1.LchownResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Lchown{Lchown: r}}
	}),
	short[ctxfsv1.Operation_Utimes](ctxfsv1.FsService_Utimes_FullMethodName, (*Service).Utimes, (*ctxfsv1.Operation).GetUtimes, func(r *ctxfsv1.UtimesResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Utimes{Utimes: r}}
	}),
	short[ctxfsv1.Operation_Lutimes](ctxfsv1.FsService_Lutimes_FullMethodName, (*Service).Lutimes, (*ctxfsv1.Operation).GetLutimes, func(r *ctxfsv1.LutimesResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Lutimes{Lutimes: r}}
	}),
	parts[ctxfsv1.Operation_Watch](ctxfsv1.FsService_Watch_FullMethodName, (*Service).Watch, (*ctxfsv1.Operation).GetWatch, func(r *ctxfsv1.WatchResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Watch{Watch: r}}
	}),
	parts[ctxfsv1.Operation_Glob](ctxfsv1.FsService_Glob_FullMethodName, (*Service).Glob, (*ctxfsv1.Operation).GetGlob, func(r *ctxfsv1.GlobResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Glob{Glob: r}}
	}),
	parts[ctxfsv1.Operation_Grep](ctxfsv1.FsService_Grep_FullMethodName, (*Service).Grep, (*ctxfsv1.Operation).GetGrep, func(r *ctxfsv1.GrepResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Grep{Grep: r}}
	}),
	short[ctxfsv1.Operation_Open](ctxfsv1.FsService_Open_FullMethodName, (*Service).Open, (*ctxfsv1.Operation).GetOpen, func(r *ctxfsv1.OpenResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Open{Open: r}}
	}),
	heavy[ctxfsv1.Operation_Read](ctxfsv1.FsService_Read_FullMethodName, (*Service).Read, (*ctxfsv1.Operation).GetRead, func(r *ctxfsv1.ReadResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Read{Read: r}}
	}),
	heavy[ctxfsv1.Operation_Write](ctxfsv1.FsService_Write_FullMethodName, (*Service).Write, (*ctxfsv1.Operation).GetWrite, func(r *ctxfsv1.WriteResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Write{Write: r}}
	}),
	heavy[ctxfsv1.Operation_Readv](ctxfsv1.FsService_Readv_FullMethodName, (*Service).Readv, (*ctxfsv1.Operation).GetReadv, func(r *ctxfsv1.ReadvResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Readv{Readv: r}}
	}),
	heavy[ctxfsv1.Operation_Writev](ctxfsv1.FsService_Writev_FullMethodName, (*Service).Writev, (*ctxfsv1.Operation).GetWritev, func(r *ctxfsv1.WritevResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Writev{Writev: r}}
	}),
	short[ctxfsv1.Operation_Fstat](ctxfsv1.FsService_Fstat_FullMethodName, (*Service).Fstat, (*ctxfsv1.Operation).GetFstat, func(r *ctxfsv1.FstatResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Fstat{Fstat: r}}
	}),
	short[ctxfsv1.Operation_Ftruncate](ctxfsv1.FsService_Ftruncate_FullMethodName, (*Service).Ftruncate, (*ctxfsv1.Operation).GetFtruncate, func(r *ctxfsv1.FtruncateResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Ftruncate{Ftruncate: r}}
	}),
	short[ctxfsv1.Operation_Fchmod](ctxfsv1.FsService_Fchmod_FullMethodName, (*Service).Fchmod, (*ctxfsv1.Operation).GetFchmod, func(r *ctxfsv1.FchmodResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Fchmod{Fchmod: r}}
	}),
	short[ctxfsv1.Operation_Fchown](ctxfsv1.FsService_Fchown_FullMethodName, (*Service).Fchown, (*ctxfsv1.Operation).GetFchown, func(r *ctxfsv1.FchownResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Fchown{Fchown: r}}
	}),
	short[ctxfsv1.Operation_Futimes](ctxfsv1.FsService_Futimes_FullMethodName, (*Service).Futimes, (*ctxfsv1.Operation).GetFutimes, func(r *ctxfsv1.FutimesResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Futimes{Futimes: r}}
	}),
	short[ctxfsv1.Operation_Fsync](ctxfsv1.FsService_Fsync_FullMethodName, (*Service).Fsync, (*ctxfsv1.Operation).GetFsync, func(r *ctxfsv1.FsyncResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Fsync{Fsync: r}}
	}),
	short[ctxfsv1.Operation_Fdatasync](ctxfsv1.FsService_Fdatasync_FullMethodName, (*Service).Fdatasync, (*ctxfsv1.Operation).GetFdatasync, func(r *ctxfsv1.FdatasyncResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Fdatasync{Fdatasync: r}}
	}),
	short[ctxfsv1.Operation_Close](ctxfsv1.FsService_Close_FullMethodName, (*Service).Close, (*ctxfsv1.Operation).GetClose, func(r *ctxfsv1.CloseResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_Close{Close: r}}
	}),
	heavy[ctxfsv1.Operation_ListHandles](ctxfsv1.FsService_ListHandles_FullMethodName, (*Service).ListHandles, (*ctxfsv1.Operation).GetListHandles, func(r *ctxfsv1.ListHandlesResponse) *ctxfsv1.OperationResult {
		return &ctxfsv1.OperationResult{Response: &ctxfsv1.OperationResult_ListHandles{ListHandles: r}}
	}),
)

// row is an operation and the type that stands for it.
type row struct {
	envelope reflect.Type
	operation
}

func tableOf(rows ...row) map[reflect.Type]*operation {
	t := make(map[reflect.Type]*operation, len(rows))
	for _, r := range rows {
		t[r.envelope] = &r.operation
	}
	return t
}

// operationOf returns the operation in an envelope, nil when there is none that this server knows.
func operationOf(op *ctxfsv1.Operation) *operation {
	return operations[reflect.TypeOf(op.GetRequest())]
}

// short is the row of a unary RPC.
func short[E, Q, R any](
	method string, call func(*Service, context.Context, *Q) (*R, error), request func(*ctxfsv1.Operation) *Q, wrap func(*R) *ctxfsv1.OperationResult,
) row {
	return row{reflect.TypeFor[*E](), operation{
		method: method, request: func(op *ctxfsv1.Operation) any { return request(op) },
		do: func(ctx context.Context, s *Service, op *ctxfsv1.Operation, _ func(*ctxfsv1.OperationResult) error) (*ctxfsv1.OperationResult, error) {
			r, err := call(s, ctx, request(op))
			if err != nil {
				return nil, err
			}
			return wrap(r), nil
		},
	}}
}

// heavy is the row of a unary RPC with much content.
func heavy[E, Q, R any](
	method string, call func(*Service, context.Context, *Q) (*R, error), request func(*ctxfsv1.Operation) *Q, wrap func(*R) *ctxfsv1.OperationResult,
) row {
	r := short[E](method, call, request, wrap)
	r.heavy = true
	return r
}

// long is the row of a unary RPC that may take as long as there are files.
func long[E, Q, R any](
	method string, call func(*Service, context.Context, *Q) (*R, error), request func(*ctxfsv1.Operation) *Q, wrap func(*R) *ctxfsv1.OperationResult,
) row {
	r := short[E](method, call, request, wrap)
	r.long, r.heavy = true, true
	return r
}

// parts is the row of an RPC that answers with a stream.
func parts[E, Q, R any](
	method string, call func(*Service, *Q, grpc.ServerStreamingServer[R]) error, request func(*ctxfsv1.Operation) *Q, wrap func(*R) *ctxfsv1.OperationResult,
) row {
	return row{reflect.TypeFor[*E](), operation{
		method: method, long: true, heavy: true, request: func(op *ctxfsv1.Operation) any { return request(op) },
		do: func(ctx context.Context, s *Service, op *ctxfsv1.Operation, send func(*ctxfsv1.OperationResult) error) (*ctxfsv1.OperationResult, error) {
			return &ctxfsv1.OperationResult{}, call(s, request(op), &partStream[R]{ctx: ctx, send: send, wrap: wrap})
		},
	}}
}

// partStream is the stream of an RPC within a session.
type partStream[R any] struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // grpc.ServerStream asks for it
	send func(*ctxfsv1.OperationResult) error
	wrap func(*R) *ctxfsv1.OperationResult
}

// Context implements grpc.ServerStream.
func (p *partStream[R]) Context() context.Context { return p.ctx }

// Send implements grpc.ServerStreamingServer.
func (p *partStream[R]) Send(r *R) error { return p.send(p.wrap(r)) }

// SendMsg implements grpc.ServerStream for a codec.Outgoing without content.
func (p *partStream[R]) SendMsg(m any) error {
	o, ok := m.(*codec.Outgoing)
	if !ok {
		return fmt.Errorf("a session's part is %T, want a codec.Outgoing", m)
	}
	r, ok := any(o.Message).(*R)
	if !ok {
		return fmt.Errorf("a session's part is %T, want %T", o.Message, r)
	}
	err := p.Send(r)
	if o.Written != nil {
		o.Written()
	}
	return err
}

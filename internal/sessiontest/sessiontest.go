// Package sessiontest helps tests to speak a session's protocol by hand.
package sessiontest

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// MethodOf returns the RPC of FsService or ReviewService that takes req; nil when a session carries none that does.
func MethodOf(req proto.Message) protoreflect.MethodDescriptor {
	for _, file := range []protoreflect.FileDescriptor{ctxfsv1.File_ctxfs_v1_fs_proto, ctxfsv1.File_ctxfs_v1_review_proto} {
		methods := file.Services().Get(0).Methods()
		for i := range methods.Len() {
			m := methods.Get(i)
			if m.Input().FullName() == req.ProtoReflect().Descriptor().FullName() && !m.IsStreamingClient() && m.Name() != "Hold" && m.Name() != "ReadStream" {
				return m
			}
		}
	}
	return nil
}

// Call returns the message that calls the RPC of FsService or ReviewService that takes req. A request that no RPC takes calls "".
func Call(id uint64, req proto.Message) *ctxfsv1.SessionRequest {
	data, err := proto.Marshal(req)
	if err != nil {
		panic(err) // of a test's own message
	}
	call := &ctxfsv1.SessionCall{Data: data}
	if m := MethodOf(req); m != nil {
		call.Method = "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	}
	return &ctxfsv1.SessionRequest{Id: id, Request: &ctxfsv1.SessionRequest_Call{Call: call}}
}

// Result is a response as it travels. nil is none.
type Result struct{ Data []byte }

// ResultOf returns the response in m; nil when it holds none.
func ResultOf(m *ctxfsv1.SessionResponse) *Result {
	if m.GetReply() == nil {
		return nil
	}
	return &Result{m.GetReply().GetData()}
}

// To decodes the response to req; nil when r is.
func (r *Result) To(req proto.Message) proto.Message {
	if r == nil {
		return nil
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(MethodOf(req).Output().FullName())
	if err != nil {
		panic(err) // generated code registers it
	}
	m := t.New().Interface()
	if err := proto.Unmarshal(r.Data, m); err != nil {
		panic(err) // the server sent something else
	}
	return m
}

// As decodes a response of type R; of nil it returns nil.
func As[R any, M interface {
	*R
	proto.Message
}](r *Result) M {
	if r == nil {
		return nil
	}
	m := M(new(R))
	if err := proto.Unmarshal(r.Data, m); err != nil {
		panic(err) // the server sent something else
	}
	return m
}

// GetStat decodes a response of Stat.
func (r *Result) GetStat() *ctxfsv1.StatResponse { return As[ctxfsv1.StatResponse](r) }

// GetOpen decodes a response of Open.
func (r *Result) GetOpen() *ctxfsv1.OpenResponse { return As[ctxfsv1.OpenResponse](r) }

// GetWatch decodes a response of Watch.
func (r *Result) GetWatch() *ctxfsv1.WatchResponse { return As[ctxfsv1.WatchResponse](r) }

// GetGlob decodes a response of Glob.
func (r *Result) GetGlob() *ctxfsv1.GlobResponse { return As[ctxfsv1.GlobResponse](r) }

// GetGrep decodes a response of Grep.
func (r *Result) GetGrep() *ctxfsv1.GrepResponse { return As[ctxfsv1.GrepResponse](r) }

// GetRead decodes a response of Read.
func (r *Result) GetRead() *ctxfsv1.ReadResponse { return As[ctxfsv1.ReadResponse](r) }

// GetReadFile decodes a response of ReadFile.
func (r *Result) GetReadFile() *ctxfsv1.ReadFileResponse { return As[ctxfsv1.ReadFileResponse](r) }

// GetWrite decodes a response of Write.
func (r *Result) GetWrite() *ctxfsv1.WriteResponse { return As[ctxfsv1.WriteResponse](r) }

// GetReaddir decodes a response of Readdir.
func (r *Result) GetReaddir() *ctxfsv1.ReaddirResponse { return As[ctxfsv1.ReaddirResponse](r) }

// GetListHandles decodes a response of ListHandles.
func (r *Result) GetListHandles() *ctxfsv1.ListHandlesResponse {
	return As[ctxfsv1.ListHandlesResponse](r)
}

// GetWriteFile decodes a response of WriteFile.
func (r *Result) GetWriteFile() *ctxfsv1.WriteFileResponse { return As[ctxfsv1.WriteFileResponse](r) }

// GetFstat decodes a response of Fstat.
func (r *Result) GetFstat() *ctxfsv1.FstatResponse { return As[ctxfsv1.FstatResponse](r) }

// GetReadv decodes a response of Readv.
func (r *Result) GetReadv() *ctxfsv1.ReadvResponse { return As[ctxfsv1.ReadvResponse](r) }

// GetWritev decodes a response of Writev.
func (r *Result) GetWritev() *ctxfsv1.WritevResponse { return As[ctxfsv1.WritevResponse](r) }

// GetOpendir decodes a response of Opendir.
func (r *Result) GetOpendir() *ctxfsv1.OpendirResponse { return As[ctxfsv1.OpendirResponse](r) }

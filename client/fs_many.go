package client

import (
	"io/fs"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Answer is what LstatAll and StatAll say of one name: Info, or Err.
type Answer struct {
	Info fs.FileInfo
	Err  error
}

// LstatAll is Lstat of many names, in their order. What is asked together costs a fraction
// of what it costs one by one: of a status walk over the files of an index this is the
// way to ask. Up to 128 names are under way at a time. It is several calls, not one: files
// may change in between.
func (f *FS) LstatAll(names []string) []Answer {
	return askAll(f, "lstat", ctxfsv1.FsService_Lstat_FullMethodName, names, f.Lstat, func(path string, raw []byte) proto.Message {
		return &ctxfsv1.LstatRequest{ContextId: f.id, Path: path, RawPath: raw}
	}, &ctxfsv1.LstatResponse{})
}

// StatAll is as LstatAll, but follows links at the end of a name.
func (f *FS) StatAll(names []string) []Answer {
	return askAll(f, "stat", ctxfsv1.FsService_Stat_FullMethodName, names, f.Stat, func(path string, raw []byte) proto.Message {
		return &ctxfsv1.StatRequest{ContextId: f.id, Path: path, RawPath: raw}
	}, &ctxfsv1.StatResponse{})
}

// askAll asks by a session; what that does not answer, one by one.
func askAll[R interface {
	proto.Message
	GetStat() *ctxfsv1.Stat
	GetEtag() string
}](
	f *FS, op, method string, names []string, one func(string) (fs.FileInfo, error), request func(path string, raw []byte) proto.Message, response R,
) []Answer {
	requests := make([]proto.Message, len(names))
	for i, name := range names {
		requests[i] = request(f.wire(name))
	}
	answers := make([]Answer, len(names))
	f.rpc.callMany(f.ctx, method, requests, func(i int, data []byte, err error) {
		a := &answers[i]
		var st *ctxfsv1.Stat
		var etag string
		if err == nil && decode(data, response) == nil {
			st, etag = response.GetStat(), response.GetEtag()
		}
		switch {
		case unanswered(err) || (err == nil && st == nil):
			a.Info, a.Err = one(names[i])
		case err != nil:
			a.Err = f.pathError(op, names[i], err)
		default:
			a.Info = newInfo(names[i], st, etag)
		}
	})
	return answers
}

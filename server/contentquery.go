package server

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// query reads the parameters of a request for content, and keeps the first that is wrong.
type query struct {
	values url.Values
	err    error
}

// newQuery takes path, raw_path, context_id and the parameters that are named, and no others.
func newQuery(values url.Values, known ...string) *query {
	q := &query{values: values}
	left := url.Values{}
	for key, v := range values {
		left[key] = v
	}
	for _, key := range append(known, "path", "raw_path", "context_id", panelKey) {
		left.Del(key)
	}
	for key := range left {
		q.wrong("no parameter is called '%s'", fserrpb.Printable(key))
	}
	return q
}

func (q *query) wrong(format string, args ...any) {
	if q.err == nil {
		q.err = &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf(format, args...), Hint: "see GET and PUT /v1/content in docs/operations.md"}
	}
}

func (q *query) rawPath() []byte {
	raw, err := base64.StdEncoding.DecodeString(q.values.Get("raw_path"))
	if err != nil {
		q.wrong("raw_path is no base64")
	}
	return raw
}

// number is nil when the parameter is absent.
func (q *query) number(key string) *int64 {
	if !q.values.Has(key) {
		return nil
	}
	n, err := strconv.ParseInt(q.values.Get(key), 10, 64)
	if err != nil {
		q.wrong("%s is no number", key)
	}
	return &n
}

func (q *query) boolean(key string) bool {
	if !q.values.Has(key) {
		return false
	}
	b, err := strconv.ParseBool(q.values.Get(key))
	if err != nil {
		q.wrong("%s is neither true nor false", key)
	}
	return b
}

// readQuery reads the query of a GET.
func readQuery(values url.Values) (*ctxfsv1.ReadStreamRequest, error) {
	q := newQuery(values, "fd", "start", "end")
	req := &ctxfsv1.ReadStreamRequest{
		ContextId: values.Get("context_id"), Path: values.Get("path"), RawPath: q.rawPath(), Start: q.number("start"), End: q.number("end"),
	}
	if fd := q.number("fd"); fd != nil {
		req.Fd = new(int32)
		if *req.Fd = int32(*fd); int64(*req.Fd) != *fd {
			q.wrong("fd is no handle")
		}
	}
	return req, q.err
}

// writeQuery reads the query of a PUT.
func writeQuery(values url.Values) (*ctxfsv1.WriteStreamOpen, error) {
	q := newQuery(values, "start", "flag", "mode", "flush")
	open := &ctxfsv1.WriteStreamOpen{
		ContextId: values.Get("context_id"), Path: values.Get("path"), RawPath: q.rawPath(), Start: q.number("start"), Flush: q.boolean("flush"),
	}
	if values.Has("flag") {
		open.FlagForm = &ctxfsv1.WriteStreamOpen_Flag{Flag: values.Get("flag")}
	}
	if values.Has("mode") {
		open.ModeForm = &ctxfsv1.WriteStreamOpen_ModeOctal{ModeOctal: values.Get("mode")}
	}
	return open, q.err
}

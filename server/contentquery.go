package server

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
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

// newQuery takes path, raw_path, context_id and the parameters that are named, once each, and no others.
func newQuery(raw string, known ...string) *query {
	values, err := url.ParseQuery(raw)
	q := &query{values: values}
	if err != nil {
		q.wrong("the query is malformed")
	}
	known = append(known, "path", "raw_path", "context_id", panelKey)
	for key, v := range values {
		switch {
		case !slices.Contains(known, key):
			q.wrong("no parameter is called '%s'", fserrpb.Printable(key))
		case len(v) > 1:
			q.wrong("%s is given twice", key)
		}
	}
	return q
}

func (q *query) wrong(format string, args ...any) {
	if q.err == nil {
		q.err = &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf(format, args...), Hint: "see GET and PUT /v1/content in docs/operations.md"}
	}
}

func (q *query) rawPath() []byte {
	raw, err := base64.StdEncoding.Strict().DecodeString(q.values.Get("raw_path"))
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
func readQuery(raw string) (*ctxfsv1.ReadStreamRequest, error) {
	q := newQuery(raw, "fd", "start", "end")
	req := &ctxfsv1.ReadStreamRequest{
		ContextId: q.values.Get("context_id"), Path: q.values.Get("path"), RawPath: q.rawPath(), Start: q.number("start"), End: q.number("end"),
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
func writeQuery(raw string) (*ctxfsv1.WriteStreamOpen, error) {
	q := newQuery(raw, "start", "flag", "mode", "flush")
	open := &ctxfsv1.WriteStreamOpen{
		ContextId: q.values.Get("context_id"), Path: q.values.Get("path"), RawPath: q.rawPath(), Start: q.number("start"), Flush: q.boolean("flush"),
	}
	if q.values.Has("flag") {
		open.FlagForm = &ctxfsv1.WriteStreamOpen_Flag{Flag: q.values.Get("flag")}
	}
	if q.values.Has("mode") {
		open.ModeForm = &ctxfsv1.WriteStreamOpen_ModeOctal{ModeOctal: q.values.Get("mode")}
	}
	return open, q.err
}

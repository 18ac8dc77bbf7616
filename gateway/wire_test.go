package gateway

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/internal/sessiontest"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// FuzzSessionRequests decodes any message of a client as the generated code does.
func FuzzSessionRequests(f *testing.F) {
	cancel := &ctxfsv1.SessionRequest{Id: 1, Request: &ctxfsv1.SessionRequest_Cancel{Cancel: &ctxfsv1.SessionCancel{}}}
	for _, also := range [][]*ctxfsv1.SessionRequest{nil, {sessiontest.Call(2, &ctxfsv1.StatRequest{Path: "/b"})}, {sessiontest.Call(300, &ctxfsv1.StatRequest{Path: "/b"}), cancel}} {
		m := sessiontest.Call(1, &ctxfsv1.StatRequest{Path: "/a"})
		m.Also = also
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var want ctxfsv1.SessionRequest
		wantErr := proto.Unmarshal(message, &want)
		got, err := new(requestDecoder).decode(message)
		if (err == nil) != (wantErr == nil) || err == nil && !proto.Equal(got, &want) {
			t.Errorf("decoded %v, %v; want %v, %v", got, err, &want, wantErr)
		}
	})
}

// TestSessionResponses has the generated code decode what a session sends.
func TestSessionResponses(t *testing.T) {
	reply := func(id uint64, more bool, size int) *ctxfsv1.SessionResponse {
		data := bytes.Repeat([]byte("x"), size)
		return &ctxfsv1.SessionResponse{Id: id, More: more, Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{Data: data}}}
	}
	failed := func() *ctxfsv1.SessionResponse {
		return &ctxfsv1.SessionResponse{Id: 7, Response: &ctxfsv1.SessionResponse_Error{Error: &ctxfsv1.SessionError{Message: "m"}}}
	}
	with := func(m *ctxfsv1.SessionResponse, also ...*ctxfsv1.SessionResponse) *ctxfsv1.SessionResponse {
		m.Also = also
		return m
	}
	for _, m := range []*ctxfsv1.SessionResponse{
		{}, failed(), reply(0, false, 0), reply(1, true, 1), reply(1<<60, false, 200_000), with(reply(1, false, 20_000), reply(2, false, 5), reply(3, true, 30_000)),
		with(reply(1, false, 100), reply(2, true, 130), failed(), reply(3, false, 0)), with(failed(), reply(2, false, 10), failed()),
	} {
		e := responseEncoder{last: []byte("before")}
		err := e.response(m)
		b := append(bytes.Join(e.parts, nil), e.last...)
		var got ctxfsv1.SessionResponse
		if err != nil || len(b) != len("before")+responseSize(m) || proto.Unmarshal(b[len("before"):], &got) != nil || !proto.Equal(&got, m) {
			t.Errorf("%x, %v, is %v of size %d; want %v", b, err, &got, responseSize(m), m)
		}
	}
}

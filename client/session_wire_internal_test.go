package client

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestTogether packs requests of various sizes and expects them on the wire in order, in as
// few messages as their sizes allow.
func TestTogether(t *testing.T) {
	t.Parallel()
	const small, large = 100, largeRequest
	for _, c := range []struct {
		name  string
		sizes []int
		want  [][]uint64
	}{
		{"one", []int{small}, [][]uint64{{1}}},
		{"small ones", []int{small, 0, small}, [][]uint64{{1, 2, 3}}},
		{"a large one", []int{large}, [][]uint64{{1}}},
		{"a large one first", []int{large, small, small}, [][]uint64{{1}, {2, 3}}},
		{"a large one within", []int{small, large, small}, [][]uint64{{1}, {2}, {3}}},
		{"as many as fit", []int{large / 2, large / 3, large / 3}, [][]uint64{{1, 2}, {3}}},
		{"as many as may be", make([]int, 130), [][]uint64{upTo(1, 128), upTo(129, 130)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var batch []outgoing
			for i, size := range c.sizes {
				batch = append(batch, outgoing{request: request(t, uint64(i+1), size)})
			}
			var got [][]uint64
			for with := (together{}); len(batch) > 0; {
				n := with.pack(batch)
				got = append(got, sent(t, with))
				batch = batch[n:]
			}
			if !slices.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("sent %v, want %v", got, c.want)
			}
		})
	}
}

func upTo(from, to uint64) (ids []uint64) {
	for ; from <= to; from++ {
		ids = append(ids, from)
	}
	return ids
}

func request(t *testing.T, id uint64, size int) []byte {
	t.Helper()
	write := &ctxfsv1.WriteRequest{Content: &ctxfsv1.WriteRequest_Data{Data: make([]byte, size)}}
	b, err := appendCall(nil, &exchange{id: id, method: ctxfsv1.FsService_Write_FullMethodName, args: write, size: proto.Size(write)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sent returns the ids of the requests in a message, as the server reads it.
func sent(t *testing.T, with together) []uint64 {
	t.Helper()
	data, err := newWireCodec().Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	var m ctxfsv1.SessionRequest
	if err := proto.Unmarshal(data.Materialize(), &m); err != nil {
		t.Fatal(err)
	}
	ids := []uint64{m.GetId()}
	for _, also := range m.GetAlso() {
		ids = append(ids, also.GetId())
	}
	return ids
}

func TestACallIsASessionRequest(t *testing.T) {
	t.Parallel()
	in := &ctxfsv1.StatRequest{ContextId: "ctx_a", Path: "/a"}
	x := &exchange{id: 300, method: ctxfsv1.FsService_Stat_FullMethodName, args: in, size: proto.Size(in)}
	b, err := appendCall([]byte("before"), x)
	var m ctxfsv1.SessionRequest
	if err != nil || proto.Unmarshal(b[len("before"):], &m) != nil {
		t.Fatalf("%q, %v", b, err)
	}
	var out ctxfsv1.StatRequest
	if m.GetId() != 300 || m.GetCall().GetMethod() != x.method || proto.Unmarshal(m.GetCall().GetData(), &out) != nil || !proto.Equal(&out, in) {
		t.Errorf("the server reads %v, %v", &m, &out)
	}
}

// FuzzResponses parses any message of a server. What the generated code decodes, eachResponse decodes to the same.
func FuzzResponses(f *testing.F) {
	reply := func(id uint64, more bool) *ctxfsv1.SessionResponse {
		return &ctxfsv1.SessionResponse{Id: id, More: more, Response: &ctxfsv1.SessionResponse_Reply{Reply: &ctxfsv1.SessionReply{Data: []byte("data")}}}
	}
	failed := &ctxfsv1.SessionResponse{Id: 3, Response: &ctxfsv1.SessionResponse_Error{Error: &ctxfsv1.SessionError{Code: 5, Reason: "ENOENT"}}}
	closing := &ctxfsv1.SessionResponse{Response: &ctxfsv1.SessionResponse_Closing{Closing: &ctxfsv1.SessionClosing{}}}
	batch := reply(1, false)
	batch.Also = []*ctxfsv1.SessionResponse{reply(2, true), failed, closing}
	for _, m := range []*ctxfsv1.SessionResponse{{}, reply(1, false), failed, closing, batch} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var m ctxfsv1.SessionResponse
		if proto.Unmarshal(message, &m) != nil {
			_ = eachResponse(message, func(response, bool) {}) // which must not panic
			return
		}
		want := append([]*ctxfsv1.SessionResponse{&m}, m.GetAlso()...)
		err := eachResponse(message, func(r response, alone bool) {
			if len(want) == 0 || alone != (len(m.GetAlso()) == 0) {
				t.Fatalf("%d more are wanted, alone %v", len(want), alone)
			}
			w := want[0]
			want = want[1:]
			if r.id != w.GetId() || r.more != w.GetMore() || !bytes.Equal(r.data, w.GetReply().GetData()) || (r.other == nil) != (w.GetReply() != nil) {
				t.Errorf("parsed %+v, want %v", r, w)
			}
		})
		if err != nil || len(want) > 0 {
			t.Errorf("%v, and %d are missing", err, len(want))
		}
	})
}

package gateway

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/codec"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/session"
)

// A message of a session carries up to 128 calls or replies, each in an envelope of two messages. The generated code takes four times as
// long for these envelopes, so they are coded here. The generated code does everything else.

// The fields of the envelopes: of SessionRequest, SessionCall, SessionResponse and SessionReply.
const (
	idField, callField, alsoRequestField  = 1, 3, 6
	moreField, replyField, alsoReplyField = 2, 4, 8
	methodField, dataField                = 1, 100
)

// maxMethods and maxMethodName bound the names that a session keeps: their number, and the size of each in bytes.
const maxMethods, maxMethodName = 64, 100

// callRequest is a SessionRequest of a call, in one allocation.
type callRequest struct {
	ctxfsv1.SessionRequest
	kind ctxfsv1.SessionRequest_Call
	call ctxfsv1.SessionCall
}

// requestDecoder decodes the messages of a session. It keeps the names of methods that were called.
type requestDecoder struct{ names map[string]string }

// decode decodes a message. The result does not refer to it.
func (d *requestDecoder) decode(message []byte) (*ctxfsv1.SessionRequest, error) {
	first, rest, ok := d.call(message)
	for ok && len(rest) > 0 {
		var one []byte
		var also *callRequest
		if one, rest, ok = bytesField(rest, alsoRequestField); !ok {
			break
		}
		var beyond []byte
		if also, beyond, ok = d.call(one); ok && len(beyond) == 0 {
			first.Also = append(first.Also, &also.SessionRequest)
			continue
		}
		ok = false
	}
	if ok {
		return &first.SessionRequest, nil
	}
	m := new(ctxfsv1.SessionRequest)
	decodes, err := codec.FootprintBytes(message, m.ProtoReflect().Descriptor())
	if err == nil && decodes > 4*session.MaxMessage {
		err = fserr.Invalid("a session's message has too many elements")
	}
	if err != nil {
		return nil, err
	}
	return m, proto.Unmarshal(message, m)
}

// call decodes a call at the start of b, as the generated code encodes it. It is not ok for anything else.
func (d *requestDecoder) call(b []byte) (r *callRequest, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != idField<<3 {
		return nil, nil, false
	}
	id, n := protowire.ConsumeVarint(b[1:])
	if n < 0 {
		return nil, nil, false
	}
	call, rest, ok := bytesField(b[1+n:], callField)
	if !ok {
		return nil, nil, false
	}
	name, call, ok := bytesField(call, methodField)
	if !ok || len(name) > maxMethodName {
		return nil, nil, false
	}
	data, call, ok := bytesField(call, dataField)
	if !ok || len(call) > 0 {
		return nil, nil, false
	}
	r = &callRequest{}
	r.Id, r.Request, r.kind.Call = id, &r.kind, &r.call
	r.call.Method, r.call.Data = d.name(name), slices.Clone(data)
	return r, rest, utf8.ValidString(r.call.Method)
}

// name returns a method's name, which is kept for the next call.
func (d *requestDecoder) name(b []byte) string {
	if name, ok := d.names[string(b)]; ok {
		return name
	}
	name := string(b)
	if d.names == nil {
		d.names = map[string]string{}
	}
	if len(d.names) < maxMethods {
		d.names[name] = name
	}
	return name
}

// bytesField takes a field from the start of b if it has that number and the type of bytes.
func bytesField(b []byte, field protowire.Number) (value, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number != field || kind != protowire.BytesType {
		return nil, nil, false
	}
	value, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return nil, nil, false
	}
	return value, b[n+m:], true
}

// largeData is the size from which the data of a reply is sent from where it is, in bytes: a copy would take as much memory again for
// as long as the client reads nothing.
const largeData = 16 << 10

// responseEncoder encodes a response in parts, to be sent one after the other: those in parts, then last, which grows.
type responseEncoder struct {
	parts [][]byte
	last  []byte
}

// response encodes m as the generated code does. The parts refer to its large data.
func (e *responseEncoder) response(m *ctxfsv1.SessionResponse) (err error) {
	if m.GetReply() == nil {
		if e.last, err = (proto.MarshalOptions{}).MarshalAppend(e.last, m); err != nil {
			return fmt.Errorf("encode a message of a session: %w", err)
		}
		return nil
	}
	if m.GetId() != 0 {
		e.last = protowire.AppendVarint(append(e.last, idField<<3), m.GetId())
	}
	if m.GetMore() {
		e.last = append(e.last, moreField<<3, 1)
	}
	e.last = protowire.AppendTag(e.last, replyField, protowire.BytesType)
	e.last = protowire.AppendVarint(e.last, uint64(replySize(m)))
	if data := m.GetReply().GetData(); len(data) > 0 {
		e.last = protowire.AppendTag(e.last, dataField, protowire.BytesType)
		e.last = protowire.AppendVarint(e.last, uint64(len(data)))
		e.data(data)
	}
	for _, also := range m.GetAlso() {
		e.last = protowire.AppendTag(e.last, alsoReplyField, protowire.BytesType)
		e.last = protowire.AppendVarint(e.last, uint64(responseSize(also)))
		if err := e.response(also); err != nil {
			return err
		}
	}
	return nil
}

func (e *responseEncoder) data(data []byte) {
	if len(data) < largeData {
		e.last = append(e.last, data...)
		return
	}
	e.parts = append(e.parts, e.last, data)
	e.last = e.last[len(e.last):]
}

// responseSize returns the size of a response, encoded.
func responseSize(m *ctxfsv1.SessionResponse) int {
	if m.GetReply() == nil {
		return proto.Size(m)
	}
	size := protowire.SizeBytes(replySize(m)) + protowire.SizeTag(replyField)
	if m.GetId() != 0 {
		size += protowire.SizeTag(idField) + protowire.SizeVarint(m.GetId())
	}
	if m.GetMore() {
		size += protowire.SizeTag(moreField) + 1
	}
	for _, also := range m.GetAlso() {
		size += protowire.SizeTag(alsoReplyField) + protowire.SizeBytes(responseSize(also))
	}
	return size
}

func replySize(m *ctxfsv1.SessionResponse) int {
	data := m.GetReply().GetData()
	if len(data) == 0 {
		return 0
	}
	return protowire.SizeTag(dataField) + protowire.SizeBytes(len(data))
}

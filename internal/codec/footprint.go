package codec

import (
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/fserr"
)

const (
	// MaxElements bounds the elements of all lists, maps and repeated messages in one request.
	MaxElements = 1 << 18
	// maxNesting bounds the messages in messages.
	maxNesting = 100
	// leastMeasured is the size in bytes of an encoding up to which Footprint tells nothing: it decodes to less than 32 KiB.
	leastMeasured = 256
)

// What decoding takes in bytes, besides the content of fields: the space of a list doubles as it grows, and each allocation is rounded up.
const (
	perPointer  = 40  // a message in a list
	perString   = 120 // a string or bytes in a list, with its header
	perScalar   = 20  // a number in a list
	perEntry    = 192 // an entry of a map
	perField    = 16  // a string or bytes, or the wrapper of a oneof
	unknownCost = 4   // a byte of a field that the type does not have, which the message keeps

	// A container of JSON is a message or a list, and a comma is before a field, an element or an entry of a map.
	perContainer, perComma = 256, 128
)

// Footprint returns about how many bytes of memory it takes to decode an encoding of a message type: up to 150 times its size. It fails with EINVAL if there
// are more than MaxElements elements. What it cannot read it leaves to the decoder, which fails.
func Footprint(data mem.BufferSlice, d protoreflect.MessageDescriptor) (int64, error) {
	return footprint(cursor{pieces: data}, data.Len(), d)
}

// FootprintBytes is Footprint of an encoding in one piece. It allocates nothing.
func FootprintBytes(data []byte, d protoreflect.MessageDescriptor) (int64, error) {
	return footprint(cursor{rest: data}, len(data), d)
}

func footprint(at cursor, size int, d protoreflect.MessageDescriptor) (int64, error) {
	if size <= leastMeasured {
		return 0, nil
	}
	w := weigher{cursor: at}
	err := w.message(shapeOf(d), size, 0)
	return w.bytes, err
}

// shape is what a message type takes in memory.
type shape struct {
	bytes  int64
	fields map[protowire.Number]*member
}

// member is a field of a shape. Several is a list or a map, packed one of numbers that may share one length.
type member struct {
	name            protoreflect.Name
	several, packed bool
	// width is the size in bytes of a packed number, 0 if it varies.
	width int
	// each is what an element takes besides its content.
	each int64
	// to is of a message; text says that the content counts.
	to   *shape
	text bool
}

var shapes sync.Map // of protoreflect.MessageDescriptor to *shape

// shapeOf returns the shape of a message type.
func shapeOf(d protoreflect.MessageDescriptor) *shape {
	if s, ok := shapes.Load(d); ok {
		return s.(*shape)
	}
	all := map[protoreflect.FullName]*shape{}
	s := shapeWith(d, all)
	shapes.Store(d, s)
	return s
}

// shapeWith is shapeOf, given the shapes that are being made: types can contain each other.
func shapeWith(d protoreflect.MessageDescriptor, all map[protoreflect.FullName]*shape) *shape {
	if s, ok := all[d.FullName()]; ok {
		return s
	}
	s := &shape{bytes: sizeOf(d), fields: map[protowire.Number]*member{}}
	all[d.FullName()] = s
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		m := &member{name: f.Name(), several: f.Cardinality() == protoreflect.Repeated, each: perField}
		switch f.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			m.to, m.each = shapeWith(f.Message(), all), perPointer
			if f.IsMap() {
				m.each = perEntry
			}
		case protoreflect.StringKind, protoreflect.BytesKind:
			m.text = true
			if m.several {
				m.each = perString
			}
		default:
			m.packed, m.width = m.several, widths[f.Kind()]
			if m.several {
				m.each = perScalar
			}
		}
		s.fields[f.Number()] = m
	}
	return s
}

// widths are the kinds of numbers that have one.
var widths = map[protoreflect.Kind]int{
	protoreflect.Fixed32Kind: 4, protoreflect.Sfixed32Kind: 4, protoreflect.FloatKind: 4,
	protoreflect.Fixed64Kind: 8, protoreflect.Sfixed64Kind: 8, protoreflect.DoubleKind: 8,
}

// sizeOf returns the size of a message's struct with the allocator's rounding, in bytes. An entry of a map has none.
func sizeOf(d protoreflect.MessageDescriptor) int64 {
	if d.IsMapEntry() {
		return 0
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return 512 // it is not generated
	}
	size := int64(reflect.TypeOf(t.Zero().Interface()).Elem().Size())
	return size + size/4
}

// weigher walks over an encoding.
type weigher struct {
	cursor
	bytes    int64
	elements int
}

// message walks to end.
func (w *weigher) message(s *shape, end, depth int) error {
	w.bytes += s.bytes
	if depth > maxNesting {
		return fserr.Invalid("the request has messages in messages, %d deep", depth)
	}
	for w.off < end {
		tag, ok := w.varint(end)
		if !ok {
			return nil // the decoder says what is wrong
		}
		m := s.fields[protowire.Number(tag>>3)]
		begun := w.off
		ok, err := w.field(m, protowire.Type(tag&7), end, depth)
		if err != nil {
			return err
		}
		if m == nil {
			w.bytes += unknownCost * int64(w.off-begun+1)
		}
		if !ok {
			w.skip(end-w.off, end)
			return nil
		}
	}
	return nil
}

// field walks over a field, whose member is nil if the type has none; false when it is malformed.
func (w *weigher) field(m *member, typ protowire.Type, end, depth int) (ok bool, err error) {
	switch {
	case typ == protowire.StartGroupType || typ == protowire.EndGroupType:
		return false, fserr.Invalid("the request has a group, and no message of this contract has one")
	case m == nil:
		return w.value(typ, end), nil
	case typ != protowire.BytesType:
		return w.value(typ, end), w.count(m, 1)
	}
	size, ok := w.length(end)
	switch {
	case !ok:
		return false, nil
	case m.to != nil:
		if err := w.count(m, 1); err != nil {
			return false, err
		}
		return true, w.message(m.to, w.off+size, depth+1)
	case m.packed && m.width > 0:
		err = w.count(m, size/m.width)
	case m.packed:
		return true, w.numbers(m, w.off+size)
	default:
		if m.text {
			w.bytes += int64(size)
		}
		err = w.count(m, 1)
	}
	return w.skip(size, end), err
}

// numbers walks over packed numbers to end.
func (w *weigher) numbers(m *member, end int) error {
	n := 0
	for w.off < end {
		if b, _ := w.next(end); b < 0x80 {
			n++
		}
	}
	return w.count(m, n)
}

// count counts n elements of a field.
func (w *weigher) count(m *member, n int) error {
	w.bytes += m.each * int64(n)
	if !m.several {
		return nil
	}
	if w.elements += n; w.elements > MaxElements {
		return tooMany(string(m.name))
	}
	return nil
}

// FootprintJSON is Footprint of a message in JSON, besides its text.
func FootprintJSON(text []byte) (int64, error) {
	if len(text) <= leastMeasured {
		return 0, nil
	}
	quoted := false
	containers, commas := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			containers++
		case c == ',':
			commas++
		}
	}
	if containers > MaxElements || commas > 2*MaxElements { // an element has a field or two
		return 0, tooMany("JSON")
	}
	return perContainer*int64(containers) + perComma*int64(commas), nil
}

func tooMany(field string) error {
	return &fserr.Error{
		Code: fserr.EINVAL, Kind: fserr.KindRequest, Detail: fmt.Sprintf("the request has more than %d elements, in %q and before", MaxElements, field),
		Hint: "send them in several requests",
	}
}

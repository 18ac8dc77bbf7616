package codec

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/fserr"
	_ "github.com/ctxfs/ctxfs/proto/ctxfs/v1" // its requests
)

// repeated is a field many times.
func repeated(number protowire.Number, typ protowire.Type, value []byte, times int) []byte {
	one := append(protowire.AppendTag(nil, number, typ), value...)
	return bytes.Repeat(one, times)
}

// decodedBytes returns how many bytes are allocated to decode data. Data that is malformed takes memory up to there.
func decodedBytes(data []byte, m proto.Message) int64 {
	return allocated(func() { _ = proto.Unmarshal(data, m) })
}

// allocated returns how many bytes do allocates.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// requests are the request messages of all RPCs.
func requests() (all []protoreflect.MessageDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("ctxfs.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, methods.Get(j).Input())
			}
		}
		return true
	})
	return all
}

// field is a way to a field that may be given many times, from the request's field to its own.
type field []protoreflect.FieldDescriptor

func (f field) last() protoreflect.FieldDescriptor { return f[len(f)-1] }

func (f field) String() string {
	names := []string{string(f[0].ContainingMessage().Name())}
	for _, one := range f {
		names = append(names, string(one.Name()))
	}
	return strings.Join(names, ".")
}

// encode returns a request with the field so many times.
func (f field) encode(times int) []byte {
	last := f.last()
	one := []byte{0}
	typ := protowire.BytesType
	if last.IsMap() { // an entry with another key each time
		var all []byte
		for i := range times {
			key := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strconv.Itoa(i))
			all = protowire.AppendBytes(protowire.AppendTag(all, last.Number(), typ), key)
		}
		return f.wrapped(all)
	}
	if last.IsList() && last.IsPacked() {
		return f.wrapped(protowire.AppendBytes(protowire.AppendTag(nil, last.Number(), typ), make([]byte, times*max(1, widths[last.Kind()]))))
	}
	return f.wrapped(bytes.Repeat(append(protowire.AppendTag(nil, last.Number(), typ), one...), times))
}

func (f field) wrapped(data []byte) []byte {
	for _, outer := range slices.Backward(f[:len(f)-1]) {
		data = protowire.AppendBytes(protowire.AppendTag(nil, outer.Number(), protowire.BytesType), data)
	}
	return data
}

// fields returns the ways to all lists, maps and messages in a message.
func fields(d protoreflect.MessageDescriptor, above field) (all []field) {
	if len(above) > 4 {
		return nil
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		way := append(slices.Clone(above), f)
		if f.IsList() || f.IsMap() {
			all = append(all, way)
		}
		if f.Message() != nil && !f.IsMap() {
			all = append(all, fields(f.Message(), way)...)
		}
	}
	return all
}

// TestFootprintOfEveryList decodes each list and map of each request with many elements, and with more than may be. It takes seconds: there are 60,
// and it encodes each three times.
func TestFootprintOfEveryList(t *testing.T) {
	const times = 5_000
	n := 0
	for _, d := range requests() {
		typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fields(d, nil) {
			n++
			data := f.encode(times)
			told, err := FootprintBytes(data, d)
			took := decodedBytes(data, typ.New().Interface())
			if err != nil || took > told+2*int64(len(data)) || told > 8*took {
				t.Errorf("%v: %d elements in %d bytes take %d bytes, and %d are foreseen, %v", f, times, len(data), took, told, err)
			}
			if _, err := FootprintBytes(f.encode(MaxElements+1), d); !errors.Is(err, fserr.EINVAL) || !strings.Contains(err.Error(), string(f.last().Name())) {
				t.Errorf("%v: more than may be: %v", f, err)
			}
			if _, err := FootprintBytes(f.encode(MaxElements-10), d); err != nil {
				t.Errorf("%v: as many as may be: %v", f, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d lists and maps were found", n)
	}
}

// FuzzFootprint holds what is foreseen to what decoding takes, for every request.
func FuzzFootprint(f *testing.F) {
	all := requests()
	for i, d := range all {
		for _, way := range fields(d, nil) {
			f.Add(uint8(i), way.encode(100))
		}
	}
	f.Add(uint8(0), repeated(3000, protowire.VarintType, []byte{1}, 1000)) // fields that the type does not have
	f.Add(uint8(0), repeated(3000, protowire.StartGroupType, nil, 1000))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		d := all[int(which)%len(all)]
		typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		told, err := FootprintBytes(data, d)
		if again, err2 := Footprint(pieces(data, mem.NopBufferPool{}, 1, 0, 7), d); again != told || (err2 == nil) != (err == nil) {
			t.Errorf("a %s of %d bytes: %d, %v are foreseen in one piece, %d, %v in several", d.Name(), len(data), told, err, again, err2)
		}
		if took := decodedBytes(data, typ.New().Interface()); err == nil && took > told+8*int64(len(data))+256<<10 { // the fuzzer allocates, too
			t.Errorf("a %s of %d bytes takes %d bytes, and %d are foreseen", d.Name(), len(data), took, told)
		}
	})
}

func TestFootprintOfJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		cost int64 // -1 is an error
	}{
		{`{"content":"` + strings.Repeat(`,{[\\\"`, MaxElements) + `"}`, perContainer},
		{`{"changes":[` + strings.Repeat(`{"path":"/a","changeId":"b"},`, MaxElements/2) + `{}]}`, perContainer*(MaxElements/2+3) + perComma*MaxElements},
		{`{"changes":[` + strings.Repeat(`{},`, MaxElements) + `{}]}`, -1},
		{`{"selectors":[` + strings.Repeat(`"",`, 2*MaxElements+1) + `""]}`, -1},
		{`{"labels":{` + strings.Repeat(`"k":"v",`, 2*MaxElements+1) + `"k":"v"}}`, -1},
		{strings.Repeat(`[`, MaxElements+1), -1},
	} {
		cost, err := FootprintJSON([]byte(c.text))
		if errors.Is(err, fserr.EINVAL) != (c.cost < 0) || err == nil && cost != c.cost {
			t.Errorf("%.40s…, %d bytes: %d, %v; want %d", c.text, len(c.text), cost, err, c.cost)
		}
	}
}

// FuzzFootprintJSON holds what is foreseen to what decoding takes, for every request in JSON.
func FuzzFootprintJSON(f *testing.F) {
	all := requests()
	for i, d := range all {
		typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			f.Fatal(err)
		}
		for _, way := range fields(d, nil) {
			m := typ.New().Interface()
			if proto.Unmarshal(way.encode(100), m) != nil {
				continue // a number that no enum has
			}
			if text, err := protojson.Marshal(m); err == nil {
				f.Add(uint8(i), text)
			}
		}
	}
	for _, text := range []string{`{"x":[[[[{},{}]]]],"x":{"y":[1,2]}}`, `{"path":"\u0000\u0001"}`, strings.Repeat(`[`, 300), `{"":` + strings.Repeat(`{"":`, 300)} {
		f.Add(uint8(0), []byte(text))
	}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		d := all[int(which)%len(all)]
		typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		told, err := FootprintJSON(text)
		if err != nil {
			return
		}
		m := typ.New().Interface()
		took := allocated(func() { _ = protojson.Unmarshal(text, m) })
		if took > told+8*int64(len(text))+256<<10 { // the fuzzer allocates, too
			t.Errorf("a %s of %d bytes takes %d bytes, and %d are foreseen", d.Name(), len(text), took, told)
		}
	})
}

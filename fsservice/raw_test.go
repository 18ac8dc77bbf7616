package fsservice_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// rawTwins returns the raw_ fields of what a method takes, and a maker of that.
func rawTwins(t *testing.T, m protoreflect.MethodDescriptor) (twins []protoreflect.FieldDescriptor, request func() proto.Message) {
	t.Helper()
	d := m.Input()
	if open := d.Fields().ByName("open"); open != nil && m.IsStreamingClient() {
		d = open.Message()
	}
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); strings.HasPrefix(string(f.Name()), "raw_") {
			twins = append(twins, f)
		}
	}
	return twins, func() proto.Message { return newMessage(t, d) }
}

// TestTextAndRawExcludeEachOther sets both of every field that has a raw twin.
func TestTextAndRawExcludeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	checked := 0
	for _, m := range methods() {
		twins, request := rawTwins(t, m)
		for _, raw := range twins {
			checked++
			name := strings.TrimPrefix(string(raw.Name()), "raw_")
			req := request().ProtoReflect()
			for _, other := range twins {
				req.Set(other, protoreflect.ValueOfBytes([]byte("f\xff")))
			}
			req.Set(raw.ContainingMessage().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOfString("f"))
			_, err := w.invoke(w.as("a"), m, req.Interface())
			e, ok := fserrpb.FromStatus(err)
			if want := name + " and raw_" + name + " are both set"; !ok || e.Detail != want {
				t.Errorf("%s: %v, want %s", m.Name(), err, want)
			}
		}
	}
	if checked < 38 {
		t.Errorf("only %d fields were checked", checked)
	}
}

// TestErrorsNameRawPathsEscaped asks every method for something in a directory that is not there.
func TestErrorsNameRawPathsEscaped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, m := range methods() {
		twins, request := rawTwins(t, m)
		// Exists and WatchChanges have no errors of the path, and Extract looks at its handle first.
		if len(twins) == 0 || slices.Contains([]protoreflect.Name{"Exists", "WatchChanges", "Extract"}, m.Name()) {
			continue
		}
		req := request().ProtoReflect()
		for _, raw := range twins {
			req.Set(raw, protoreflect.ValueOfBytes([]byte("no\xff/x")))
		}
		_, err := w.invoke(w.as("a"), m, req.Interface())
		e, ok := fserrpb.FromStatus(err)
		if !ok || !strings.Contains(e.Path, `no\xff/x`) || !strings.Contains(e.Error(), ` 'no\xff/x`) {
			t.Errorf("%s: %v, want an error about 'no\\xff/x'", m.Name(), err)
		}
	}
}

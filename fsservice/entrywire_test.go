package fsservice

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestEntryListIsWhatProtobufEncodes compares listings with the messages they stand for,
// byte for byte.
func TestEntryListIsWhatProtobufEncodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := entryList{listing: listing{types: rapid.Bool().Draw(t, "types"), stats: rapid.Bool().Draw(t, "stats")}}
		var want []*ctxfsv1.DirEntry
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			e := drawListed(t)
			l.add(e)
			want = append(want, messageOf(l.listing, e))
		}
		if l.count != len(want) {
			t.Fatalf("%d counted, want %d", l.count, len(want))
		}
		compareEncoding(t, l.response(), &ctxfsv1.ReaddirResponse{Entries: want})
		compareEncoding(t, l.batch(), &ctxfsv1.OpendirResponse{
			Event: &ctxfsv1.OpendirResponse_Entries{Entries: &ctxfsv1.DirEntryBatch{Entries: want}},
		})
		if len(l.encoded) != 0 || l.count != 0 {
			t.Fatal("a batch that was sent is kept")
		}
	})
}

func drawListed(t *rapid.T) listed {
	path := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	e := listed{path.Draw(t, "dir"), rootfs.Entry{
		Name: strings.Repeat(path.Draw(t, "name"), rapid.IntRange(0, 9).Draw(t, "times")),
		Type: rootfs.Type(rapid.IntRange(0, int(rootfs.TypeBlockDevice)).Draw(t, "type")),
	}}
	if rapid.Bool().Draw(t, "has stat") {
		e.Stat = rapid.Make[*rootfs.Stat]().Draw(t, "stat")
	}
	return e
}

func messageOf(l listing, e listed) *ctxfsv1.DirEntry {
	w := &ctxfsv1.DirEntry{}
	w.Name, w.RawName = wirePath(e.Name)
	w.ParentPath, w.RawParentPath = wirePath(e.dir)
	if l.types || l.stats {
		w.Type = fileType(e.Type)
	}
	if l.stats && e.Stat != nil {
		w.Stat = wireStat(*e.Stat)
	}
	return w
}

func compareEncoding(t *rapid.T, got, want proto.Message) {
	g, err := proto.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Fatalf("encoded\n%x\nwant\n%x", g, w)
	}
}

// TestEntryListKnowsAllFields fails when a message of a listing gains a field that is not encoded.
func TestEntryListKnowsAllFields(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		message proto.Message
		fields  int
	}{
		{&ctxfsv1.ReaddirResponse{}, 1},
		{&ctxfsv1.DirEntryBatch{}, 1},
		{&ctxfsv1.DirEntry{}, 6},
		{&ctxfsv1.Stat{}, reflect.TypeFor[rootfs.Stat]().NumField() + 1}, // and the type
	} {
		fields := m.message.ProtoReflect().Descriptor().Fields()
		if fields.Len() != m.fields || fields.ByNumber(protoreflect.FieldNumber(m.fields)) == nil {
			t.Errorf("%s has %d fields, want %d; adapt entryList", m.message.ProtoReflect().Descriptor().Name(), fields.Len(), m.fields)
		}
	}
}

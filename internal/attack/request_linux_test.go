package attack

import (
	"cmp"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// pathFields are the fields of a request that name a file.
var pathFields = []protoreflect.Name{"path", "dest", "prefix", "target"}

// pathless are the methods that name no file and no handle.
var pathless = map[protoreflect.Name]bool{"ListHandles": true, "Session": true, "Hold": true}

// request is one RPC, ready to be called.
type request struct {
	method protoreflect.MethodDescriptor
	msg    proto.Message
	// aimed is the field that has the attacked path.
	aimed protoreflect.Name
	// step is the method that the only step of a batch stands for; "" for others.
	step string
}

// name is the method whose rules apply.
func (r request) name() string { return cmp.Or(r.step, string(r.method.Name())) }

// watches reports whether the method goes on after its first reply.
func (r request) watches() bool { return r.name() == "Watch" || r.name() == "WatchChanges" }

func fsMethods() []protoreflect.MethodDescriptor {
	list := ctxfsv1.File_ctxfs_v1_fs_proto.Services().ByName("FsService").Methods()
	all := make([]protoreflect.MethodDescriptor, 0, list.Len())
	for i := range list.Len() {
		all = append(all, list.Get(i))
	}
	return all
}

// inner is the message of a method's request that has the path.
func inner(m protoreflect.MethodDescriptor) protoreflect.MessageDescriptor {
	if m.IsStreamingClient() {
		if open := m.Input().Fields().ByName("open"); open != nil {
			return open.Message()
		}
	}
	return m.Input()
}

// requests returns every call of FsService that takes a path, with path in each place that
// it can stand in. mode is what those ask for that make something.
func requests(t *testing.T, path string, mode uint32) (all []request) {
	t.Helper()
	for _, m := range fsMethods() {
		fields := inner(m).Fields()
		for _, aimed := range pathFields {
			if fields.ByName(aimed) == nil {
				continue
			}
			for _, flag := range flagsOf(m) {
				all = append(all, request{m, fill(t, inner(m), aimed, path, mode, false, flag), aimed, ""})
			}
			if hasBool(fields) {
				all = append(all, request{m, fill(t, inner(m), aimed, path, mode, true, "w"), aimed, ""})
			}
		}
		if m.Name() == "Batch" {
			all = append(all, batches(t, m, path, mode)...)
		}
	}
	return all
}

// batches returns batches of one step: each kind, with path in each place.
func batches(t *testing.T, m protoreflect.MethodDescriptor, path string, mode uint32) (all []request) {
	t.Helper()
	kinds := (&ctxfsv1.BatchStep{}).ProtoReflect().Descriptor().Oneofs().ByName("change").Fields()
	for i := range kinds.Len() {
		kind := kinds.Get(i)
		for _, aimed := range pathFields {
			if kind.Message().Fields().ByName(aimed) == nil {
				continue
			}
			for _, on := range []bool{false, true} {
				step, name := &ctxfsv1.BatchStep{}, strings.TrimSuffix(string(kind.Message().Name()), "Request")
				step.ProtoReflect().Set(kind, protoreflect.ValueOfMessage(fill(t, kind.Message(), aimed, path, mode, on, "").ProtoReflect()))
				all = append(all, request{m, &ctxfsv1.BatchRequest{Steps: []*ctxfsv1.BatchStep{step}}, aimed, name})
			}
		}
	}
	return all
}

func flagsOf(m protoreflect.MethodDescriptor) []string {
	if m.Name() == "Open" {
		return []string{"r", "r+", "w", "a+"}
	}
	return []string{""}
}

func hasBool(fields protoreflect.FieldDescriptors) bool {
	for i := range fields.Len() {
		if fields.Get(i).Kind() == protoreflect.BoolKind {
			return true
		}
	}
	return false
}

// fill makes a request with path at aimed, all switches on or off, and something sensible elsewhere.
func fill(t *testing.T, d protoreflect.MessageDescriptor, aimed protoreflect.Name, path string, mode uint32, on bool, flags string) proto.Message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	m := typ.New()
	setPath(m, "path", "/d/plain")
	setPath(m, "dest", freshName)
	setPath(m, "target", "plain")
	if aimed != "path" && d.Fields().ByName("target") != nil {
		setPath(m, "path", freshName)
	}
	setPath(m, aimed, path)
	fields := d.Fields()
	for i := range fields.Len() {
		if v, ok := valueOf(fields.Get(i), mode, on, flags); ok {
			m.Set(fields.Get(i), v)
		}
	}
	list(m, "patterns", "**", "*")
	if edit, ok := m.Interface().(*ctxfsv1.EditFileRequest); ok {
		edit.Edits = []*ctxfsv1.TextEdit{{NewText: "attacked", StartLine: 1, EndLine: 0}}
	}
	return m.Interface()
}

// freshName is where those put something that need a second path.
const freshName = "/d/fresh"

func setPath(m protoreflect.Message, field protoreflect.Name, path string) {
	fields := m.Descriptor().Fields()
	f, raw := fields.ByName(field), fields.ByName("raw_"+field)
	switch {
	case f == nil:
	case utf8.ValidString(path) || raw == nil:
		m.Set(f, protoreflect.ValueOfString(path))
	default:
		m.Clear(f)
		m.Set(raw, protoreflect.ValueOfBytes([]byte(path)))
	}
}

func list(m protoreflect.Message, field protoreflect.Name, values ...string) {
	if f := m.Descriptor().Fields().ByName(field); f != nil {
		l := m.Mutable(f).List()
		for _, v := range values {
			l.Append(protoreflect.ValueOfString(v))
		}
	}
}

func valueOf(f protoreflect.FieldDescriptor, mode uint32, on bool, flags string) (v protoreflect.Value, ok bool) {
	switch {
	case f.IsList():
	case f.Kind() == protoreflect.BoolKind:
		return protoreflect.ValueOfBool(on), true
	case f.Name() == "mode" && f.Kind() == protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(mode), true
	case f.Name() == "mode" && f.ContainingMessage().Name() == "AccessRequest":
		return protoreflect.ValueOfInt32(4), true
	case f.Name() == "data":
		return protoreflect.ValueOfBytes([]byte("attacked")), true
	case f.Name() == "pattern":
		return protoreflect.ValueOfString("."), true
	case f.Name() == "flags" && flags != "":
		return protoreflect.ValueOfString(flags), true
	case f.Name() == "uid" || f.Name() == "gid":
		return protoreflect.ValueOfInt64(0), true
	case f.Name() == "atime_ns" || f.Name() == "mtime_ns":
		return protoreflect.ValueOfInt64(1e18), true
	}
	return v, false
}

// TestEveryMethodIsAttacked fails for a method that takes neither a path that requests fills nor a handle.
func TestEveryMethodIsAttacked(t *testing.T) {
	attacked := map[protoreflect.Name]bool{}
	for _, r := range requests(t, "/x", 0) {
		attacked[r.method.Name()] = true
	}
	for _, m := range fsMethods() {
		if !attacked[m.Name()] && !pathless[m.Name()] && inner(m).Fields().ByName("fd") == nil {
			t.Errorf("%s is not attacked: which of its fields names a file?", m.Name())
		}
	}
	if len(attacked) < 33 {
		t.Errorf("only %d methods are attacked: %v", len(attacked), attacked)
	}
}

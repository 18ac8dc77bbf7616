// Package method reads the properties of RPCs from the options in their protos (ctxfs/v1/options.proto). Servers, sessions and
// clients ask it instead of keeping lists of methods. A method without options gets the strictest treatment.
package method

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// The metadata keys of calls besides "authorization".
const (
	// PanelKey names the panel that a host acts for.
	PanelKey = "ctxfs-panel"
	// RequestIDKey has the call's ID. A caller may choose it; the trailer of a failed call has it too.
	RequestIDKey = "x-request-id"
)

// Method is an RPC and its properties. The zero Method is an RPC without options.
type Method struct {
	// Name is the full name: "/ctxfs.v1.FsService/Stat".
	Name string
	// Desc is nil for a method that is not linked into the program.
	Desc protoreflect.MethodDescriptor

	options                                          *ctxfsv1.Method
	changesWith                                      []protoreflect.FieldDescriptor
	unboundedWith, repeatableWith, repeatableWithout protoreflect.FieldDescriptor
}

// methods has each Method that Of was asked for and that exists, by name.
var methods sync.Map

// Of returns the method with that full name. It never returns nil.
func Of(name string) *Method {
	if m, ok := methods.Load(name); ok {
		return m.(*Method) //nolint:forcetypeassert // methods has nothing else
	}
	desc := find(name)
	if desc == nil {
		return &Method{Name: name} // not kept: clients choose the names
	}
	m, _ := methods.LoadOrStore(name, New(desc))
	return m.(*Method) //nolint:forcetypeassert // as above
}

// find returns the descriptor of a method; nil when there is none.
func find(name string) protoreflect.MethodDescriptor {
	service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !ok {
		return nil
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil
	}
	if s, ok := d.(protoreflect.ServiceDescriptor); ok {
		return s.Methods().ByName(protoreflect.Name(method))
	}
	return nil
}

// New returns the method of a descriptor.
func New(desc protoreflect.MethodDescriptor) *Method {
	m := &Method{Name: "/" + string(desc.Parent().FullName()) + "/" + string(desc.Name()), Desc: desc}
	m.options, _ = proto.GetExtension(desc.Options(), ctxfsv1.E_Method).(*ctxfsv1.Method)
	field := func(name string) protoreflect.FieldDescriptor {
		return desc.Input().Fields().ByName(protoreflect.Name(name))
	}
	for _, name := range m.options.GetChangesWith() {
		m.changesWith = append(m.changesWith, field(name))
	}
	m.unboundedWith, m.repeatableWith = field(m.options.GetUnboundedWith()), field(m.options.GetRepeatableWith())
	m.repeatableWithout = field(m.options.GetRepeatableWithout())
	return m
}

// Callers returns the callers that may call the method.
func (m *Method) Callers() ctxfsv1.Callers { return m.options.GetCallers() }

// Limit returns which limit of a panel a call counts for.
func (m *Method) Limit() ctxfsv1.Limit { return m.options.GetLimit() }

// Files returns whose files a change is about.
func (m *Method) Files() ctxfsv1.Files { return m.options.GetFiles() }

// Console reports whether a console may call the method.
func (m *Method) Console() bool { return m.options.GetConsole() }

// Effect returns what the method does, apart from requests that turn a read into a change.
func (m *Method) Effect() ctxfsv1.Effect { return m.options.GetEffect() }

// Reads reports whether no request of the method changes anything.
func (m *Method) Reads() bool {
	return m.options.GetEffect() == ctxfsv1.Effect_EFFECT_READS && len(m.changesWith) == 0
}

// Changes reports whether a request may change something. req may be nil, when it is not known.
func (m *Method) Changes(req proto.Message) bool {
	if m.options.GetEffect() != ctxfsv1.Effect_EFFECT_READS {
		return true
	}
	if len(m.changesWith) == 0 {
		return false
	}
	if req == nil {
		return true
	}
	r := req.ProtoReflect()
	for _, field := range m.changesWith {
		if r.Has(field) && writes(r.Get(field)) {
			return true
		}
	}
	return false
}

// writes reports whether the value of a field that changes_with names makes a call a change. Unknown flags do.
func writes(v protoreflect.Value) bool {
	const accessMode, create, truncate = 0o3, 0o100, 0o1000 // open(2), on Linux
	switch v := v.Interface().(type) {
	case bool:
		return v
	case string:
		return v != "r" && v != "rs" && v != "sr" // fs.open's flags
	case int32:
		return v&(accessMode|create|truncate) != 0
	}
	return true
}

// Short reports whether a call takes a few system calls.
func (m *Method) Short() bool { return m.options.GetDuration() == ctxfsv1.Duration_DURATION_SHORT }

// OpenEnded reports whether a call lasts until one side ends it.
func (m *Method) OpenEnded() bool {
	return m.options.GetDuration() == ctxfsv1.Duration_DURATION_OPEN_ENDED
}

// Unbounded reports whether a call with this request gets no default deadline.
func (m *Method) Unbounded(req proto.Message) bool {
	switch m.options.GetDuration() {
	case ctxfsv1.Duration_DURATION_UNBOUNDED, ctxfsv1.Duration_DURATION_OPEN_ENDED:
		return true
	}
	return m.unboundedWith != nil && req != nil && req.ProtoReflect().Get(m.unboundedWith).Bool()
}

// Repeatable reports whether a client may send the request again after it lost the connection without a reply.
func (m *Method) Repeatable(req proto.Message) bool {
	if !m.options.GetRepeatable() || m.Changes(req) {
		return false
	}
	r := req.ProtoReflect()
	if m.repeatableWithout != nil && r.Has(m.repeatableWithout) {
		return false
	}
	return m.repeatableWith == nil || r.Has(m.repeatableWith) && r.Get(m.repeatableWith).Int() >= 0
}

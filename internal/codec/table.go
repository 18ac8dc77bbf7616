package codec

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// contentNumber and contentName are how the API marks content.
	contentNumber = 100
	contentName   = "data"
	// maxDepth bounds the messages around a content field, its own included. What is deeper is copied.
	maxDepth = 8
)

// node is a message type: where its content is, or which fields lead to it.
type node struct {
	content protoreflect.FieldDescriptor // nil when there is none in the message itself
	leads   map[protowire.Number]lead
}

// lead is a message field with content somewhere below it.
type lead struct {
	field protoreflect.FieldDescriptor
	to    *node
}

// empty says that no content can be in such a message.
func (n *node) empty() bool { return n.content == nil && len(n.leads) == 0 }

// tables holds the nodes of the message types seen so far.
type tables struct{ nodes sync.Map } // of protoreflect.MessageDescriptor to *node

func (t *tables) of(m proto.Message) *node {
	d := m.ProtoReflect().Descriptor()
	if n, ok := t.nodes.Load(d); ok {
		return n.(*node)
	}
	n, _ := t.nodes.LoadOrStore(d, newNode(d))
	return n.(*node)
}

// newNode builds the graph of a type, which may have cycles, and cuts off what leads nowhere.
func newNode(d protoreflect.MessageDescriptor) *node {
	all := map[protoreflect.FullName]*node{}
	root := grow(d, all)
	useful := map[*node]bool{}
	for more := true; more; {
		more = false
		for _, n := range all {
			if !useful[n] && n.useful(useful) {
				useful[n], more = true, true
			}
		}
	}
	for _, n := range all {
		n.prune(useful)
	}
	return root
}

func grow(d protoreflect.MessageDescriptor, all map[protoreflect.FullName]*node) *node {
	if n, ok := all[d.FullName()]; ok {
		return n
	}
	n := &node{leads: map[protowire.Number]lead{}}
	all[d.FullName()] = n
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch {
		case f.Cardinality() == protoreflect.Repeated:
		case f.Kind() == protoreflect.BytesKind && f.Number() == contentNumber && f.Name() == contentName:
			n.content = f
		case f.Kind() == protoreflect.MessageKind:
			n.leads[f.Number()] = lead{f, grow(f.Message(), all)}
		}
	}
	return n
}

func (n *node) useful(useful map[*node]bool) bool {
	if n.content != nil {
		return true
	}
	for _, l := range n.leads {
		if useful[l.to] {
			return true
		}
	}
	return false
}

func (n *node) prune(useful map[*node]bool) {
	for num, l := range n.leads {
		if !useful[l.to] {
			delete(n.leads, num)
		}
	}
}

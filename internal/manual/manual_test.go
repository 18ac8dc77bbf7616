package manual_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/internal/manual"
)

// TestManualIsTheProgramsContract compares the embedded files with the generated code: they differ in nothing but comments.
func TestManualIsTheProgramsContract(t *testing.T) {
	files, err := manual.Load()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("ctxfs.v1", func(linked protoreflect.FileDescriptor) bool {
		embedded, err := files.FindFileByPath(linked.Path())
		if err != nil {
			t.Fatal(err)
		}
		if embedded.SourceLocations().Len() == 0 {
			t.Errorf("%s has no comments", linked.Path())
		}
		got := protodesc.ToFileDescriptorProto(embedded)
		got.SourceCodeInfo = nil
		if !proto.Equal(got, protodesc.ToFileDescriptorProto(linked)) {
			t.Errorf("%s is not what the program was built from; run make generate", linked.Path())
		}
		compared++
		return true
	})
	if compared < 5 || len(files.Services()) < 5 {
		t.Errorf("%d files and %d services", compared, len(files.Services()))
	}
}

// TestEverythingHasAComment looks at each method and field.
func TestEverythingHasAComment(t *testing.T) {
	files, err := manual.Load()
	if err != nil {
		t.Fatal(err)
	}
	check := func(d protoreflect.Descriptor) {
		if manual.Comment(d) == "" {
			t.Errorf("%s has no comment", d.FullName())
		}
	}
	for _, s := range files.Services() {
		check(s)
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			check(m)
			for _, msg := range []protoreflect.MessageDescriptor{m.Input(), m.Output()} {
				check(msg)
				for j := range msg.Fields().Len() {
					check(msg.Fields().Get(j))
				}
			}
		}
	}
}

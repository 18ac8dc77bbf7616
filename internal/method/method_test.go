package method_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ctxfs/ctxfs/internal/method"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// TestEveryMethodHasOptions fails for an RPC whose options are missing, incomplete, or name a field that its request does not have.
func TestEveryMethodHasOptions(t *testing.T) {
	n := 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "ctxfs.") {
			return true
		}
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				n++
				check(t, f.Services().Get(i).Methods().Get(j))
			}
		}
		return true
	})
	if n < 60 {
		t.Errorf("only %d methods were checked", n)
	}
}

func check(t *testing.T, desc protoreflect.MethodDescriptor) {
	o, _ := proto.GetExtension(desc.Options(), ctxfsv1.E_Method).(*ctxfsv1.Method)
	if o.GetCallers() == 0 || o.GetEffect() == 0 || o.GetDuration() == 0 {
		t.Errorf("%s: its options name no callers, no effect or no duration: %v", desc.FullName(), o)
	}
	fields := append([]string{o.GetUnboundedWith(), o.GetRepeatableWith(), o.GetRepeatableWithout()}, o.GetChangesWith()...)
	for _, name := range fields {
		if name != "" && desc.Input().Fields().ByName(protoreflect.Name(name)) == nil {
			t.Errorf("%s: its options name the field %q, which %s does not have", desc.FullName(), name, desc.Input().FullName())
		}
	}
	if (o.GetRepeatable() || len(o.GetChangesWith()) > 0) && o.GetEffect() != ctxfsv1.Effect_EFFECT_READS {
		t.Errorf("%s: it changes something, and is repeatable or changes_with some field", desc.FullName())
	}
}

func TestPropertiesThatDependOnTheRequest(t *testing.T) {
	fd, first, own := proto.Int32(3), proto.Int64(0), proto.Int64(-1)
	for name, c := range map[string]struct {
		method                         string
		req                            proto.Message
		changes, repeatable, unbounded bool
	}{
		"stat":               {ctxfsv1.FsService_Stat_FullMethodName, &ctxfsv1.StatRequest{}, false, true, false},
		"unlink":             {ctxfsv1.FsService_Unlink_FullMethodName, &ctxfsv1.UnlinkRequest{}, true, false, false},
		"readFile":           {ctxfsv1.FsService_ReadFile_FullMethodName, &ctxfsv1.ReadFileRequest{}, false, true, false},
		"readFile rs":        {ctxfsv1.FsService_ReadFile_FullMethodName, &ctxfsv1.ReadFileRequest{FlagForm: &ctxfsv1.ReadFileRequest_Flag{Flag: "rs"}}, false, true, false},
		"readFile w+":        {ctxfsv1.FsService_ReadFile_FullMethodName, &ctxfsv1.ReadFileRequest{FlagForm: &ctxfsv1.ReadFileRequest_Flag{Flag: "w+"}}, true, false, false},
		"readFile O_RDWR":    {ctxfsv1.FsService_ReadFile_FullMethodName, &ctxfsv1.ReadFileRequest{FlagForm: &ctxfsv1.ReadFileRequest_FlagNumber{FlagNumber: 2}}, true, false, false},
		"readFile O_RDONLY":  {ctxfsv1.FsService_ReadFile_FullMethodName, &ctxfsv1.ReadFileRequest{FlagForm: &ctxfsv1.ReadFileRequest_FlagNumber{}}, false, true, false},
		"readFile handle":    {ctxfsv1.FsService_ReadFile_FullMethodName, &ctxfsv1.ReadFileRequest{Fd: fd}, false, false, false},
		"open":               {ctxfsv1.FsService_Open_FullMethodName, &ctxfsv1.OpenRequest{}, false, false, false},
		"open a":             {ctxfsv1.FsService_Open_FullMethodName, &ctxfsv1.OpenRequest{FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "a"}}, true, false, false},
		"open O_CREAT":       {ctxfsv1.FsService_Open_FullMethodName, &ctxfsv1.OpenRequest{FlagsForm: &ctxfsv1.OpenRequest_FlagsNumber{FlagsNumber: 0o100}}, true, false, false},
		"close":              {ctxfsv1.FsService_Close_FullMethodName, &ctxfsv1.CloseRequest{}, false, false, false},
		"close with commit":  {ctxfsv1.FsService_Close_FullMethodName, &ctxfsv1.CloseRequest{Commit: true}, true, false, false},
		"read at a position": {ctxfsv1.FsService_Read_FullMethodName, &ctxfsv1.ReadRequest{Position: first}, false, true, false},
		"read, own position": {ctxfsv1.FsService_Read_FullMethodName, &ctxfsv1.ReadRequest{Position: own}, false, false, false},
		"read, no position":  {ctxfsv1.FsService_Read_FullMethodName, &ctxfsv1.ReadRequest{}, false, false, false},
		"readdir":            {ctxfsv1.FsService_Readdir_FullMethodName, &ctxfsv1.ReaddirRequest{}, false, true, false},
		"recursive readdir":  {ctxfsv1.FsService_Readdir_FullMethodName, &ctxfsv1.ReaddirRequest{Recursive: true}, false, true, true},
		"cp":                 {ctxfsv1.FsService_Cp_FullMethodName, &ctxfsv1.CpRequest{}, true, false, true},
		"unknown":            {"/ctxfs.v1.FsService/Nothing", &ctxfsv1.StatRequest{}, true, false, false},
		"of another service": {"/grpc.health.v1.Health/Check", &ctxfsv1.StatRequest{}, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := method.Of(c.method)
			if m.Changes(c.req) != c.changes || m.Repeatable(c.req) != c.repeatable || m.Unbounded(c.req) != c.unbounded {
				t.Errorf("changes %v, repeatable %v, unbounded %v; want %v, %v, %v",
					m.Changes(c.req), m.Repeatable(c.req), m.Unbounded(c.req), c.changes, c.repeatable, c.unbounded)
			}
		})
	}
	if none := method.Of("/ctxfs.v1.FsService/Nothing"); none.Callers() != 0 || none.Short() || none.Reads() {
		t.Errorf("an unknown method is open to %v, short %v, reads %v", none.Callers(), none.Short(), none.Reads())
	}
	if read := method.Of(ctxfsv1.FsService_ReadFile_FullMethodName); !read.Changes(nil) || read.Reads() {
		t.Error("a ReadFile whose request is not known counts as no change")
	}
}

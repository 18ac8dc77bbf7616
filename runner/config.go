package runner

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ctxfs/ctxfs/exec"
)

// OwnDir is the directory below the exec directory where a server that runs commands itself has their records and their output.
const OwnDir = "server"

// Config of Open. All fields are required.
type Config struct {
	// Dir is the exec directory.
	Dir string
	// Program is the command line of a runner: a program that calls Serve.
	Program []string
	// Version is the server's. Runners of other versions get no new commands.
	Version string
	Gate    exec.Gate
	// Checkpoints record what commands change.
	Checkpoints exec.Checkpoints
	// Engine is the configuration of a runner's engine. Its Dir, Gate and Log are the runner's own.
	Engine exec.Config
	Log    *zap.Logger

	// closed is closed with the Runners.
	closed chan struct{}
	// reap ends what a runner left; nil means exec.Reap.
	reap func(ctx context.Context, dir string) error
}

// processOf returns the process that a request names, itself or in one of its messages; "" if it names none.
func processOf(req proto.Message) (id string) {
	m := req.ProtoReflect()
	if f := m.Descriptor().Fields().ByName("process_id"); f != nil && f.Kind() == protoreflect.StringKind {
		return m.Get(f).String()
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap() {
			id = processOf(v.Message().Interface())
		}
		return id == ""
	})
	return id
}

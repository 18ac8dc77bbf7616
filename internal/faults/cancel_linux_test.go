package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// large is more than what lies between a server and a client that does not read, in bytes.
const large = 12 << 20

// TestClientsThatDoNotRead begins streams of each kind, reads one message of each, and then neither reads nor leaves, while
// others are served; then they leave, and nothing of them stays.
func TestClientsThatDoNotRead(t *testing.T) {
	p := begin(t, nil)
	f := p.panel("panels/large")
	fillLarge(t, f)
	p.othersGoOn()
	before := measure(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fs := ctxfsv1.NewFsServiceClient(p.host.Conn())
	for range 4 {
		for name, begin := range streams(ctx, fs) {
			if err := begin(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for range 5 {
		p.othersGoOn()
		wantFile(t, f, "small", kept)
		must(t, f.WriteFile("small", []byte(kept), 0o644))
	}
	cancel()
	before.returns(t, 8)
	p.othersGoOn()
	must(t, f.RemoveAll("many"))
}

// fillLarge makes a file, and a directory, that no buffer on the way holds.
func fillLarge(t *testing.T, f *client.FS) {
	t.Helper()
	must(t, f.WriteFile("small", []byte(kept), 0o644))
	must(t, f.WriteFile("large", bytes.Repeat([]byte(kept), large/len(kept)), 0o644))
	must(t, f.Mkdir("many", 0o755))
	for i := range 500 {
		must(t, f.WriteFile(fmt.Sprintf("many/%0200d", i), nil, 0o644))
	}
}

// inLarge is the context that streams read.
const inLarge = "ctx_panels~large"

// streams begin one of each kind and read its first message.
func streams(ctx context.Context, fs ctxfsv1.FsServiceClient) map[string]func() error {
	return map[string]func() error{
		"ReadStream": func() error {
			return one(fs.ReadStream(ctx, &ctxfsv1.ReadStreamRequest{ContextId: inLarge, Path: "large"}))
		},
		"Grep": func() error { return one(fs.Grep(ctx, &ctxfsv1.GrepRequest{ContextId: inLarge, Pattern: "fault"})) },
		"Glob": func() error {
			return one(fs.Glob(ctx, &ctxfsv1.GlobRequest{ContextId: inLarge, Patterns: []string{"**"}}))
		},
		"Export":  func() error { return one(fs.Export(ctx, &ctxfsv1.ExportRequest{ContextId: inLarge})) },
		"OpenDir": func() error { return one(fs.Opendir(ctx, &ctxfsv1.OpendirRequest{ContextId: inLarge, Path: "many"})) },
		"Watch": func() error {
			return one(fs.Watch(ctx, &ctxfsv1.WatchRequest{ContextId: inLarge, Path: "/", Recursive: true}))
		},
		"Hold": func() error { return one(fs.Hold(ctx, &ctxfsv1.HoldRequest{ClientInstance: "not-reading"})) },
	}
}

func one[T any](s grpc.ServerStreamingClient[T], err error) error {
	if err != nil {
		return err
	}
	if _, err = s.Recv(); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// TestClientsThatCancelMidway ends calls of each kind at whatever point they have reached: half-written files are not there, and
// nothing else stays of them.
func TestClientsThatCancelMidway(t *testing.T) {
	p := begin(t, nil)
	f := p.panel("panels/large")
	fillLarge(t, f)
	p.othersGoOn()
	before := measure(t)
	for range 4 {
		for name, call := range midway(p, f) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- call(ctx, cancel) }()
			select { // whether it was done before it was cancelled or not
			case <-ended:
			case <-time.After(time.Minute):
				t.Errorf("%s goes on though it was cancelled", name)
				<-ended
			}
			cancel()
		}
		p.othersGoOn()
	}
	wantNone(t, f, "streamed")
	wantFile(t, f, "small", kept)
	before.returns(t, 8)
	p.clean()
}

type midCall func(ctx context.Context, cancel func()) error

func midway(p *play, f *client.FS) map[string]midCall {
	during := func(do func(f *client.FS) error) midCall {
		return func(ctx context.Context, cancel func()) error {
			go cancel()
			return do(f.With(ctx))
		}
	}
	return map[string]midCall{
		"readFile":   during(func(f *client.FS) error { return second(f.ReadFile("large")) }),
		"readStream": during(func(f *client.FS) error { return readAll(f, "large") }),
		"stat":       during(func(f *client.FS) error { return second(f.Stat("small")) }),
		"list":       during(func(f *client.FS) error { return second(f.List("many", client.ListOptions{Stats: true})) }),
		"cp":         during(func(f *client.FS) error { return second(f.Cp("many", "copy", client.CopyOptions{Recursive: true})) }),
		"rm":         during(func(f *client.FS) error { return f.RemoveAll("copy") }),
		"glob":       during(func(f *client.FS) error { return second(f.Glob("**/*")) }),
		"watch":      during(watched),
		"stream":     halfAStream(f),
		"fork": func(ctx context.Context, cancel func()) error {
			go cancel()
			_, err := p.host.Fork(ctx, inLarge, "ctx_forked")
			if err == nil {
				_, err = p.host.DeleteContext(p.Context(), "ctx_forked", client.DiscardChanges)
			}
			return err
		},
		"seed": func(ctx context.Context, cancel func()) error {
			go cancel()
			return second(p.host.EnsureContext(ctx, "ctx_seeded", nil))
		},
	}
}

// halfAStream writes some of a file and leaves.
func halfAStream(f *client.FS) midCall {
	return func(ctx context.Context, cancel func()) error {
		w, err := f.With(ctx).WriteStream("streamed", client.WriteOptions{Perm: 0o644})
		if err != nil {
			return err
		}
		_, err = w.Write(make([]byte, 1<<20))
		cancel()
		w.Abort()
		return err
	}
}

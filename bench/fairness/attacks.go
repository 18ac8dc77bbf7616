package fairness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/ctxfs/ctxfs/client"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// attack is what a hostile panel does until ctx ends. Its error means that the attack could not be made; what the server refuses is none.
type attack struct {
	name string
	run  func(ctx context.Context, f *field, p *client.Panel) error
}

var attacks = []attack{
	{"empty elements by gRPC", calls(8, emptyElements)},
	{"empty elements as JSON", jsonElements},
	{"texts of newlines", newlines},
	{"edits of newlines", edits},
	{"a sparse file of 1 TiB", sparse},
	{"a full quota", commands("quota", 1, nil)},
	{"files without a name, by handles", handles},
	{"files without a name, by a command", commands("unlinked", 1, nil)},
	{"outputs of many commands", commands("output", 4, nil)},
	{"long names to the proxy", commands("names", 2, func(c *ctxfsv1.Command) { c.Profile = "packages" })},
	{"epoll watches", commands("epoll", 3, nil)},
	{"inotify instances", commands("inotify", 3, nil)},
	{"terminals", commands("terminals", 3, nil)},
	{"the program of a shared sandbox", commands("programs", 1, func(c *ctxfsv1.Command) { c.Sandbox = "shared" })},
}

// calls makes an attack of calls that so many goroutines make again and again.
func calls(n int, call func(ctx context.Context, f *field, p *client.Panel) error) func(context.Context, *field, *client.Panel) error {
	return func(ctx context.Context, f *field, p *client.Panel) error {
		var group errgroup.Group
		for range n {
			group.Go(func() error {
				for ctx.Err() == nil {
					if err := call(ctx, f, p); err != nil {
						select { // refused
						case <-ctx.Done():
						case <-time.After(10 * time.Millisecond):
						}
					}
				}
				return nil
			})
		}
		return group.Wait()
	}
}

// emptyElements is one call with 7 million empty messages.
func emptyElements(ctx context.Context, f *field, p *client.Panel) error {
	token, _ := p.Token()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	req := raw(bytes.Repeat([]byte{3<<3 | 2, 0}, 15<<19))
	return f.host.Conn().Invoke(ctx, ctxfsv1.FsService_Batch_FullMethodName, &req, new(ctxfsv1.BatchResponse), grpc.ForceCodec(rawCodec{}))
}

// raw is a request that is encoded already.
type raw []byte

// rawCodec sends raw requests as they are.
type rawCodec struct{}

// Name implements encoding.Codec: the messages are protobuf's.
func (rawCodec) Name() string { return "proto" }

// Marshal implements encoding.Codec for raw requests.
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*raw), nil } //nolint:forcetypeassert // emptyElements sends no other

// Unmarshal implements encoding.Codec for replies.
func (rawCodec) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message)) //nolint:forcetypeassert // as above
}

// jsonElements posts 15 MB of empty objects.
func jsonElements(ctx context.Context, f *field, p *client.Panel) error {
	body := `{"steps":[` + strings.Repeat("{},", 5<<20) + `{}]}`
	return calls(2, func(ctx context.Context, f *field, p *client.Panel) error {
		token, _ := p.Token()
		url := f.http
		if !strings.Contains(url, "://") {
			url = "http://" + url
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/FsService/Batch", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})(ctx, f, p)
}

// newlines lists and diffs changes of files of 4 MiB with as many lines as they can have.
func newlines(ctx context.Context, f *field, p *client.Panel) error {
	files := p.FS().With(ctx)
	for i := range 8 {
		lines := 4 << 20
		if i%2 == 1 {
			lines = 1 << 18
		}
		if err := files.WriteFile(fmt.Sprintf("newlines%d", i), bytes.Repeat([]byte("\n"), lines), 0o644); err != nil {
			return err
		}
	}
	return calls(8, func(ctx context.Context, _ *field, p *client.Panel) error {
		_, err := p.Review("").Hunks(ctx, &ctxfsv1.GetDiffRequest{}, func(*ctxfsv1.Change, *ctxfsv1.Hunk) error { return nil })
		return err
	})(ctx, f, p)
}

// edits tries edits of a file of 16 MiB.
func edits(ctx context.Context, f *field, p *client.Panel) error {
	content := bytes.Repeat([]byte("\n"), 16<<20)
	content[8<<20] = 'x'
	file, err := p.FS().With(ctx).Create("edited")
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return calls(4, func(ctx context.Context, _ *field, p *client.Panel) error {
		_, err := p.FS().With(ctx).EditFile("edited", []client.Edit{{Old: "x", New: "y"}}, client.EditOptions{DryRun: true})
		return err
	})(ctx, f, p)
}

// sparse leaves lists of changes that read a sparse file.
func sparse(ctx context.Context, f *field, p *client.Panel) error {
	files := p.FS().With(ctx)
	if err := files.WriteFile("sparse", nil, 0o644); err != nil {
		return err
	}
	if err := files.Truncate("sparse", 1<<40); err != nil {
		return err
	}
	return calls(4, func(ctx context.Context, _ *field, p *client.Panel) error {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, _, err := p.Review("").Changes(ctx, &ctxfsv1.ListChangesRequest{})
		return err
	})(ctx, f, p)
}

// handles writes to files that have no name any more.
func handles(ctx context.Context, f *field, p *client.Panel) error {
	files := p.FS().With(ctx)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	var open []io.Closer
	defer func() {
		for _, o := range open {
			_ = o.Close()
		}
	}()
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("unlinked%d", i)
		file, err := files.Create(name)
		if err != nil {
			break
		}
		open = append(open, file)
		_ = files.Remove(name)
		for range 256 {
			if _, err := file.Write(chunk); err != nil {
				break
			}
		}
		if len(open) == 64 {
			break
		}
	}
	<-ctx.Done()
	return nil
}

// commands makes an attack of so many commands at a time, each of which is this program as its user would copy it into the context.
func commands(name string, n int, change func(*ctxfsv1.Command)) func(context.Context, *field, *client.Panel) error {
	return func(ctx context.Context, f *field, p *client.Panel) error {
		info, err := f.host.Info(ctx, p.ContextID())
		if err != nil {
			return err
		}
		program, err := os.ReadFile(f.o.Self)
		if err != nil {
			return err
		}
		at := filepath.Join(info.GetFolder(), "hostile")
		if err := os.WriteFile(at, program, 0o755); err != nil {
			return err
		}
		if err := os.Chown(at, agent, agent); err != nil {
			return err
		}
		started := false
		err = calls(n, func(ctx context.Context, _ *field, p *client.Panel) error {
			c := &ctxfsv1.Command{Argv: []string{"./hostile", "hostile", name}}
			if change != nil {
				change(c)
			}
			return p.Exec().RunCommand(ctx, c, func(m *ctxfsv1.RunResponse) error {
				started = started || m.GetStarted() != nil
				return nil
			})
		})(ctx, f, p)
		if err == nil && !started {
			err = fmt.Errorf("no command could be started")
		}
		return err
	}
}

package server

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// stoppingRoot calls stop once a change has taken effect, and returns to its caller only then.
type stoppingRoot struct {
	rootfs.Root
	stop func()
}

func (r stoppingRoot) CreateAtomic(path string, mode uint32, exclusive bool) (rootfs.AtomicFile, error) {
	f, err := r.Root.CreateAtomic(path, mode, exclusive)
	return stoppingAtomic{f, r.stop}, err
}

func (r stoppingRoot) OpenFile(path string, flags rootfs.Flags, mode uint32) (rootfs.File, error) {
	f, err := r.Root.OpenFile(path, flags, mode)
	return stoppingFile{f, r.stop}, err
}

type stoppingAtomic struct {
	rootfs.AtomicFile
	stop func()
}

func (f stoppingAtomic) Commit(sync bool) error {
	err := f.AtomicFile.Commit(sync)
	f.stop()
	return err
}

type stoppingFile struct {
	rootfs.File
	stop func()
}

func (f stoppingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.stop()
	return n, err
}

// TestWritesThatTookEffectSucceedWhileTheServerStops stops the server between the effect of a write and its answer: a client
// that were told to retry would write twice.
func TestWritesThatTookEffectSucceedWhileTheServerStops(t *testing.T) {
	t.Parallel()
	put := func(query string) func(*testing.T, *running, string) {
		return func(t *testing.T, r *running, token string) {
			for _, a := range askBy(t, r, token) { // by any one of them
				if resp := a.do(http.MethodPut, query, strings.NewReader("new")); resp.StatusCode != http.StatusNoContent {
					t.Errorf("%d %s, want 204", resp.StatusCode, resp.Header.Get("Ctxfs-Error"))
				}
				return
			}
		}
	}
	stream := func(flag string) func(*testing.T, *running, string) {
		return func(t *testing.T, r *running, token string) {
			s, err := ctxfsv1.NewFsServiceClient(dial(t, r.Info().Addresses.TCP[0], nil)).WriteStream(with(t, "authorization", bearerOf(token)))
			if err != nil {
				t.Fatal(err)
			}
			open := &ctxfsv1.WriteStreamOpen{Path: "/a", FlagForm: &ctxfsv1.WriteStreamOpen_Flag{Flag: flag}}
			_ = s.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Open{Open: open}}) // CloseAndRecv returns the error
			_ = s.Send(&ctxfsv1.WriteStreamRequest{Event: &ctxfsv1.WriteStreamRequest_Data{Data: []byte("new")}})
			if resp, err := s.CloseAndRecv(); err != nil || resp.GetBytesWritten() != 3 {
				t.Errorf("wrote %d, %v", resp.GetBytesWritten(), err)
			}
		}
	}
	session := func(begin func(*running) string) func(*testing.T, *running, string) {
		return func(t *testing.T, r *running, token string) {
			s := beginWeb(t, begin(r), token, "")
			fd := s.works(&ctxfsv1.OpenRequest{
				Path: "/a", Atomic: true, FlagsForm: &ctxfsv1.OpenRequest_Flags{Flags: "w"},
			}).GetOpen().GetFd()
			s.works(&ctxfsv1.WriteRequest{Fd: fd, Content: &ctxfsv1.WriteRequest_Text{Text: "new"}})
			s.works(&ctxfsv1.CloseRequest{Fd: fd, Commit: true})
			s.ends(codes.Unavailable, "the server is stopping")
		}
	}
	for name, c := range map[string]struct {
		write func(*testing.T, *running, string)
		want  string
	}{
		"PUT":                   {put("path=/a"), "new"},
		"PUT that appends":      {put("path=/a&flag=a"), "oldnew"},
		"PUT that is flushed":   {put("path=/a&flag=a&flush=true"), "oldnew"},
		"WriteStream":           {stream("w"), "new"},
		"WriteStream, append":   {stream("a"), "oldnew"},
		"a session's commit":    {session(func(r *running) string { return r.Info().Addresses.HTTP }), "new"},
		"a session's, over TCP": {session(func(r *running) string { return r.Info().Addresses.TCP[0] }), "new"},
	} {
		t.Run(name, func(t *testing.T) {
			var r *running
			stop := sync.OnceFunc(func() {
				r.stop()
				eventually(t, "streams are told to end", func() bool {
					r.streams.mu.Lock()
					defer r.streams.mu.Unlock()
					return r.streams.closed
				})
			})
			deps := Deps{OpenRoot: func(dir string, opts rootfs.Options) (rootfs.Root, error) {
				root, err := rootfs.Open(dir, opts)
				if filepath.Base(dir) != "ctx_p" {
					return root, err
				}
				return stoppingRoot{root, stop}, err
			}}
			r = startDeps(t, sessionConfig(t), deps, func(*Server) {})
			token := r.openPanel(t, "p").GetToken()
			path := write(t, filepath.Join(r.folder("ctx_p"), "a"), "old")
			c.write(t, r, token)
			if err := r.wait(); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
				t.Errorf("it holds %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// TestAStreamEndsWithItsCommit has a commit take longer than a stream that was ended may. The stream's answer is the commit's.
// A stream that does not commit is given up, and cannot write any more.
func TestAStreamEndsWithItsCommit(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"it commits": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := newStreamTable()
				later := make(chan error, 1)
				err := table.run(t.Context(), panels.Identity{Panel: "p"}, func(ctx context.Context) error {
					if commits {
						if _, err := fsservice.BeginWrite(ctx); err != nil {
							return err
						}
					}
					table.close()
					time.Sleep(10 * endGrace) // in a bubble: a slow disk
					if !commits {
						_, err := fsservice.BeginWrite(ctx)
						later <- err
					}
					return nil
				})
				if (err == nil) != commits {
					t.Errorf("the stream's answer: %v", err)
				}
				if !commits && <-later == nil {
					t.Error("it may still write")
				}
				table.wait()
			})
		})
	}
}

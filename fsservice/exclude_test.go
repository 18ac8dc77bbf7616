package fsservice_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// version is content that takes several steps to write. Its length shows which byte it repeats.
func version(n int) []byte { return bytes.Repeat([]byte{byte('a' + n)}, 5<<19+n<<17) }

const versions = 4

// mixed says what is wrong with what should be one of the versions; "" when nothing is.
func mixed(data []byte) string {
	if len(data) > 0 && data[0] >= 'a' && data[0] < 'a'+versions && bytes.Equal(data, version(int(data[0]-'a'))) {
		return ""
	}
	var lengths [versions]int
	for n := range versions {
		lengths[n] = bytes.Count(data, []byte{byte('a' + n)})
	}
	return fmt.Sprintf("%d bytes, of the versions %v", len(data), lengths)
}

// TestWholeReadsAndWritesExcludeEachOther writes whole versions into one file in place while others read it. No reader finds parts
// of two versions.
func TestWholeReadsAndWritesExcludeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("f", string(version(0)))
	for n := range versions {
		w.put(fmt.Sprintf("v%d", n), string(version(n)))
	}
	before, err := os.Stat(filepath.Join(w.dir, "f"))
	w.must(err)
	ctx := w.as("a")
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	for i, read := range []func(context.Context) ([]byte, error){w.readWhole, w.readWhole, w.readByCopy, w.readByNewCopy} {
		readers.Go(func() {
			for !done.Load() {
				data, err := read(ctx)
				if wrong := mixed(data); err != nil || wrong != "" {
					t.Errorf("reader %d: %v, %s", i, err, wrong)
					return
				}
			}
		})
	}
	for _, write := range []func(context.Context, int) error{w.writeWhole, w.writeByCopy} {
		writers.Go(func() {
			for n := range 15 {
				if err := write(ctx, n%versions); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	after, err := os.Stat(filepath.Join(w.dir, "f"))
	w.must(err)
	if !os.SameFile(before, after) {
		t.Error("the file was not written in place")
	}
}

func (w *world) readWhole(ctx context.Context) ([]byte, error) {
	resp, err := w.client.ReadFile(ctx, &ctxfsv1.ReadFileRequest{Path: "/f"})
	return resp.GetData(), err
}

// readByCopy copies the file over another, and reads that.
func (w *world) readByCopy(ctx context.Context) ([]byte, error) {
	if _, err := w.client.CopyFile(ctx, &ctxfsv1.CopyFileRequest{Path: "/f", Dest: "/copy"}); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(w.dir, "copy"))
}

// readByNewCopy copies the file to where none is, and reads that.
func (w *world) readByNewCopy(ctx context.Context) ([]byte, error) {
	if _, err := w.client.CopyFile(ctx, &ctxfsv1.CopyFileRequest{Path: "/f", Dest: "/new"}); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "new"))
	return data, errors.Join(err, os.Remove(filepath.Join(w.dir, "new")))
}

func (w *world) writeWhole(ctx context.Context, n int) error {
	_, err := w.client.WriteFile(ctx, &ctxfsv1.WriteFileRequest{Path: "/f", Content: &ctxfsv1.WriteFileRequest_Data{Data: version(n)}})
	return err
}

func (w *world) writeByCopy(ctx context.Context, n int) error {
	_, err := w.client.CopyFile(ctx, &ctxfsv1.CopyFileRequest{Path: fmt.Sprintf("/v%d", n), Dest: "/f"})
	return err
}

// TestTwoCopiesOverEachOtherEnd copies two files over one another at once, again and again.
func TestTwoCopiesOverEachOtherEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("one", string(version(0)))
	w.put("two", string(version(1)))
	ctx := w.as("a")
	var copies sync.WaitGroup
	for _, req := range []*ctxfsv1.CopyFileRequest{{Path: "/one", Dest: "/two"}, {Path: "/two", Dest: "/one"}} {
		copies.Go(func() {
			for range 10 {
				if _, err := w.client.CopyFile(ctx, req); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	copies.Wait()
	for _, name := range []string{"one", "two"} {
		data, err := os.ReadFile(filepath.Join(w.dir, name))
		if wrong := mixed(data); err != nil || wrong != "" {
			t.Errorf("%s: %v, %s", name, err, wrong)
		}
	}
}

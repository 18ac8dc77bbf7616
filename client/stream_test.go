package client_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/grpc/codes"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

func TestStreamsKeepNothingOfTheCallers(t *testing.T) {
	t.Parallel()
	f := panel(t)
	want := make([]byte, 3<<20+13)
	_, err := rand.Read(want)
	must(t, err)
	w, err := f.WriteStream("written", client.WriteOptions{})
	must(t, err)
	buf := make([]byte, 700<<10)
	for rest := want; len(rest) > 0; rest = rest[min(len(rest), len(buf)):] {
		n := copy(buf, rest)
		_, err := w.Write(buf[:n])
		must(t, err)
		clear(buf) // as the next Read into it would
	}
	must(t, w.Close())
	w, err = f.WriteStream("copied", client.WriteOptions{})
	must(t, err)
	n, err := w.ReadFrom(iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(want))))
	must(t, err)
	must(t, w.Close())
	if n != int64(len(want)) || w.Written() != n {
		t.Errorf("ReadFrom took %d, the server wrote %d, want %d", n, w.Written(), len(want))
	}
	for _, name := range []string{"written", "copied"} {
		r, err := f.ReadStream(name, client.ReadOptions{})
		must(t, err)
		if err := iotest.TestReader(r, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must(t, r.Close())
		r, err = f.ReadStream(name, client.ReadOptions{})
		must(t, err)
		var got bytes.Buffer
		_, err = r.WriteTo(&got)
		must(t, err)
		must(t, r.Close())
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: WriteTo gave %d others than the %d bytes written", name, got.Len(), len(want))
		}
	}
}

func TestAReaderClosedInTheMiddleReadsNoMore(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.WriteFile("large", make([]byte, 4<<20), 0o644))
	r, err := f.ReadStream("large", client.ReadOptions{})
	must(t, err)
	_, err = io.ReadFull(r, make([]byte, 100<<10))
	must(t, err)
	must(t, r.Close())
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read %d, %v after Close, want fs.ErrClosed", n, err)
	}
	must(t, r.Close())
}

func TestReadFromPassesAReadersErrorOn(t *testing.T) {
	t.Parallel()
	f := panel(t)
	w, err := f.WriteStream("part", client.WriteOptions{})
	must(t, err)
	broken := errors.New("broken")
	n, err := w.ReadFrom(io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken)))
	if n != 4 || !errors.Is(err, broken) {
		t.Errorf("took %d, %v, want 4 and the reader's own error", n, err)
	}
	w.Abort()
	if n, err := w.ReadFrom(strings.NewReader("more")); n != 0 || err == nil {
		t.Errorf("an aborted stream took %d, %v", n, err)
	}
}

func TestAbortedStreamLeavesNothing(t *testing.T) {
	t.Parallel()
	f := panel(t)
	w, err := f.WriteStream("never", client.WriteOptions{})
	must(t, err)
	_, err = w.Write(make([]byte, 1<<20))
	must(t, err)
	w.Abort()
	if ok, err := f.Exists("never"); ok || err != nil {
		t.Errorf("exists %t, %v", ok, err)
	}
}

// TestAReaderWhoseConnectionIsCut reads some, and then learns that there is no more.
func TestAReaderWhoseConnectionIsCut(t *testing.T) {
	t.Parallel()
	p, f := proxied(t, nil)
	must(t, f.FS().WriteFile("large", make([]byte, 8<<20), 0o644))
	for _, name := range []string{"Read", "WriteTo"} {
		r, err := f.FS().ReadStream("large", client.ReadOptions{})
		must(t, err)
		_, err = io.ReadFull(r, make([]byte, 100))
		must(t, err)
		p.cut()
		if name == "Read" {
			_, err = io.Copy(io.Discard, struct{ io.Reader }{r})
		} else {
			_, err = r.WriteTo(io.Discard)
		}
		wantTransport(t, err, codes.Unavailable, false)
		if _, again := r.Read(make([]byte, 1)); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: then %v", name, again)
		}
		must(t, r.Close())
	}
}

// TestAReaderThatIsCancelled ends with its context.
func TestAReaderThatIsCancelled(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.WriteFile("large", make([]byte, 8<<20), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := f.With(ctx).ReadStream("large", client.ReadOptions{})
	must(t, err)
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, r.Close())
	if _, err := f.With(ctx).ReadStream("large", client.ReadOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAWriterThatDoesNotEndWritesNothing aborts one, cuts another's connection, and cancels a third.
func TestAWriterThatDoesNotEndWritesNothing(t *testing.T) {
	t.Parallel()
	p, c := proxied(t, nil)
	f := c.FS()
	for _, name := range []string{"abort", "cut", "cancel"} {
		t.Run(name, func(t *testing.T) {
			must(t, f.WriteFile("a", []byte("before"), 0o644))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := f.With(ctx).WriteStream("a", client.WriteOptions{})
			must(t, err)
			_, err = w.Write(make([]byte, 1<<20))
			must(t, err)
			switch name {
			case "abort":
				w.Abort()
			case "cut":
				p.cut()
				wantTransport(t, w.Close(), codes.Unavailable, true)
			case "cancel":
				cancel()
				if err := w.Close(); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			if _, err := w.Write([]byte("x")); err == nil {
				t.Error("a Writer that has ended takes more")
			}
			got, err := f.ReadFile("a")
			must(t, err)
			if string(got) != "before" {
				t.Errorf("it holds %d bytes", len(got))
			}
		})
	}
}

// TestAWriterIsToldWhy has the server refuse at the opening.
func TestAWriterIsToldWhy(t *testing.T) {
	t.Parallel()
	f := panel(t)
	must(t, f.MkdirAll("dir", 0o755))
	for name, want := range map[string]error{"dir": fserr.EISDIR, "none/a": fs.ErrNotExist, "../a": fserr.EACCES} {
		w, err := f.WriteStream(name, client.WriteOptions{})
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(make([]byte, 2<<20)))
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if w != nil && !errors.Is(w.Close(), want) {
			t.Errorf("%s: Close: %v", name, w.Close())
		}
	}
}

// TestAReaderIsToldWhy has its panel closed while it reads.
func TestAReaderIsToldWhy(t *testing.T) {
	t.Parallel()
	c := dialTo(t, servertest.Start(t, servertest.Workspace(t), nil))
	p, err := c.OpenPanel(t.Context(), "panels/read")
	must(t, err)
	must(t, p.FS().WriteFile("large", make([]byte, 16<<20), 0o644))
	r, err := p.FS().ReadStream("large", client.ReadOptions{})
	must(t, err)
	_, err = io.ReadFull(r, make([]byte, 100))
	must(t, err)
	_, err = c.ClosePanel(t.Context(), "panels/read")
	must(t, err)
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, fserr.EACCES) {
		t.Errorf("%v, want EACCES", err)
	}
	must(t, r.Close())
}

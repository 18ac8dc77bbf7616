package client_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/ctxfs/ctxfs/client"
)

// endless gives zeros, as many as are left.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), e.left)
	e.left -= n
	return n, nil
}

// nowhere takes what it is given without the copy that io.Discard makes by ReadFrom.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkStream moves 256 MiB over a unix socket.
func BenchmarkStream(b *testing.B) {
	const size = 256 << 20
	f := panel(b)
	write := func(b *testing.B, from func(w *client.Writer) error) {
		b.SetBytes(size)
		for b.Loop() {
			w, err := f.WriteStream("large", client.WriteOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if err := from(w); err != nil {
				b.Fatal(err)
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("ReadFrom", func(b *testing.B) {
		write(b, func(w *client.Writer) error {
			_, err := w.ReadFrom(&endless{size})
			return err
		})
	})
	b.Run("Write", func(b *testing.B) {
		chunk := bytes.Repeat([]byte{'x'}, 1<<20)
		write(b, func(w *client.Writer) error {
			for range size / len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("WriteTo", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := f.ReadStream("large", client.ReadOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if n, err := r.WriteTo(nowhere{}); err != nil || n != size {
				b.Fatal(n, err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package sparse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// patchy returns a content with parts of zeros, and makes a file of it that has holes there.
func patchy(t *testing.T, name string) ([]byte, *os.File) {
	t.Helper()
	data := make([]byte, rand.IntN(1<<20))
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for range rand.IntN(6) {
		if len(data) == 0 {
			break
		}
		at := rand.IntN(len(data))
		part := data[at:min(len(data), at+rand.IntN(200<<10))]
		for i := range part {
			part[i] = byte(i) | 1
		}
		if _, err := f.WriteAt(part, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		t.Fatal(err)
	}
	return data, f
}

func check(t *testing.T, what string, name string, want []byte, err error) {
	t.Helper()
	got, readErr := os.ReadFile(name)
	if err := errors.Join(err, readErr); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes that differ from the %d that are wanted (%v)", what, len(got), len(want), err)
	}
}

func TestCopiesHaveTheContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 50 {
		data, from := patchy(t, filepath.Join(dir, "from"))
		fresh, err := os.Create(filepath.Join(dir, "fresh"))
		if err != nil {
			t.Fatal(err)
		}
		to := Writer(fresh)
		n, err := Copy(t.Context(), to, from)
		check(t, "a new file", fresh.Name(), data, errors.Join(err, to.Finish(), fresh.Close()))
		if n != int64(len(data)) {
			t.Errorf("%d bytes of %d were copied", n, len(data))
		}

		_, old := patchy(t, filepath.Join(dir, "old"))
		over, err := Over(old)
		if err != nil {
			t.Fatal(err)
		}
		_, err = from.Seek(0, io.SeekStart)
		if err == nil {
			_, err = Copy(t.Context(), over, from)
		}
		check(t, "over a file", old.Name(), data, errors.Join(err, over.Finish()))
	}
}

func TestCopyEndsWithItsCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	_, from := patchy(t, filepath.Join(t.TempDir(), "from"))
	left := errors.New("the caller left")
	cancel(left)
	for name, r := range map[string]io.Reader{"a file": from, "a stream": bytes.NewBufferString("text")} {
		if n, err := Copy(ctx, Writer(from), r); n != 0 || !errors.Is(err, left) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

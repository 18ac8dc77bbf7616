package client_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/servertest"
)

// BenchmarkContent reads and writes by a session and by RPCs of their own; maxShared is where it makes no difference.
func BenchmarkContent(b *testing.B) {
	address := servertest.Start(b, servertest.Workspace(b), nil)
	for _, c := range []struct {
		name string
		opts []client.Option
	}{{"session", nil}, {"unary", []client.Option{client.WithoutSession()}}} {
		f := benchFS(b, append(c.opts, client.WithAddress(address), client.WithPanel("panels/bench"))...)
		for _, kib := range []int{4, 64, 128, 256} {
			data := make([]byte, kib<<10)
			if err := f.WriteFile("c", data, 0o644); err != nil {
				b.Fatal(err)
			}
			file, err := f.OpenFile("c", os.O_RDWR, 0)
			if err != nil {
				b.Fatal(err)
			}
			for _, n := range []int{1, 8} {
				name := fmt.Sprintf("%s/%dKiB/%d", c.name, kib, n)
				b.Run("ReadFile/"+name, func(b *testing.B) { callers(b, n, func() error { _, err := f.ReadFile("c"); return err }) })
				b.Run("WriteAt/"+name, func(b *testing.B) { callers(b, n, func() error { _, err := file.WriteAt(data, 0); return err }) })
			}
			if err := file.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

package fsservice_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// text is n bytes without the pools' poison.
func text(n int) string {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		b.WriteByte(byte('a' + r.IntN(26)))
	}
	return b.String()
}

// cut is content in chunks of the given sizes, the last as often as it takes.
func cut(content string, sizes ...int) (chunks []string) {
	for len(content) > 0 {
		n := min(len(content), sizes[0])
		chunks, content = append(chunks, content[:n]), content[n:]
		if len(sizes) > 1 {
			sizes = sizes[1:]
		}
	}
	return chunks
}

func TestContentOfManyChunksArrivesWhole(t *testing.T) {
	t.Parallel()
	old, content := text(10<<10), text(5<<20+7)
	for name, tc := range map[string]struct {
		open *ctxfsv1.WriteStreamOpen
		want string
	}{
		"whole":         {&ctxfsv1.WriteStreamOpen{Path: "/f"}, content},
		"from a start":  {&ctxfsv1.WriteStreamOpen{Path: "/f", Start: proto.Int64(2)}, old[:2] + content},
		"append":        {&ctxfsv1.WriteStreamOpen{Path: "/f", FlagForm: &ctxfsv1.WriteStreamOpen_Flag{Flag: "a"}}, old + content},
		"handle":        {&ctxfsv1.WriteStreamOpen{Fd: proto.Int32(3)}, content},
		"handle, start": {&ctxfsv1.WriteStreamOpen{Fd: proto.Int32(3), Start: proto.Int64(8)}, old[:8] + content},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("f", old)
			w.open("a", "/f", "r+")
			resp, err := w.writeStream(w.as("a"), tc.open, cut(content, 1, 100<<10, 3<<20, 8<<10-1)...).CloseAndRecv()
			w.must(err)
			if resp.GetBytesWritten() != int64(len(content)) {
				t.Errorf("written %d, want %d", resp.GetBytesWritten(), len(content))
			}
			w.wantContent("f", tc.want)
			for _, chunk := range []int32{1 << 20, 256 << 10, 100_000} {
				if got, n := w.readStream(&ctxfsv1.ReadStreamRequest{Path: "/f", ChunkSize: chunk}); got != tc.want || n < len(content)/int(chunk) {
					t.Errorf("%d bytes in %d messages of %d, want the %d that are there", len(got), n, chunk, len(tc.want))
				}
			}
			w.content.Settled(t)
			if w.content.Made() == 0 {
				t.Error("the content was not kept in the service's buffers")
			}
		})
	}
}

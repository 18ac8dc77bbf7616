package fsservice

import (
	"strings"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestUncountedLinesEndTheReading(t *testing.T) {
	text := strings.NewReader("first\n" + strings.Repeat("another\n", lineStep))
	s, err := linesOf(&ctxfsv1.ReadFileRequest{Lines: &ctxfsv1.LineRange{Count: 1, Uncounted: true}}, "")
	if err != nil {
		t.Fatal(err)
	}
	total, err := s.read(t.Context(), text, "")
	if read := text.Size() - int64(text.Len()); err != nil || total != nil || string(s.kept) != "first\n" || read != lineStep {
		t.Errorf("%q of %v lines after %d bytes, %v", s.kept, total, read, err)
	}
}

package fsservice_test

import (
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// grep returns what a Grep found, a line for each match, and its summary.
func (w *world) grep(req *ctxfsv1.GrepRequest) (found []string, sum *ctxfsv1.GrepSummary) {
	w.Helper()
	s, err := w.client.Grep(w.as("a"), req)
	w.must(err)
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return found, sum
		}
		w.must(err)
		for _, l := range r.GetFile().GetLines() {
			found = append(found, fmt.Sprintf("%s:%d:%s", r.GetFile().GetPath(), l.GetLineNumber(), l.GetText()))
		}
		if r.GetSummary() != nil {
			sum = r.GetSummary()
		}
	}
}

// listed are the files below the root in the order in which a walk meets them.
func (w *world) listed() (files []string) {
	w.Helper()
	r, err := w.client.Readdir(w.as("a"), &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true, WithFileTypes: true})
	w.must(err)
	for _, e := range r.GetEntries() {
		if e.GetType() == ctxfsv1.FileType_FILE_TYPE_FILE {
			files = append(files, path.Join(e.GetParentPath(), e.GetName()))
		}
	}
	return files
}

// TestGrepKeepsTheOrderOfTheWalk searches text, binary and large files of many sizes, whose
// buffers were others' before, several at once.
func TestGrepKeepsTheOrderOfTheWalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const files, large = 300, 40 << 10
	for i := range files {
		content := strings.Repeat("some line\n", i*7) + fmt.Sprintf("the needle of %d", i)
		switch i % 10 {
		case 3:
			content = "nothing\n"
		case 5:
			content = "\x00" + content
		case 7:
			content += strings.Repeat("-", large)
		}
		w.put(fmt.Sprintf("d%d/f%d", i%7, i), content)
	}
	var want []string
	for _, name := range w.listed() {
		var d, i int
		if _, err := fmt.Sscanf(name, "/d%d/f%d", &d, &i); err != nil {
			t.Fatal(name, err)
		}
		if !slices.Contains([]int{3, 5, 7}, i%10) {
			want = append(want, fmt.Sprintf("%s:%d:the needle of %d", name, i*7+1, i))
		}
	}
	for _, req := range []*ctxfsv1.GrepRequest{
		{Pattern: "needle", FixedStrings: true, MaxFileSize: large},
		{Pattern: `needle of \d+$`, MaxFileSize: large},
		{Pattern: "NEEDLE", IgnoreCase: true, MaxFileSize: large},
	} {
		found, sum := w.grep(req)
		if !slices.Equal(found, want) {
			t.Errorf("%s: found %d lines, want %d: %q, want %q", req.GetPattern(), len(found), len(want), found, want)
		}
		if sum.GetFilesSearched() != 240 || sum.GetFilesMatched() != 210 || sum.GetBinarySkipped() != 30 || sum.GetLargeSkipped() != 30 || sum.GetTruncated() {
			t.Errorf("%s: %v", req.GetPattern(), sum)
		}
	}
	for _, most := range []int32{1, 2, 20, 209} {
		found, sum := w.grep(&ctxfsv1.GrepRequest{Pattern: "needle", MaxFileSize: large, MaxMatches: most})
		if !slices.Equal(found, want[:most]) || !sum.GetTruncated() || sum.GetMatches() != int64(most) {
			t.Errorf("at most %d: %q, %v", most, found, sum)
		}
	}
}

// TestGrepBoundsTheLinesThatItHolds searches files whose lines, with the places where they match, would take gigabytes.
func TestGrepBoundsTheLinesThatItHolds(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat(strings.Repeat("a", 4000)+"\n", 2000)
	for i := range 3 {
		w.put(fmt.Sprint("few/", i), strings.Repeat(strings.Repeat("a", 4000)+"\n", 100))
	}
	w.put("many", text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, sum := w.grep(&ctxfsv1.GrepRequest{Path: "/many", Pattern: "a"})
	runtime.ReadMemStats(&after)
	if n := len(found); !sum.GetTruncated() || n < 100 || n > 500 || sum.GetMatches() != int64(n) {
		t.Errorf("%d lines, %v", n, sum)
	}
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 200 {
		t.Errorf("it allocated %d MiB", n)
	}
	if found, sum := w.grep(&ctxfsv1.GrepRequest{Path: "/few", Pattern: "a"}); len(found) != 300 || sum.GetTruncated() || sum.GetFilesMatched() != 3 {
		t.Errorf("%d lines, %v", len(found), sum)
	}
}

func TestGrepSearchesFilesOfALargeBatchInTheirTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 16 {
		w.put(fmt.Sprintf("d/%02d", i), strings.Repeat(strings.Repeat("a", 200)+"\n", 60))
	}
	found, sum := w.grep(&ctxfsv1.GrepRequest{Path: "/d", Pattern: "a"})
	if len(found) != 960 || sum.GetTruncated() || sum.GetMatches() != 960 || sum.GetFilesMatched() != 16 || sum.GetUnreadable() != 0 {
		t.Errorf("%d lines, %v", len(found), sum)
	}
	order := w.listed()
	var got []string
	for _, line := range found {
		if name, _, _ := strings.Cut(line, ":"); len(got) == 0 || got[len(got)-1] != name {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, order) {
		t.Errorf("the order is %v, want %v", got, order)
	}
}

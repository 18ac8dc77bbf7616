package fsservice_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func (w *world) edit(path string, edits ...*ctxfsv1.TextEdit) (*ctxfsv1.EditFileResponse, error) {
	w.Helper()
	return w.client.EditFile(w.as("a"), &ctxfsv1.EditFileRequest{Path: path, Edits: edits})
}

// TestEditFileReplacesTheFileALinkLeadsTo checks what a new version keeps of the old one.
func TestEditFileReplacesTheFileALinkLeadsTo(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	w.put("file", "one\ntwo\nthree\n")
	full := filepath.Join(w.dir, "file")
	w.must(os.Chmod(full, 0o750))
	w.must(unix.Setxattr(full, "user.kept", []byte("yes"), 0))
	r, err := w.edit("/link", &ctxfsv1.TextEdit{OldText: "two", NewText: "2"}, &ctxfsv1.TextEdit{StartLine: 3, EndLine: 3, NewText: "3\n4"})
	w.must(err)
	w.wantContent("file", "one\n2\n3\n4\n")
	const want = "--- a/link\n+++ b/link\n@@ -1,3 +1,4 @@\n one\n-two\n-three\n+2\n+3\n+4\n"
	if r.GetDiff() != want || r.GetLinesAdded() != 3 || r.GetLinesRemoved() != 2 || fmt.Sprint(r.GetReplacements()) != "[1 1]" {
		t.Errorf("got %v, want the diff %q", r, want)
	}
	if r.GetEtag() != w.etag("/file") {
		t.Errorf("the etag is %q, Stat's %q", r.GetEtag(), w.etag("/file"))
	}
	value := make([]byte, 8)
	n, err := unix.Getxattr(full, "user.kept", value)
	if st, statErr := os.Lstat(full); err != nil || string(value[:n]) != "yes" || statErr != nil || st.Mode() != 0o750 {
		t.Errorf("xattr %q (%v), mode %v (%v)", value[:max(n, 0)], err, st.Mode(), statErr)
	}
	if target, err := os.Readlink(filepath.Join(w.dir, "link")); err != nil || target != "file" {
		t.Errorf("the link leads to %q (%v)", target, err)
	}
}

// TestDryRunChangesNothing compares a dry run with the edit that it announces.
func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	before := w.etag("/file")
	req := &ctxfsv1.EditFileRequest{Path: "/file", DryRun: true, Edits: []*ctxfsv1.TextEdit{{OldText: "old", NewText: "new"}}}
	dry, err := w.client.EditFile(w.as("a"), req)
	w.must(err)
	if w.wantContent("file", "old"); dry.GetEtag() != before || w.etag("/file") != before {
		t.Errorf("a dry run answered the etag %q, and left %q; it was %q", dry.GetEtag(), w.etag("/file"), before)
	}
	req.DryRun = false
	real, err := w.client.EditFile(w.as("a"), req)
	w.must(err)
	if dry.GetDiff() == "" || dry.GetDiff() != real.GetDiff() {
		t.Errorf("the diff is %q, the dry run's %q", real.GetDiff(), dry.GetDiff())
	}
	w.wantContent("file", "new")
}

// TestEditFileRefuses has files and requests that cannot be edited. All leave what is there.
func TestEditFileRefuses(t *testing.T) {
	t.Parallel()
	w := newConditionalWorld(t)
	w.put("binary", "a\x00b")
	w.put("twice", "a\na\n")
	w.must(os.Truncate(filepath.Join(w.dir, "other"), 17<<20))
	tree := w.tree()
	edit := &ctxfsv1.TextEdit{OldText: "a", NewText: "b"}
	for _, c := range []struct {
		path  string
		edits []*ctxfsv1.TextEdit
		want  string
	}{
		{"/none", []*ctxfsv1.TextEdit{edit}, "ENOENT: no such file or directory, edit '/none'"},
		{"/dir", []*ctxfsv1.TextEdit{edit}, "EISDIR: illegal operation on a directory, edit '/dir'"},
		{"/binary", []*ctxfsv1.TextEdit{edit}, "EINVAL: the file has NUL bytes, so it is no text; write it whole, edit '/binary'"},
		{"/other", []*ctxfsv1.TextEdit{edit}, "EFBIG: a text of 17.0 MiB exceeds the 16 MiB that can be edited; write the file whole, or the bytes that change through a handle, edit '/other'"},
		{"/file", nil, "EINVAL: a request has 1 to 1000 edits, this one 0, edit '/file'"},
		{
			"/twice", []*ctxfsv1.TextEdit{{StartLine: 1, NewText: "x"}, edit},
			"EINVAL: edit 2 of 2: old_text is not in the file; read these lines again, and copy old_text from the file exactly, with its spaces and tabs, edit '/twice'",
		},
		{
			"/twice", []*ctxfsv1.TextEdit{edit},
			"EINVAL: old_text occurs 2 times, in lines 1, 2; add text around it until it occurs once, set all, or name start_line and end_line, edit '/twice'",
		},
	} {
		if len(c.edits) == 2 {
			c.edits[0].EndLine = 2
		}
		_, err := w.edit(c.path, c.edits...)
		w.wantError(err, c.want)
	}
	if got := w.tree(); len(got) != len(tree) || got["twice"] != tree["twice"] || got["binary"] != tree["binary"] {
		t.Error("an edit that was refused changed something")
	}
}

// TestNoEditIsLost has clients that each add lines to one file without conditions: by edits, which replace the file, and by appending to
// it.
func TestNoEditIsLost(t *testing.T) {
	t.Parallel()
	const clients, edits = 16, 4
	w := newConditionalWorld(t)
	w.put("file", "end\n")
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range edits {
				line := fmt.Sprintf("%d.%d\n", n, i)
				if _, err := w.edit("/file", &ctxfsv1.TextEdit{OldText: "end\n", NewText: line + "end\n"}); err != nil {
					t.Error(err)
				}
				_, err := w.client.AppendFile(w.as("a"), &ctxfsv1.AppendFileRequest{Path: "/file", Content: &ctxfsv1.AppendFileRequest_Text{Text: "+" + line}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	content, err := os.ReadFile(filepath.Join(w.dir, "file"))
	w.must(err)
	for n := range clients {
		for i := range edits {
			for _, line := range []string{fmt.Sprintf("\n%d.%d\n", n, i), fmt.Sprintf("\n+%d.%d\n", n, i)} {
				if strings.Count("\n"+string(content), line) != 1 {
					t.Errorf("%q is in the file %d times", line, strings.Count("\n"+string(content), line))
				}
			}
		}
	}
}

// TestReadFileReadsLines compares lines with those of the whole text.
func TestReadFileReadsLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\r\n\nß")), 0, 40, -1).Draw(t, "text")
		start, count := rapid.Int64Range(0, 12).Draw(t, "start"), rapid.Int64Range(0, 5).Draw(t, "count")
		uncounted := rapid.Bool().Draw(t, "uncounted")
		w.put("f", text)
		r, err := w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{
			Path: "/f", Encoding: "utf8", Lines: &ctxfsv1.LineRange{Start: start, Count: count, Uncounted: uncounted},
		})
		if err != nil {
			t.Fatal(err)
		}
		all := strings.SplitAfter(text, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		from := min(int(max(start, 1))-1, len(all))
		to := len(all)
		if count > 0 {
			to = min(from+int(count), to)
		}
		if want := strings.Join(all[from:to], ""); r.GetText() != want || uncounted != (r.TotalLines == nil) || !uncounted && r.GetTotalLines() != int64(len(all)) {
			t.Fatalf("lines %d, %d of %q: got %q of %d, want %q of %d", start, count, text, r.GetText(), r.GetTotalLines(), want, len(all))
		}
	})
}

// TestLinesOfLargeFiles has lines around the pieces in which a file is read, and bounds what is read.
func TestLinesOfLargeFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := strings.Repeat("x", 1023) + "\n"
	w.put("f", strings.Repeat(line, 1000)+"mark\n"+strings.Repeat(line, 4000))
	read := func(path string, start, count int64) (*ctxfsv1.ReadFileResponse, error) {
		return w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{Path: path, Lines: &ctxfsv1.LineRange{Start: start, Count: count}})
	}
	r, err := read("/f", 1000, 3)
	w.must(err)
	if want := line + "mark\n" + line; !bytes.Equal(r.GetData(), []byte(want)) || r.GetTotalLines() != 5001 {
		t.Errorf("%d bytes, of %d lines", len(r.GetData()), r.GetTotalLines())
	}
	_, err = read("/f", 1, 0)
	w.wantError(err, "EFBIG: the lines exceed 3.5 MiB; read fewer lines at a time, or use FsService/ReadStream, readFile '/f'")

	w.put("holes", "first\n") // one line of NUL bytes, which takes no disk
	w.must(os.Truncate(filepath.Join(w.dir, "holes"), 1<<40))
	if r, err = read("/holes", 1, 1); err != nil || string(r.GetData()) != "first\n" || r.TotalLines != nil {
		t.Errorf("the first line of a huge file: %v, %v", r, err)
	}
	_, err = read("/holes", 3, 1)
	w.wantError(err, "EFBIG: line 3 is not within the first 256 MiB; use FsService/ReadStream with a range of bytes, or FsService/Grep, readFile '/holes'")
	_, err = w.client.ReadFile(w.as("a"), &ctxfsv1.ReadFileRequest{Fd: proto.Int32(w.open("a", "/f", "r")), Lines: &ctxfsv1.LineRange{}})
	w.wantError(err, "EINVAL: lines need a path, not a handle, read")
}

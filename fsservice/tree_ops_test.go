package fsservice_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

func TestMkdirRecursiveNamesTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("have/x", "x")
	for path, want := range map[string]string{"/have/b/c": "/have/b", "/have": ""} {
		resp, err := w.client.Mkdir(w.as("a"), &ctxfsv1.MkdirRequest{Path: path, Recursive: true})
		w.must(err)
		if resp.GetPath() != want || (resp.Path != nil) != (want != "") {
			t.Errorf("mkdir -p %s made %v, want %q", path, resp.Path, want)
		}
	}
	_, err := w.client.Mkdir(w.as("a"), &ctxfsv1.MkdirRequest{Path: "/have/x", Recursive: true})
	w.wantError(err, "EEXIST: file already exists, mkdir '/have/x'")
}

func TestMkdtemp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, err := w.client.Mkdtemp(w.as("a"), &ctxfsv1.MkdtempRequest{Prefix: "/t-"})
	w.must(err)
	two, err := w.client.Mkdtemp(w.as("a"), &ctxfsv1.MkdtempRequest{Prefix: "/t-"})
	w.must(err)
	st, err := os.Stat(filepath.Join(w.dir, one.GetPath()))
	w.must(err)
	if one.GetPath() == two.GetPath() || len(one.GetPath()) != len("/t-XXXXXX") || st.Mode() != os.ModeDir|0o700 {
		t.Errorf("%q, %q, mode %v", one.GetPath(), two.GetPath(), st.Mode())
	}
}

// TestListingsAreOrderedByName lists more names than one getdents64(2) returns.
func TestListingsAreOrderedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for n := range 4000 {
		name := fmt.Sprintf("%032x", sha256.Sum256([]byte{byte(n), byte(n >> 8)}))[:32]
		w.put(name, "")
		want = append(want, name)
	}
	slices.Sort(want)
	for _, req := range []*ctxfsv1.ReaddirRequest{{Path: "/"}, {Path: "/", WithStats: true}, {Path: "/", Recursive: true}} {
		resp, err := w.client.Readdir(w.as("a"), req)
		w.must(err)
		var got []string
		for _, e := range resp.GetEntries() {
			got = append(got, e.GetName())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %d names in another order than that of the names", req, len(got))
		}
	}
}

func TestReaddirRecursive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("d/e/f", "x")
	w.must(os.Symlink("d", filepath.Join(w.dir, "l")))
	resp, err := w.client.Readdir(w.as("a"), &ctxfsv1.ReaddirRequest{Path: "/", Recursive: true, WithFileTypes: true})
	w.must(err)
	var got []string
	for _, e := range resp.GetEntries() {
		got = append(got, e.GetParentPath()+" "+e.GetName()+" "+strings.TrimPrefix(e.GetType().String(), "FILE_TYPE_"))
	}
	slices.Sort(got)
	want := []string{"/ d DIRECTORY", "/ l SYMLINK", "/d e DIRECTORY", "/d/e f FILE"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestALargeDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 300 {
		w.put(strings.Repeat("n", 200)+string(rune('a'+i%26))+strings.Repeat("m", i/26+1), "")
	}
	s, err := w.client.Opendir(w.as("a"), &ctxfsv1.OpendirRequest{Path: "/", BufferSize: 100, WithStats: true})
	w.must(err)
	var sizes []int
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		w.must(err)
		sizes = append(sizes, len(msg.GetEntries().GetEntries()))
	}
	if !slices.Equal(sizes, []int{100, 100, 100}) {
		t.Errorf("messages of %v entries", sizes)
	}
	deep := strings.Repeat("/"+strings.Repeat("d", 250), 12)
	for i := range 1300 {
		w.put(filepath.Join(deep, "f"+strings.Repeat("x", i%40)+strings.Repeat("y", i/40)), "")
	}
	_, err = w.client.Readdir(w.as("a"), &ctxfsv1.ReaddirRequest{Path: deep})
	if err == nil || !strings.Contains(err.Error(), "use FsService/Opendir") {
		t.Errorf("got %.200v, want EFBIG that names Opendir", err)
	}
}

func TestCopyFileOverAnExistingOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("src", "new")
	w.put("dst", "old and longer")
	w.must(os.Chmod(filepath.Join(w.dir, "src"), 0o600))
	before, err := os.Stat(filepath.Join(w.dir, "dst"))
	w.must(err)
	resp, err := w.client.CopyFile(w.as("a"), &ctxfsv1.CopyFileRequest{Path: "src", Dest: "dst", Mode: 2})
	w.must(err)
	after, err := os.Stat(filepath.Join(w.dir, "dst"))
	w.must(err)
	w.wantContent("dst", "new")
	if !os.SameFile(before, after) || after.Mode().Perm() != 0o600 || resp.GetBytesCopied() != 3 {
		t.Errorf("same %v, mode %v, copied %d", os.SameFile(before, after), after.Mode(), resp.GetBytesCopied())
	}
	_, err = w.client.CopyFile(w.as("a"), &ctxfsv1.CopyFileRequest{Path: "dst", Dest: "/dst"}) // over itself
	w.must(err)
	w.wantContent("dst", "new")
}

func TestCp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("s/d/f", "x")
	w.must(os.Symlink("d/f", filepath.Join(w.dir, "s/rel")))
	w.must(os.Symlink("/s/d", filepath.Join(w.dir, "s/abs")))
	for dest, tc := range map[string]struct {
		verbatim bool
		rel      string
	}{"t1": {false, "/s/d/f"}, "t2": {true, "d/f"}} {
		_, err := w.client.Cp(w.as("a"), &ctxfsv1.CpRequest{Path: "/s", Dest: dest, Recursive: true, VerbatimSymlinks: tc.verbatim})
		w.must(err)
		rel, err := os.Readlink(filepath.Join(w.dir, dest, "rel"))
		w.must(err)
		abs, err := os.Readlink(filepath.Join(w.dir, dest, "abs"))
		w.must(err)
		w.wantContent(dest+"/d/f", "x")
		if rel != tc.rel || abs != "/s/d" {
			t.Errorf("%s: links to %q and %q", dest, rel, abs)
		}
	}
	w.put("t1/d/f", "kept")
	keep := &ctxfsv1.CpRequest{Path: "/s/d", Dest: "/t1/d", Recursive: true, Force: proto.Bool(false)}
	_, err := w.client.Cp(w.as("a"), keep)
	w.must(err)
	w.wantContent("t1/d/f", "kept")
	keep.ErrorOnExist = true
	_, err = w.client.Cp(w.as("a"), keep)
	if err == nil || !strings.Contains(err.Error(), "EEXIST") {
		t.Errorf("got %v, want EEXIST", err)
	}
	_, err = w.client.Cp(w.as("a"), &ctxfsv1.CpRequest{Path: "/s", Dest: "/s/into", Recursive: true})
	if err == nil || !strings.Contains(err.Error(), "EINVAL") {
		t.Errorf("got %v, want EINVAL", err)
	}
}

func TestRmCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("d/e/f", "x")
	resp, err := w.client.Rm(w.as("a"), &ctxfsv1.RmRequest{Path: "/d", Recursive: true})
	w.must(err)
	if resp.GetRemoved() != 3 {
		t.Errorf("removed %d, want 3", resp.GetRemoved())
	}
}

func TestExistsIsNeverAnErrorOfThePath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill(w)
	for path, want := range map[string]bool{"/file": true, "/x": false, "/out": false, "/loop": false, "/../x": false, "/file/x": false} {
		resp, err := w.client.Exists(w.as("a"), &ctxfsv1.ExistsRequest{Path: path})
		w.must(err)
		if resp.GetExists() != want {
			t.Errorf("exists %s: %v", path, resp.GetExists())
		}
	}
}

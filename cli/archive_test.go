package cli_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/internal/servertest"
	"github.com/ctxfs/ctxfs/server"
)

// tree describes a folder: each name with its type, mode, time, content or target, and number of names.
func treeAt(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%d bytes %.20q", len(data), data)
		case fs.ModeSymlink:
			content, err = os.Readlink(path)
			if err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(dir, path)
		found[rel] = fmt.Sprintf("%s %d %s", info.Mode(), info.ModTime().UnixNano(), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// fill makes a tree with everything that an archive must keep.
func fill(t *testing.T, dir string) {
	t.Helper()
	write := func(name, content string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o600))
		must(t, os.Chmod(path, mode))
	}
	write("run.sh", "#!/bin/sh\n", 0o755)
	write("closed/read-only", "r", 0o444)
	write("empty", "", 0o600)
	write("large", strings.Repeat("0123456789abcdef", 150_000), 0o644)
	write("zeros", strings.Repeat("\x00", 4096), 0o644)
	write(strings.Repeat("deep/", 30)+strings.Repeat("n", 200), "long", 0o644)
	write("n\xe9/\xff\xfe", "not UTF-8", 0o644)
	write("späße/数", "UTF-8", 0o644)
	must(t, os.Link(filepath.Join(dir, "run.sh"), filepath.Join(dir, "again.sh")))
	must(t, os.Mkdir(filepath.Join(dir, "hollow"), 0o700))
	for name, target := range map[string]string{"link": "run.sh", "absolute": "/src/main.go", "dangling": "nowhere/at/all", "outside": "../../../etc/passwd"} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0o555))
	for i, name := range []string{"run.sh", "large", "closed/read-only", "closed", "hollow", "n\xe9", "."} {
		at := time.Unix(1_500_000_000+int64(i), 123456789)
		must(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
}

// removable lets the directories below dir be removed by an ordinary user when the test ends.
func removable(t *testing.T, dir string) {
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
}

func TestExportAndImportKeepATree(t *testing.T) {
	for _, driver := range []string{server.DriverCopy, server.DriverOverlay} {
		t.Run(driver, func(t *testing.T) {
			ws := servertest.Workspace(t)
			if choice, err := server.ChooseDriver(t.Context(), driver, ws); err != nil || choice.Name != driver {
				t.Skipf("not tested here: %v", err)
			}
			removable(t, ws)
			servertest.Start(t, ws, func(c *server.Config) { c.Driver = driver })
			s := &shell{t: t, dir: ws}
			s.ok("context", "create", "ctx_a")
			folder := func(id string) string { return filepath.Join(ws, ".contexts", id) }
			s.ok("-c", "ctx_a", "rm", "src/main.go") // a whiteout of overlay
			fill(t, folder("ctx_a"))
			want := treeAt(t, folder("ctx_a"))
			file := filepath.Join(t.TempDir(), "a.tar")
			if out := s.ok("context", "export", "ctx_a", file); !strings.HasPrefix(out, "ctx_a  10 files, 2.3 MiB") {
				t.Errorf("export printed %q", out)
			}
			if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("the archive: %v, %v", st, err)
			}
			s.ok("context", "import", "ctx_b", file)
			if d := cmp.Diff(want, treeAt(t, folder("ctx_b"))); d != "" {
				t.Errorf("imported:\n%s", d)
			}
			s.stdin = s.ok("context", "export", "ctx_b")
			s.ok("context", "import", "unsafe_noctx_c", "-")
			if d := cmp.Diff(want, treeAt(t, folder("unsafe_noctx_c"))); d != "" {
				t.Errorf("through a pipe:\n%s", d)
			}
			first, err1 := os.Stat(filepath.Join(folder("ctx_b"), "run.sh"))
			second, err2 := os.Stat(filepath.Join(folder("ctx_b"), "again.sh"))
			if err1 != nil || err2 != nil || !os.SameFile(first, second) {
				t.Errorf("the hard link came apart: %v, %v", err1, err2)
			}
			if list := s.ok("context", "list"); strings.Contains(list, "import-") {
				t.Errorf("a context is left:\n%s", list)
			}
			untar(t, file, want)
		})
	}
}

// untar extracts an archive by tar(1), which must agree.
func untar(t *testing.T, file string, want map[string]string) {
	t.Helper()
	dir := t.TempDir()
	removable(t, dir)
	cmd := exec.CommandContext(t.Context(), "tar", "-C", dir, "-xpf", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if d := cmp.Diff(want, treeAt(t, dir)); d != "" {
		t.Errorf("tar extracts:\n%s", d)
	}
}

// archive makes an archive of entries; nil content makes no file.
func archive(t *testing.T, entries ...*tar.Header) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		h.Size = map[bool]int64{true: 1}[h.Typeflag == tar.TypeReg]
		must(t, w.WriteHeader(h))
		_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		must(t, err)
	}
	must(t, w.Close())
	return out.String()
}

func TestImportRefusesBadArchives(t *testing.T) {
	s := serve(t)
	s.env = nil
	outside := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(outside, []byte("whole"), 0o600))
	good := archive(t, &tar.Header{Typeflag: tar.TypeReg, Name: "a"})
	for _, c := range []struct{ name, archive, want string }{
		{"a name with dots", archive(t, &tar.Header{Typeflag: tar.TypeReg, Name: "a/../../b"}), "leads outside"},
		{"an absolute name", archive(t, &tar.Header{Typeflag: tar.TypeReg, Name: outside}), "leads outside"},
		{"a file below a link that leads outside", archive(t,
			&tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "../../../../../../../.." + filepath.Dir(outside)},
			&tar.Header{Typeflag: tar.TypeReg, Name: "l/victim"}), "EACCES"},
		{"a file over a link that leads outside", archive(t,
			&tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "../../../../../../../.." + outside},
			&tar.Header{Typeflag: tar.TypeReg, Name: "l"}), "has the name 'l' twice"},
		{"a FIFO", archive(t, &tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}), "'pipe' in the archive is a FIFO"},
		{"a hard link to the outside", archive(t, &tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "../../x"}), "leads outside"},
		{"no archive", "this is no tar archive at all" + strings.Repeat(".", 1024), "tar"},
		{"nothing", "", "cut off"},
		{"cut off in an entry", good[:700], "cut off"},
		{"cut off between entries", good[:1024], "cut off"},
	} {
		s.stdin = c.archive
		if code, _, errs := s.run("context", "import", "ctx_bad"); code != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s", c.name, code, errs)
		}
		if list := s.ok("context", "list"); strings.Contains(list, "ctx_") {
			t.Errorf("%s: it left\n%s", c.name, list)
		}
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "whole" {
		t.Errorf("the file outside holds %q, %v", data, err)
	}
	s.stdin = archive(t, &tar.Header{Typeflag: tar.TypeReg, Name: "no/parent/a", Mode: 0o4755})
	s.ok("context", "import", "ctx_good")
	if out := s.ok("-c", "ctx_good", "ls", "-l", "no/parent"); !strings.Contains(out, "-rwxr-xr-x") {
		t.Errorf("setuid is kept: %s", out)
	}
	if code, _, errs := s.run("context", "import", "ctx_good"); code != 1 || !strings.Contains(errs, "ctx_good exists (ready)") {
		t.Errorf("over a context: exit %d, %s", code, errs)
	}
}

func TestExportIsForHostsAndOfWholeContexts(t *testing.T) {
	s := serve(t)
	s.env = nil
	file := filepath.Join(t.TempDir(), "a.tar")
	if code, _, errs := s.run("context", "export", "ctx_a", file); code != 1 || !strings.Contains(errs, "ctx_a cannot be exported: it is missing") {
		t.Errorf("a missing context: exit %d, %s", code, errs)
	}
	c, err := client.Dial(t.Context(), client.WithDir(s.dir), client.WithGetenv(func(string) string { return "" }))
	must(t, err)
	defer func() { must(t, c.Close()) }()
	p, err := c.OpenPanel(t.Context(), "a")
	must(t, err)
	token, _ := p.Token()
	for _, args := range [][]string{{"context", "export", "ctx_a", file}, {"context", "import", "ctx_b", file}} {
		must(t, os.WriteFile(file, nil, 0o600))
		if code, _, errs := s.run(append(args, "--token", token)...); code != 1 || !strings.Contains(errs, "EACCES") {
			t.Errorf("%v as a panel: exit %d, %s", args, code, errs)
		}
	}
	must(t, p.Close())
}

func TestExportAndImportOfADirectory(t *testing.T) {
	s := serve(t)
	s.env = nil
	s.ok("panel", "open", "editor")
	s.stdin = "one"
	s.ok("--panel", "editor", "mkdir", "made", "from")
	s.ok("--panel", "editor", "put", "-", "made/one")
	s.stdin = "log"
	s.ok("--panel", "editor", "put", "-", "made/x.log")
	dir := t.TempDir()
	for _, name := range []string{"a.zip", "a.tar"} {
		file := filepath.Join(dir, name)
		if out := s.ok("export", "editor", "made", "--exclude", "*.log", "-o", file); out != "ctx_editor  1 file, 3 B\n" {
			t.Errorf("%s: export printed %q", name, out)
		}
		head, err := os.ReadFile(file)
		if must(t, err); strings.HasPrefix(string(head), "PK") != (name == "a.zip") {
			t.Errorf("%s begins with %.4q", name, head)
		}
		if out := s.ok("import", "editor", "from/"+name, "-i", file); out != "ctx_editor  1 file, 3 B\n" {
			t.Errorf("%s: import printed %q", name, out)
		}
		if code, _, errs := s.run("import", "editor", "from/"+name, "-i", file); code != 1 || !strings.Contains(errs, "give --overwrite to replace files") {
			t.Errorf("%s: again: exit %d, %s", name, code, errs)
		}
	}
	s.stdin = s.ok("export", "ctx_editor", "/made/one")
	s.ok("import", "ctx_editor", "made", "--overwrite")
	if out := s.ok("-c", "ctx_editor", "cat", "made/one", "from/a.zip/one", "from/a.tar/one"); out != "oneoneone" {
		t.Errorf("the files have %q", out)
	}
	for _, flag := range [][]string{{"--panel", "editor"}, {"-c", "ctx_editor"}, {"-c", "editor"}} {
		s.stdin = s.ok(append(flag, "export", "made/one")...)
		if out := s.ok(append(flag, "import", "by-flag", "--overwrite")...); out != "ctx_editor  1 file, 3 B\n" {
			t.Errorf("%v: import printed %q", flag, out)
		}
		if code, _, errs := s.run(append(flag, "export", "editor", "made")...); code != 2 || !strings.Contains(errs, "named twice") {
			t.Errorf("%v and an argument: exit %d, %s", flag, code, errs)
		}
	}
	if out := s.ok("-c", "ctx_editor", "cat", "by-flag/one"); out != "one" {
		t.Errorf("the file has %q", out)
	}
	if code, _, errs := s.run("export"); code != 2 || !strings.Contains(errs, "whose files?") {
		t.Errorf("no context: exit %d, %s", code, errs)
	}
	if code, _, errs := s.run("export", "editor", "--format", "rar"); code != 2 || !strings.Contains(errs, "the formats are tar and zip") {
		t.Errorf("an unknown format: exit %d, %s", code, errs)
	}
}

package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestLayoutMakesItsMarkers(t *testing.T) {
	dir := t.TempDir()
	l, err := NewLayout(dir, "")
	must(t, err)
	must(t, l.Make("0.1.0"))
	must(t, l.Make("0.1.0"))
	for name, want := range map[string]string{
		".gitignore": "/*\n", ".ignore": "/*\n", ".metadata_never_index": "", ".git": "gitdir: .ctxfs/not-a-repository\n",
		".ctxfs/FORMAT": `{"format":1,"written_by":"0.1.0"}` + "\n", ".ctxfs/layers/CACHEDIR.TAG": cacheTag, ".ctxfs/staging/CACHEDIR.TAG": cacheTag,
	} {
		got, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	st, err := os.Stat(l.State)
	must(t, err)
	if runtime.GOOS != "windows" && st.Mode().Perm() != 0o700 {
		t.Errorf("the state directory has mode %o", st.Mode().Perm())
	}
}

func TestIgnoreFilesOfAnEarlierVersionAreReplaced(t *testing.T) {
	dir := t.TempDir()
	l, err := NewLayout(dir, "")
	must(t, err)
	must(t, os.Mkdir(l.Dir, 0o755))
	must(t, os.WriteFile(filepath.Join(l.Dir, ".ignore"), []byte("*\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(l.Dir, ".gitignore"), []byte("/ctx_*\n"), 0o644))
	must(t, l.Make("0.2.0"))
	for name, want := range map[string]string{".ignore": "/*\n", ".gitignore": "/ctx_*\n"} {
		if got, err := os.ReadFile(filepath.Join(l.Dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestNewerStateFormat(t *testing.T) {
	dir := t.TempDir()
	l, err := NewLayout(dir, "")
	must(t, err)
	must(t, os.MkdirAll(l.State, 0o700))
	must(t, os.WriteFile(l.Format, []byte(`{"format":2,"written_by":"0.3"}`), 0o600))
	err = l.Make("0.1.0")
	var newer *FormatError
	if !errors.As(err, &newer) || err.Error() != "state format 2 needs ctxfs 0.3 or later; this is 0.1.0; nothing was changed" {
		t.Errorf("got %v", err)
	}
	entries, err := os.ReadDir(l.Dir)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("something was changed: %v", entries)
	}
}

func TestBadPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	_, err := NewLayout(file, "")
	wantCode(t, err, fserr.ENOTDIR, "is not a directory")
	_, err = NewLayout(filepath.Join(dir, "missing"), "")
	wantCode(t, err, fserr.ENOENT, "missing")

	link := layoutOf(dir, filepath.Join(dir, "link"))
	must(t, os.Symlink(t.TempDir(), link.Dir))
	wantCode(t, link.Make("0.1.0"), fserr.ENOTDIR, "cannot create")
	wantCode(t, layoutOf(dir, filepath.Join(dir, "file")).Make("0.1.0"), fserr.ENOTDIR)
}

func TestPlaceThatIsNotWritableTellsItsOwner(t *testing.T) {
	l := layoutOf("/w", "/w/.contexts")
	err := l.cannotCreate(filepath.Join(t.TempDir(), "x"), syscall.EACCES)
	if runtime.GOOS == "windows" {
		wantCode(t, err, fserr.EACCES, "--contexts-dir")
		return
	}
	wantCode(t, err, fserr.EACCES, "cannot create", "is owned by uid", "ctxfs runs as", "use --contexts-dir /state or run as")
}

// wantCode checks an error's errno, and that its text has all parts.
func wantCode(t *testing.T, err error, code fserr.Code, parts ...string) {
	t.Helper()
	if fserr.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

package xattr

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobodyEnv makes the test binary, run as an ordinary user, copy between the files of the directory it names.
const nobodyEnv = "CTXFS_TEST_XATTR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(nobodyEnv); dir != "" {
		if err := CopyUser(filepath.Join(dir, "from"), filepath.Join(dir, "to")); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files makes two files. The first has attributes; the second is not writable.
func files(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctxfs")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	for _, name := range []string{"from", "to"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	must(t, unix.Setxattr(filepath.Join(dir, "from"), "user.one", []byte("1\x00"), 0))
	must(t, unix.Setxattr(filepath.Join(dir, "from"), "user.none", nil, 0))
	must(t, os.Chmod(filepath.Join(dir, "to"), 0o444))
	return dir
}

func wantCopied(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]string{"user.one": "1\x00", "user.none": ""} {
		value := make([]byte, 100)
		n, err := unix.Getxattr(filepath.Join(dir, "to"), name, value)
		if err != nil || string(value[:n]) != want {
			t.Errorf("%s is %q, %v, want %q", name, value[:max(n, 0)], err, want)
		}
	}
}

func TestCopyUser(t *testing.T) {
	dir := files(t)
	must(t, CopyUser(filepath.Join(dir, "from"), filepath.Join(dir, "to")))
	wantCopied(t, dir)
	if CopyUser(filepath.Join(dir, "from"), filepath.Join(dir, "missing")) == nil {
		t.Error("a missing file was given attributes")
	}
}

func TestCopyUserToAReadOnlyFile(t *testing.T) {
	dir := files(t)
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), nobodyEnv+"="+dir)
	if os.Geteuid() == 0 { // root may write anyway: do it as nobody
		const nobody = 65534
		must(t, os.Chown(dir, nobody, nobody))
		must(t, os.Chown(filepath.Join(dir, "to"), nobody, nobody))
		copied := filepath.Join(dir, "test")
		data, err := os.ReadFile(exe)
		must(t, err)
		must(t, os.WriteFile(copied, data, 0o755))
		cmd.Path = copied
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantCopied(t, dir)
}

package rootfs

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestReservedNameBehindLink has a temporary file of an atomic write stand where links lead.
func TestReservedNameBehindLink(t *testing.T) {
	t.Parallel()
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, with(name))
			w.put(ReservedPrefix+"x", "half")
			w.must(os.Mkdir(w.host(ReservedPrefix+"d"), 0o755))
			w.put(ReservedPrefix+"d/in", "half")
			w.must(os.Symlink(ReservedPrefix+"d", w.host("todir")))
			w.must(os.Symlink("toreserved", w.host("twice")))
			for _, path := range []string{"toreserved", "twice", "todir/in", "todir/", "d/../toreserved", "dirlink/../toreserved"} {
				for call, fn := range resolvingCalls(path) {
					want := fserr.ENOENT
					if strings.HasPrefix(call, "create") && !strings.HasPrefix(path, "todir") && name == "osroot" {
						want = fserr.EACCES // a reserved name cannot be created
					}
					if got := fserr.CodeOf(fn(w.Root)); got != want && !strings.HasSuffix(path, "/") {
						t.Errorf("%s of %s: %v, want %v", call, path, got, want)
					}
				}
				w.code(statting(path)(w.Root), fserr.ENOENT)
			}
			w.content(ReservedPrefix+"x", "half")
		})
	}
}

// TestWithoutOpenat2 runs the suite on a kernel, or under a filter, that refuses openat2.
func TestWithoutOpenat2(t *testing.T) {
	t.Parallel()
	for _, refusal := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(refusal.Error(), func(t *testing.T) {
			var calls atomic.Int32
			refuse := func(int, string, unix.OpenHow) (int, error) {
				calls.Add(1)
				return -1, refusal
			}
			w := newWorld(t, func(dir string) (Root, error) { return openLinux(dir, Options{}, refuse) })
			w.code(reading("abs")(w.Root), done)
			w.code(reading("out")(w.Root), fserr.EACCES)
			_, err := w.RemoveAll(t.Context(), "d")
			w.must(err)
			w.equal(calls.Load(), int32(1))
			_, err = openLinux(w.dir, Options{Implementation: "openat2"}, refuse)
			w.equal(fserr.CodeOf(err), fserr.CodeOf(refusal))
		})
	}
}

// TestEndlessEAGAIN meets a kernel that can never be sure of "..".
func TestEndlessEAGAIN(t *testing.T) {
	t.Parallel()
	tries := 0
	unsure := func(dir int, path string, how unix.OpenHow) (int, error) {
		if strings.Contains(path, "..") {
			tries++
			return -1, unix.EAGAIN
		}
		return openat2(dir, path, how)
	}
	w := newWorld(t, func(dir string) (Root, error) { return openLinux(dir, Options{}, unsure) })
	w.code(statting("d/../f")(w.Root), done)
	w.equal(tries, maxRetries)
	w.code(statting("d/../../outside")(w.Root), fserr.EACCES)
}

// TestLongestPath has the path length that rootfs promises and the kernel counts differently.
func TestLongestPath(t *testing.T) {
	t.Parallel()
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, with(name))
			path := strings.Repeat("./", MaxPath/2-1) + "/f"
			w.equal(len(path), MaxPath)
			w.code(statting(path)(w.Root), done)
			w.code(statting("/"+path)(w.Root), fserr.ENAMETOOLONG)
		})
	}
}

// TestNameLengths passes names of the lengths at which they are handed on differently.
func TestNameLengths(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		for n := node.ShortName - 4; n < node.ShortName+4; n++ {
			path := strings.Repeat("./", (n-1)/2) + "f"
			if n%2 == 0 {
				path = "/" + path
			}
			w.equal(len(path), n)
			w.code(statting(path)(w.Root), done)
			w.code(statting(path+"o")(w.Root), fserr.ENOENT)
			w.code(statting(path+"\x00")(w.Root), fserr.EINVAL)
		}
	})
	fd, err := openat2(unix.AT_FDCWD, ".\x00.", unix.OpenHow{Flags: unix.O_PATH})
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("a name with a NUL: %d, %v", fd, err)
	}
}

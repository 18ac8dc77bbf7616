package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts/rootfs/internal/node"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestListingReportsAFailedStat has the attributes of a listed name fail other than by ENOENT.
func TestListingReportsAFailedStat(t *testing.T) {
	t.Parallel()
	d := &linuxDir{rest: []Entry{{Name: "f"}}}
	if got, err := d.take(-1, 1, true); fserr.CodeOf(err) != fserr.EBADF {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestStatAllOfManyEntries has two goroutines share a directory in which every third
// name has vanished: the rest keep their order and have their own attributes.
func TestStatAllOfManyEntries(t *testing.T) {
	t.Parallel()
	const many = 40 * statStep
	dir := t.TempDir()
	var entries []Entry
	var want []string
	for i := range many {
		name := fmt.Sprintf("f%d", i)
		entries = append(entries, Entry{Name: name})
		if i%3 == 0 {
			continue
		}
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := statAll(openTestDir(t, dir), entries)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d entries, %v; want %d", len(got), err, len(want))
	}
	for i, e := range got {
		if e.Name != want[i] || fmt.Sprintf("f%d", e.Stat.Size) != e.Name || e.Type != TypeFile {
			t.Fatalf("entry %d is %s of %d bytes, type %d; want %s", i, e.Name, e.Stat.Size, e.Type, want[i])
		}
	}
}

// TestStatAllFailsWhenOneEntryDoes has a name that cannot be asked about among those that can.
func TestStatAllFailsWhenOneEntryDoes(t *testing.T) {
	t.Parallel()
	entries := make([]Entry, 40*statStep)
	for i := range entries {
		entries[i].Name = "."
	}
	entries[100].Name = "a\x00"
	if got, err := statAll(openTestDir(t, t.TempDir()), entries); fserr.CodeOf(err) != fserr.EINVAL || got != nil {
		t.Errorf("got %d entries, %v; want EINVAL", len(got), err)
	}
}

func openTestDir(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.CloseFD(fd) })
	return fd
}

package faults

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
)

// TestADiskWithErrors has each operation of a file system answer EIO for one panel's names.
func TestADiskWithErrors(t *testing.T) {
	d := faultyDisk(t)
	p := begin(t, d.use)
	f := p.panel("panels/writer")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	must(t, f.WriteFile("good", []byte(kept), 0o644))
	must(t, f.MkdirAll("bad/sub", 0o755))
	must(t, f.WriteFile("bad/file", bytes.Repeat([]byte("x"), 300<<10), 0o644))
	for _, c := range errorCases(p, f) {
		t.Run(c.name, func(t *testing.T) {
			d.fault(c.ops, "panels~writer/bad", "EIO")
			wantCode(t, c.name, c.do(), fserr.EIO)
			wantNone(t, f, c.none...)
			wantFile(t, f, "good", kept)
			must(t, f.WriteFile("good", []byte(kept), 0o644))
			p.othersGoOn()
			d.heal()
			must(t, c.do())
			p.clean()
		})
	}
}

type errorCase struct {
	name string
	// ops fail with EIO below bad.
	ops  string
	do   func() error
	none []string
}

func errorCases(p *play, f *client.FS) []errorCase {
	data := []byte(kept)
	return []errorCase{
		{"stat", "lookup,getattr", func() error { return second(f.Stat("bad/file")) }, nil},
		{"readdir", "readdir", func() error { return second(f.ReadDir("bad")) }, nil},
		{"readFile", "read", func() error { return second(f.ReadFile("bad/file")) }, nil},
		{"open", "open", func() error { return second(f.ReadFile("bad/file")) }, nil},
		{"readStream", "read", func() error { return readAll(f, "bad/file") }, nil},
		{"overwrite", "write", func() error { return f.WriteFile("bad/file", bytes.Repeat([]byte("y"), 300<<10), 0o644) }, nil},
		{"a new file", "create", func() error { return f.WriteFile("bad/new", data, 0o644) }, nil},
		{"whole, of a new name", "write", func() error { return f.WriteFileAtomic("bad/whole", data, 0o644) }, []string{"bad/whole"}},
		{"stream", "write", func() error { return stream(f, "bad/streamed", data) }, []string{"bad/streamed"}},
		{"fsync", "fsync", func() error { return synced(f) }, nil},
		{"mkdir", "mkdir", func() error { return errors.Join(f.Mkdir("bad/dir", 0o755), f.Rmdir("bad/dir")) }, nil},
		{"rename", "rename", func() error { return errors.Join(f.Rename("bad/file", "bad/f2"), f.Rename("bad/f2", "bad/file")) }, nil},
		{"chmod", "setattr", func() error { return f.Chmod("bad/file", 0o640) }, nil},
		{"cp -r", "read", func() error {
			_, err := f.Cp("bad", "copy", client.CopyOptions{Recursive: true})
			return err
		}, nil},
		{"fork", "read", func() error {
			_, err := p.host.Fork(p.Context(), "ctx_panels~writer", "ctx_fork")
			return err
		}, nil},
		{"rm", "unlink", func() error { return f.RemoveAll("bad") }, nil},
	}
}

func second[T any](_ T, err error) error { return err }

func readAll(f *client.FS, name string) error {
	r, err := f.ReadStream(name, client.ReadOptions{})
	if err != nil {
		return err
	}
	_, err = r.WriteTo(new(bytes.Buffer))
	return errors.Join(err, r.Close())
}

func synced(f *client.FS) error {
	h, err := f.OpenFile("bad/file", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(h.Sync(), h.Close())
}

package cells

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Sizes of the work.
type Sizes struct {
	// Files of 4 KiB that are read and described, Entries of the directory that is listed.
	Files, Entries int
	// StatusDirs of StatusFiles each are walked and listed, GrepFiles searched.
	StatusDirs, StatusFiles, GrepFiles int
	// Large is the size of the large file, in bytes.
	Large int64
}

// Full and Quick are the sizes of a whole run and of one that only shows that all works.
func Full() Sizes {
	return Sizes{Files: 64, Entries: 1000, StatusDirs: 500, StatusFiles: 20, GrepFiles: 5000, Large: 256 << 20}
}

// Quick is about a tenth of Full.
func Quick() Sizes {
	return Sizes{Files: 64, Entries: 100, StatusDirs: 50, StatusFiles: 20, GrepFiles: 500, Large: 16 << 20}
}

const (
	// small is the size of a small file, in bytes.
	small = 4 << 10
	// needle is what is searched for; one file in needleEvery holds it.
	needle      = "quetzalcoatlus"
	needleEvery = 100
	// perDir is how many files to search stand in a directory, perParent how many directories of the status walk.
	perDir, perParent = 50, 25
)

// largeName is the large file's.
const largeName = "large.bin"

func fileName(i int) string { return fmt.Sprintf("files/f%03d.txt", i) }

func statusName(i, perDir int) string {
	d := i / perDir
	return fmt.Sprintf("status/p%02d/d%03d/f%02d.go", d/perParent, d, i%perDir)
}

func grepName(i int) string { return fmt.Sprintf("grep/d%03d/f%04d.go", i/perDir, i) }

// ownDir is where a peer writes.
func ownDir(peer string) string { return "own-" + peer }

// MakeTree fills root with what the cells work on, and a folder to write in for each peer.
func MakeTree(root string, s Sizes, peers []string) error {
	t := &tree{root: root}
	text := prose()
	for i := range s.Files {
		t.write(fileName(i), text)
	}
	for i := range s.Entries {
		t.write(fmt.Sprintf("list/entry-%04d.txt", i), text[:100])
	}
	for i := range s.StatusDirs * s.StatusFiles {
		t.write(statusName(i, s.StatusFiles), text[:200])
	}
	for i := range s.GrepFiles {
		content := text
		if i%needleEvery == needleEvery/2 {
			content = append(bytes.Clone(text[:small-64]), "\n// here is a "+needle+"\n"...)
		}
		t.write(grepName(i), content)
	}
	for _, p := range peers {
		for i := range s.Files {
			t.write(ownName(p, i), text)
		}
	}
	t.large(largeName, s.Large)
	return t.err
}

func ownName(peer string, i int) string { return fmt.Sprintf("%s/f%03d.txt", ownDir(peer), i) }

// prose is 4 KiB that look like source.
func prose() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < small; i++ {
		fmt.Fprintf(&b, "func step%03d(in []byte) (out int, err error) { return len(in) + %d, nil }\n", i, i*i)
	}
	return b.Bytes()[:small]
}

// tree writes files until the first error.
type tree struct {
	root string
	dir  string
	err  error
}

func (t *tree) write(name string, data []byte) {
	if t.err != nil {
		return
	}
	path := filepath.Join(t.root, filepath.FromSlash(name))
	if dir := filepath.Dir(path); dir != t.dir {
		if t.err = os.MkdirAll(dir, 0o755); t.err != nil {
			return
		}
		t.dir = dir
	}
	t.err = os.WriteFile(path, data, 0o644)
}

func (t *tree) large(name string, size int64) {
	if t.err != nil {
		return
	}
	f, err := os.Create(filepath.Join(t.root, name))
	if err != nil {
		t.err = err
		return
	}
	piece := bytes.Repeat(prose(), 256)
	for done := int64(0); done < size && err == nil; done += int64(len(piece)) {
		_, err = f.Write(piece[:min(int64(len(piece)), size-done)])
	}
	t.err = errors.Join(err, f.Close())
}

package compare

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/ctxfs/ctxfs/bench/stand"
)

// Sizes of the work. What is 0 is not there.
type Sizes struct {
	// Files of 4 KiB that are read and described, Entries of the directory that is listed.
	Files, Entries int
	// StatusDirs of StatusFiles each are walked and listed, GrepFiles searched.
	StatusDirs, StatusFiles, GrepFiles int
	// Large is the size of the large file, in bytes.
	Large int64
}

// full and quick are the sizes of a whole run and of one that only shows that all works.
var (
	full  = Sizes{Files: 64, Entries: 1000, StatusDirs: 500, StatusFiles: 20, GrepFiles: 5000, Large: 256 << 20}
	quick = Sizes{Files: 64, Entries: 100, StatusDirs: 50, StatusFiles: 20, GrepFiles: 500, Large: 16 << 20}
)

const (
	// small is the size of a small file, in bytes.
	small = 4 << 10
	// needle is what is searched for; one file in needleEvery holds it.
	needle      = "quetzalcoatlus"
	needleEvery = 100
	// perDir is how many files to search are in a directory, perParent how many directories of the status walk.
	perDir, perParent = 50, 25
)

const largeName, listName, statusDir = "large.bin", "list", "status"

func fileName(i int) string { return fmt.Sprintf("files/f%03d.txt", i) }

// EntryName is a name in the directory that is listed.
func EntryName(i int) string { return fmt.Sprintf("entry-%06d.txt", i) }

func statusName(i, perDir int) string {
	d := i / perDir
	return fmt.Sprintf("%s/p%02d/d%03d/f%02d.go", statusDir, d/perParent, d, i%perDir)
}

func grepName(i int) string { return fmt.Sprintf("grep/d%03d/f%04d.go", i/perDir, i) }

// ownDir is where a peer writes.
func ownDir(peer string) string { return "own-" + peer }

func ownName(peer string, i int) string { return fmt.Sprintf("%s/f%03d.txt", ownDir(peer), i) }

// MakeTree fills root with what the cells work on, and a folder to write in for each peer.
func MakeTree(root string, s Sizes, peers ...string) (err error) {
	write := func(name string, data []byte) {
		if err == nil {
			err = stand.Write(filepath.Join(root, filepath.FromSlash(name)), data)
		}
	}
	text := prose()
	for i := range s.Files {
		write(fileName(i), text)
	}
	for i := range s.Entries {
		write(listName+"/"+EntryName(i), text[:100])
	}
	for i := range s.StatusDirs * s.StatusFiles {
		write(statusName(i, s.StatusFiles), text[:200])
	}
	for i := range s.GrepFiles {
		content := text
		if i%needleEvery == needleEvery/2 {
			content = append(bytes.Clone(text[:small-64]), "\n// here is a "+needle+"\n"...)
		}
		write(grepName(i), content)
	}
	for _, p := range peers {
		for i := range s.Files {
			write(ownName(p, i), text)
		}
	}
	write(largeName, bytes.Repeat(text, int(s.Large/small)))
	return err
}

// prose is 4 KiB that look like source.
func prose() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < small; i++ {
		fmt.Fprintf(&b, "func step%03d(in []byte) (out int, err error) { return len(in) + %d, nil }\n", i, i*i)
	}
	return b.Bytes()[:small]
}

package review

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// knownFiles keeps, for each context, which files were found equal to its layer, so that the next comparison need not read them. It is
// a cache: a file that is missing, or damaged, costs one comparison of contents.
type knownFiles struct{ dir string }

// knownMagic begins a file, with its version; the layer's digest and a mark for each entry of its manifest follow.
const knownMagic = "ctxfs known 1\n"

func (k knownFiles) file(id string) string { return filepath.Join(k.dir, id) }

// read returns the marks of a context, nil when there are none of this layer.
func (k knownFiles) read(id, digest string) []mark {
	data, err := os.ReadFile(k.file(id))
	if err != nil {
		return nil
	}
	rest, ok := bytes.CutPrefix(data, []byte(knownMagic+digest+"\n"))
	if !ok || len(rest)%markSize != 0 {
		return nil
	}
	marks := make([]mark, len(rest)/markSize)
	for i := range marks {
		at := rest[i*markSize:]
		marks[i] = mark{binary.LittleEndian.Uint64(at), int64(binary.LittleEndian.Uint64(at[8:]))}
	}
	return marks
}

const markSize = 16

func (k knownFiles) write(id, digest string, marks []mark) error {
	data := make([]byte, 0, len(knownMagic)+len(digest)+1+len(marks)*markSize)
	data = append(append(append(data, knownMagic...), digest...), '\n')
	for _, m := range marks {
		data = binary.LittleEndian.AppendUint64(data, m.Ino)
		data = binary.LittleEndian.AppendUint64(data, uint64(m.CtimeNs))
	}
	return replaceFile(k.file(id), data)
}

func (k knownFiles) remove(id string) { _ = os.Remove(k.file(id)) } // a cache

// removeAll removes the marks of all names with a prefix.
func (k knownFiles) removeAll(prefix string) error {
	entries, err := os.ReadDir(k.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			k.remove(e.Name())
		}
	}
	return err
}

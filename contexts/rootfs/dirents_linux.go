package rootfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// direntPage holds well over a thousand short names per getdents call.
const direntPage = 64 << 10

// direntPages are what getdents writes to. What they held is parsed by the length the
// kernel told, so that nothing of another directory is ever seen.
var direntPages = sync.Pool{New: func() any { return new([direntPage]byte) }}

// appendPage appends what one getdents64(2) tells of the directory fd and want takes;
// io.EOF at the end, also when the directory itself was removed (ENOENT).
func appendPage(out []Entry, fd int, want func(string) bool) ([]Entry, error) {
	page := direntPages.Get().(*[direntPage]byte)
	defer direntPages.Put(page)
	n := 0
	err := uninterrupted(func() (err error) {
		n, err = unix.Getdents(fd, page[:])
		return err
	})
	if err == unix.ENOENT || (err == nil && n == 0) {
		return out, io.EOF
	}
	if err != nil {
		return out, err
	}
	return appendDirents(out, page[:n], want), nil
}

// The layout of struct linux_dirent64 (getdents64(2)).
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// appendDirents copies the names all at once: an allocation for each costs more than the rest.
func appendDirents(out []Entry, buf []byte, want func(string) bool) []Entry {
	count, size := 0, 0
	eachDirent(buf, func(name []byte, _ byte) { count, size = count+1, size+len(name) })
	var text strings.Builder
	text.Grow(size)
	if out == nil {
		out = make([]Entry, 0, count)
	}
	eachDirent(buf, func(raw []byte, kind byte) {
		start := text.Len()
		text.Write(raw)
		if name := text.String()[start:]; want(name) {
			out = append(out, Entry{Name: name, Type: typeOfDirent(kind)})
		}
	})
	return out
}

// eachDirent tells the names in what getdents wrote, but for "." and "..", and their d_type.
func eachDirent(buf []byte, each func(name []byte, kind byte)) {
	for len(buf) >= direntName {
		size := int(binary.NativeEndian.Uint16(buf[direntReclen:]))
		if size < direntName || size > len(buf) {
			return
		}
		name := buf[direntName:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if string(name) != "." && string(name) != ".." {
			each(name, buf[direntType])
		}
		buf = buf[size:]
	}
}

// typeOfDirent uses that d_type is the S_IFMT bits shifted (IFTODT in dirent.h).
func typeOfDirent(d byte) Type {
	if d >= 1<<4 {
		return TypeUnknown
	}
	return TypeOf(uint32(d) << 12)
}

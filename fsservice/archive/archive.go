// Package archive writes and reads tar and zip archives as sequences of entries. It refuses archives that are hostile: names that lead
// outside, devices, content that expands too far. It opens no file: its callers do, through rootfs.
package archive

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
)

// Type is a type of Entry.
type Type int

// The types of Entry.
const (
	File Type = iota
	Directory
	Symlink
	// HardLink is another name of an earlier File.
	HardLink
)

// Top is the name of the directory that an archive was made of.
const Top = "."

// Entry describes one name of an archive.
type Entry struct {
	// Name is relative and clean; Top for the directory that the archive was made of.
	Name string
	Type Type
	// Mode has the permission bits, without setuid and setgid.
	Mode    uint32
	MtimeNs int64
	// Size of a File's content, in bytes. A Reader's may be wrong: the content decides.
	Size int64
	// Target is what a Symlink stores, or the Name of the File of a HardLink.
	Target string
}

// Writer writes an archive.
type Writer interface {
	// Add writes an entry. content has a File's content, and must return Size bytes; it is nil for other types. An error of content is
	// returned as it is. After an error the archive cannot be continued.
	Add(e Entry, content io.Reader) error
	// Links reports whether the format has hard links. Without them, each name is a File.
	Links() bool
	// Close writes the end of the archive.
	Close() error
}

// Reader reads an archive. Its errors are *fserr.Error, or those of the io.Reader that it reads.
type Reader interface {
	// Next returns the next entry, and a File's content, which is good until the next call. It returns io.EOF after the last entry.
	Next() (Entry, io.Reader, error)
}

// MaxEntries bounds the entries of an archive that is read.
const MaxEntries = 1_000_000

// An archive may expand to expandFree bytes, and to expandTimes its own size above that. Deflate reaches 1032 times; what people pack
// rarely reaches 50 times.
const (
	expandFree  = 64 << 20
	expandTimes = 200
)

// reading has what readers of all formats check.
type reading struct {
	entries  int
	expanded int64
	// received returns how long the archive is, as far as it has arrived, in bytes.
	received func() int64
}

// check accepts an entry, and makes its names clean.
func (r *reading) check(e *Entry) error {
	if r.entries++; r.entries > MaxEntries {
		return &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("the archive has more than %d entries", MaxEntries), Hint: "import it in parts"}
	}
	var err error
	if e.Name, err = clean(e.Name); err != nil {
		return err
	}
	e.Mode &= 0o1777
	if e.Name == Top && e.Type != Directory {
		return fserr.Invalid("the archive has an entry without a name")
	}
	if e.Type == HardLink {
		if e.Target, err = clean(e.Target); err == nil && e.Target == e.Name {
			err = fserr.Invalid("%s in the archive is a hard link to itself", quote(e.Name))
		}
	}
	if e.Type == Symlink {
		err = target(*e)
	}
	return err
}

// target checks what a symbolic link stores. It may lead anywhere: whoever follows it is confined.
func target(e Entry) error {
	switch {
	case e.Target == "" || strings.ContainsRune(e.Target, 0):
		return fserr.Invalid("the symbolic link %s in the archive has no valid target", quote(e.Name))
	case len(e.Target) >= rootfs.MaxPath:
		return &fserr.Error{Code: fserr.ENAMETOOLONG, Detail: fmt.Sprintf("the target of the symbolic link %s in the archive has more than %d bytes", quote(e.Name), rootfs.MaxPath-1)}
	}
	return nil
}

// clean returns a name of an archive in its shortest form.
func clean(name string) (string, error) {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", fserr.Invalid("the archive has an entry without a valid name")
	case strings.HasPrefix(name, "/"):
		return "", outside(name)
	case len(name) >= rootfs.MaxPath:
		return "", tooLong(name)
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", outside(name)
		case len(part) > rootfs.MaxName:
			return "", tooLong(name)
		case rootfs.Reserved(part):
			return "", &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("the name %s in the archive is reserved for the server", quote(name))}
		}
	}
	return path.Clean(name), nil
}

func outside(name string) error {
	return &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("the name %s in the archive leads outside: it is absolute or has '..'", quote(name))}
}

func tooLong(name string) error {
	return &fserr.Error{
		Code: fserr.ENAMETOOLONG, Detail: fmt.Sprintf("the name %s in the archive is too long", quote(name)),
		Hint: fmt.Sprintf("a name has at most %d bytes, a path %d", rootfs.MaxName, rootfs.MaxPath),
	}
}

// quote returns a name for an error's text, cut to a length that can be read.
func quote(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	return "'" + fserrpb.Printable(name) + "'"
}

// special is the error for an entry that no context can have.
func special(name, what string) error {
	return &fserr.Error{
		Code: fserr.EOPNOTSUPP, Detail: fmt.Sprintf("%s in the archive is %s", quote(name), what), Hint: "make the archive without it",
	}
}

// damaged is the error for an archive that cannot be read.
func damaged(f string, err error) error {
	return &fserr.Error{Code: fserr.EINVAL, Detail: "the archive is no valid " + f + ", or is damaged", Err: err}
}

// content bounds how far a file of an archive expands, and converts the errors of its format.
type content struct {
	*reading
	r       io.Reader
	convert func(error) error
}

func (c *content) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.expanded += int64(n)
	if c.expanded-expandFree > expandTimes*c.received() {
		return n, &fserr.Error{
			Code: fserr.EFBIG, Detail: fmt.Sprintf("the archive expands to more than %d times its size", expandTimes), Hint: "send what it holds as a tar archive without sparse files",
		}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // an error that wraps it is another one
		err = c.convert(err)
	}
	return n, err
}

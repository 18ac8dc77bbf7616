package fsservice

import (
	"fmt"
	"strconv"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

const (
	readOnlyFlags  = rootfs.O_RDONLY
	writeFlags     = rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_TRUNC
	writeReadFlags = rootfs.O_RDWR | rootfs.O_CREAT | rootfs.O_TRUNC
	appendFlags    = rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_APPEND
	appendRead     = rootfs.O_RDWR | rootfs.O_CREAT | rootfs.O_APPEND
)

// nodeFlags returns the open(2) flags of Node's string (lib/internal/fs/utils.js,
// stringToFlags); false when it is unknown.
func nodeFlags(s string) (rootfs.Flags, bool) {
	switch s {
	case "r":
		return readOnlyFlags, true
	case "rs", "sr":
		return rootfs.O_RDONLY | rootfs.O_SYNC, true
	case "r+":
		return rootfs.O_RDWR, true
	case "rs+", "sr+":
		return rootfs.O_RDWR | rootfs.O_SYNC, true
	case "w":
		return writeFlags, true
	case "wx", "xw":
		return writeFlags | rootfs.O_EXCL, true
	case "w+":
		return writeReadFlags, true
	case "wx+", "xw+":
		return writeReadFlags | rootfs.O_EXCL, true
	}
	return nodeAppendFlags(s)
}

func nodeAppendFlags(s string) (rootfs.Flags, bool) {
	switch s {
	case "a":
		return appendFlags, true
	case "ax", "xa":
		return appendFlags | rootfs.O_EXCL, true
	case "as", "sa":
		return appendFlags | rootfs.O_SYNC, true
	case "a+":
		return appendRead, true
	case "ax+", "xa+":
		return appendRead | rootfs.O_EXCL, true
	case "as+", "sa+":
		return appendRead | rootfs.O_SYNC, true
	}
	return 0, false
}

// knownFlags are the bits that a number may have.
const knownFlags = rootfs.O_ACCMODE | rootfs.O_CREAT | rootfs.O_EXCL | rootfs.O_NOCTTY | rootfs.O_TRUNC |
	rootfs.O_APPEND | rootfs.O_NONBLOCK | rootfs.O_DSYNC | rootfs.O_DIRECT | rootfs.O_LARGEFILE |
	rootfs.O_DIRECTORY | rootfs.O_NOFOLLOW | rootfs.O_NOATIME | rootfs.O_CLOEXEC | rootfs.O_SYNC

// openFlags are the flags of a request and how they were written.
type openFlags struct {
	rootfs.Flags
	text string
}

// changes reports whether opening so may change something.
func (f openFlags) changes() bool {
	return f.Writable() || f.Flags&(rootfs.O_CREAT|rootfs.O_TRUNC) != 0
}

// replaces reports whether the flags are those of "w" or "wx", with or without "+".
func (f openFlags) replaces() bool {
	const without = rootfs.O_ACCMODE | rootfs.O_EXCL | rootfs.O_CLOEXEC | rootfs.O_NOCTTY | rootfs.O_LARGEFILE
	return f.Writable() && f.Flags&^without == rootfs.O_CREAT|rootfs.O_TRUNC
}

// flagsOf reads a flag_form: the string, or the number, or else def.
func flagsOf(text *string, number *int32, def string) (openFlags, error) {
	switch {
	case number != nil:
		return numberFlags(*number)
	case text == nil:
		text = &def
	}
	f, ok := nodeFlags(*text)
	if !ok {
		return openFlags{}, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("unknown flag %.40q", *text), Hint: "the flags are r, r+, rs+, w, w+, wx, wx+, a, a+, ax, ax+, as and as+"}
	}
	return openFlags{f, *text}, nil
}

func numberFlags(n int32) (openFlags, error) {
	f := rootfs.Flags(uint32(n))
	if f&^knownFlags != 0 || f&rootfs.O_ACCMODE == rootfs.O_ACCMODE {
		return openFlags{}, invalid("unknown flag number %d", n)
	}
	return openFlags{f, "0o" + strconv.FormatUint(uint64(f), 8)}, nil
}

// modeOf reads a mode_form: the number, or the octal string, or else def. The
// second result says whether one was given.
func modeOf(number *uint32, octal *string, def uint32) (mode uint32, given bool, err error) {
	switch {
	case number != nil:
		mode = *number
	case octal != nil:
		n, err := strconv.ParseUint(*octal, 8, 32)
		if err != nil {
			return 0, true, invalid("mode_octal %.20q is no octal number", *octal)
		}
		mode = uint32(n)
	default:
		return def, false, nil
	}
	// Type bits are let through, since callers pass on what stat gave them.
	if mode&^0o177777 != 0 {
		return 0, true, invalid("mode %#o is out of range", mode)
	}
	return mode & 0o7777, true, nil
}

// newMode is modeOf for what is created: the umask is taken off.
func newMode(number *uint32, octal *string, def uint32) (uint32, error) {
	mode, _, err := modeOf(number, octal, def)
	return mode &^ umask, err
}

package fsservice

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// pathOf returns the path of a request, which is in its text or its bytes. rootfs refuses "".
func pathOf(path string, raw []byte) (string, error) { return oneOf("path", path, raw) }

func oneOf(field, text string, raw []byte) (string, error) {
	if len(raw) == 0 {
		return text, nil
	}
	if text != "" {
		return "", fserr.Invalid("%s and raw_%s are both set", field, field)
	}
	return string(raw), nil
}

// wirePath is the reverse of pathOf: UTF-8 travels as text, other bytes as raw.
func wirePath(p string) (text string, raw []byte) {
	if utf8.ValidString(p) {
		return p, nil
	}
	return "", []byte(p)
}

// fileType converts a type; rootfs and the wire have the same numbers.
func fileType(t rootfs.Type) ctxfsv1.FileType { return ctxfsv1.FileType(t) }

func wireStat(st rootfs.Stat) *ctxfsv1.Stat {
	return &ctxfsv1.Stat{
		Type: fileType(st.Type()), Dev: st.Dev, Ino: st.Ino, Mode: st.Mode, Nlink: st.Nlink,
		Uid: st.UID, Gid: st.GID, Rdev: st.Rdev, Size: st.Size, Blksize: st.Blksize, Blocks: st.Blocks,
		AtimeNs: st.AtimeNs, MtimeNs: st.MtimeNs, CtimeNs: st.CtimeNs, BirthtimeNs: st.BirthtimeNs,
	}
}

// absolute returns path from the root, without "." and empty components. It keeps "..", whose meaning depends on links.
func absolute(path string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			b.WriteByte('/')
			b.WriteString(part)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// under joins a relative path to an absolute directory.
func under(dir, rel string) string {
	switch {
	case rel == "":
		return dir
	case dir == "/":
		return "/" + rel
	}
	return dir + "/" + rel
}

const (
	readOnlyFlags  = rootfs.O_RDONLY
	writeFlags     = rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_TRUNC
	writeReadFlags = rootfs.O_RDWR | rootfs.O_CREAT | rootfs.O_TRUNC
	appendFlags    = rootfs.O_WRONLY | rootfs.O_CREAT | rootfs.O_APPEND
	appendRead     = rootfs.O_RDWR | rootfs.O_CREAT | rootfs.O_APPEND
)

// nodeFlags returns the open(2) flags of Node's string (lib/internal/fs/utils.js, stringToFlags); false when it is unknown.
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

// openFlags are the flags of a request, and their text there.
type openFlags struct {
	rootfs.Flags
	text string
}

// replaces reports whether the flags are those of "w" or "wx", with or without "+".
func (f openFlags) replaces() bool {
	const without = rootfs.O_ACCMODE | rootfs.O_EXCL | rootfs.O_CLOEXEC | rootfs.O_NOCTTY | rootfs.O_LARGEFILE
	return f.Writable() && f.Flags&^without == rootfs.O_CREAT|rootfs.O_TRUNC
}

// formOf returns the value of a oneof that holds a number or a text. Both are nil when it is not set.
func formOf[N int32 | uint32](oneof any) (number *N, text *string) {
	if oneof == nil {
		return nil, nil
	}
	switch v := reflect.ValueOf(oneof).Elem().Field(0).Addr().Interface().(type) { // protoc-gen-go's type for a field of a oneof
	case *N:
		return v, nil
	case *string:
		return nil, v
	}
	return nil, nil
}

// flagsOf reads the oneof of flags that a request has; def when it is not set.
func flagsOf(form any, def string) (openFlags, error) {
	number, text := formOf[int32](form)
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
		return openFlags{}, fserr.Invalid("unknown flag number %d", n)
	}
	return openFlags{f, "0o" + strconv.FormatUint(uint64(f), 8)}, nil
}

// modeOf reads the oneof of a mode that a request has. given is false when it is not set.
func modeOf(form any) (mode uint32, given bool, err error) {
	number, octal := formOf[uint32](form)
	switch {
	case number != nil:
		mode = *number
	case octal != nil:
		n, err := strconv.ParseUint(*octal, 8, 32)
		if err != nil {
			return 0, true, fserr.Invalid("mode_octal %.20q is no octal number", *octal)
		}
		mode = uint32(n)
	default:
		return 0, false, nil
	}
	// The type bits may be set, since callers pass on the mode that stat returned.
	if mode&^0o177777 != 0 {
		return 0, true, fserr.Invalid("mode %#o is out of range", mode)
	}
	return mode & 0o7777, true, nil
}

// wantMode is modeOf for a request that must have a mode.
func wantMode(form any) (uint32, error) {
	mode, given, err := modeOf(form)
	if err == nil && !given {
		err = fserr.Invalid("mode or mode_octal is required")
	}
	return mode, err
}

// newMode is modeOf for a file that is created, without the bits of umask.
func newMode(form any, def uint32) (uint32, error) {
	mode, given, err := modeOf(form)
	if !given {
		mode = def
	}
	return mode &^ umask, err
}

// allows refuses flags that contradict a condition.
func (f openFlags) allows(want condition) error {
	switch {
	case want.none && f.Flags&rootfs.O_CREAT == 0:
		return fserr.Invalid("if_none_match \"*\" needs a flag that creates the file, such as w or a")
	case want.match != "" && f.Flags&rootfs.O_CREAT != 0 && f.Flags&rootfs.O_EXCL != 0:
		return fserr.Invalid("if_match needs a file that exists, and flag %q one that does not", f.text)
	}
	return nil
}

// encoding is one of Node's, by its first name; "" means bytes.
type encoding string

// encodingOf returns the encoding of a name, as Buffer.isEncoding does: case does not matter.
func encodingOf(name string) (encoding, error) {
	switch strings.ToLower(name) {
	case "", "buffer":
		return "", nil
	case "utf8", "utf-8":
		return "utf8", nil
	case "utf16le", "utf-16le", "ucs2", "ucs-2":
		return "utf16le", nil
	case "latin1", "binary":
		return "latin1", nil
	case "ascii":
		return "ascii", nil
	case "hex":
		return "hex", nil
	case "base64":
		return "base64", nil
	case "base64url":
		return "base64url", nil
	}
	return "", fserr.Invalid("unknown encoding %.40q", name)
}

// decode turns a file's bytes into text (Buffer.toString). lossy says that encode would not return the same bytes.
func (e encoding) decode(b []byte) (text string, lossy bool) {
	switch e {
	case "utf16le":
		return decodeUTF16(b)
	case "latin1", "ascii":
		return decodeLatin1(b, e == "ascii")
	case "hex":
		return hex.EncodeToString(b), false
	case "base64":
		return base64.StdEncoding.EncodeToString(b), false
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(b), false
	}
	if utf8.Valid(b) {
		return string(b), false
	}
	return replaceInvalid(b), true
}

// replaceInvalid replaces each invalid byte with U+FFFD.
func replaceInvalid(b []byte) string { return string([]rune(string(b))) }

func decodeUTF16(b []byte) (string, bool) {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	text := string(utf16.Decode(units))
	return text, string(encodeUTF16(text)) != string(b)
}

func encodeUTF16(text string) []byte {
	b := make([]byte, 0, 2*len(text))
	for _, u := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// decodeLatin1 maps bytes to U+0000..U+00FF; with strip, to 7 bits as Node's ascii does.
func decodeLatin1(b []byte, strip bool) (string, bool) {
	lossy := false
	runes := make([]rune, len(b))
	for i, c := range b {
		if strip && c >= utf8.RuneSelf {
			lossy = true
			c &= 0x7f
		}
		runes[i] = rune(c)
	}
	return string(runes), lossy
}

// encode turns text into a file's bytes (Buffer.from). As in Node nothing is refused: hex stops at the first pair that is not hex,
// base64 ignores characters that are not base64.
func (e encoding) encode(text string) []byte {
	switch e {
	case "utf16le":
		return encodeUTF16(text)
	case "latin1", "ascii":
		return encodeLatin1(text)
	case "hex":
		return encodeHex(text)
	case "base64", "base64url":
		return encodeBase64(text)
	}
	return []byte(text)
}

// encodeLatin1 keeps the low byte of each UTF-16 unit.
func encodeLatin1(text string) []byte {
	units := utf16.Encode([]rune(text))
	b := make([]byte, len(units))
	for i, u := range units {
		b[i] = byte(u)
	}
	return b
}

func encodeHex(text string) []byte {
	b := make([]byte, len(text)/2)
	n, _ := hex.Decode(b, []byte(text)[:len(b)*2]) // n is what was decoded before the error
	return b[:n]
}

func encodeBase64(text string) []byte {
	text, _, _ = strings.Cut(text, "=")
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '-':
			return '+'
		case r == '_':
			return '/'
		case r < utf8.RuneSelf && isBase64(byte(r)):
			return r
		}
		return -1
	}, text)
	if len(clean)%4 == 1 {
		clean = clean[:len(clean)-1]
	}
	b, _ := base64.RawStdEncoding.DecodeString(clean) // every character is valid
	return b
}

func isBase64(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}

// contentRequest carries bytes or text.
type contentRequest interface {
	GetData() []byte
	GetText() string
	GetEncoding() string
}

// contentOf returns the bytes that a request writes.
func contentOf(req contentRequest) ([]byte, error) {
	enc, err := encodingOf(req.GetEncoding())
	if err != nil {
		return nil, err
	}
	if text := req.GetText(); text != "" {
		return enc.encode(text), nil
	}
	return req.GetData(), nil
}

// memory returns the memory that reading n bytes takes, in bytes: decoded text is kept beside the bytes.
func (e encoding) memory(n int64) int64 {
	if e == "" {
		return n
	}
	return 3 * n
}

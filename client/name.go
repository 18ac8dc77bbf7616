package client

import (
	"path"
	"strings"
	"unicode/utf8"
)

// virtual is the path from the context's root that name means in f. It is not cleaned:
// "a/../b" is the server's to resolve, as POSIX does.
func (f *FS) virtual(name string) string {
	if name == "" {
		return ""
	}
	return f.root + "/" + strings.TrimLeft(name, "/")
}

// wire gives a name's path for a request, or, when it is not UTF-8, its raw twin.
func (f *FS) wire(name string) (string, []byte) { return twin(f.virtual(name)) }

func twin(s string) (string, []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// untwin is twin's inverse.
func untwin(s string, raw []byte) string {
	if len(raw) > 0 {
		return string(raw)
	}
	return s
}

// relative turns a virtual path into a name in f; a path outside f's root stays absolute.
func (f *FS) relative(virtual string) string {
	rest, ok := strings.CutPrefix(virtual, f.root)
	if !ok || rest != "" && rest[0] != '/' {
		return virtual
	}
	if rest = strings.TrimPrefix(rest, "/"); rest == "" {
		return "."
	}
	return rest
}

// valid is io/fs.ValidPath, but takes names that are not UTF-8, since such files exist.
func valid(name string) bool {
	if name == "." {
		return true
	}
	return name != "" && name[0] != '/' && path.Clean(name) == name && name != ".." && !strings.HasPrefix(name, "../")
}

package rootfs

import (
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

const done fserr.Code = 0

type errnoCase struct {
	name string
	call func(Root) error
	want []fserr.Code
}

func is(name string, call func(Root) error, want ...fserr.Code) errnoCase {
	return errnoCase{name, call, want}
}

// errnoTable runs each case that may succeed on a tree of its own.
func errnoTable(t *testing.T, open factory) {
	cases := append(append(append([]errnoCase{}, resolutionCases...), mutationCases...), openCases...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.code(c.call(w.Root), c.want...)
		})
	}
	// What is refused everywhere changes nothing: one tree will do for all.
	shared := newWorld(t, open)
	for _, c := range everywhereCases() {
		t.Run(c.name, func(t *testing.T) {
			w := *shared
			w.T = t
			w.code(c.call(w.Root), c.want...)
		})
	}
}

// everywhereCases are the rules that every call keeps.
func everywhereCases() (out []errnoCase) {
	for _, rule := range []struct {
		name, path string
		want       fserr.Code
	}{
		{"a NUL byte", "a\x00b", fserr.EINVAL},
		{"an empty path", "", fserr.ENOENT},
		{"a name over 255 bytes", strings.Repeat("n", 256), fserr.ENAMETOOLONG},
		{"a path over 4096 bytes", strings.Repeat("d/../", 820) + "f", fserr.ENAMETOOLONG},
		{"beyond the root", "../outside/secret", fserr.EACCES},
		{"beyond the root and back in", "../root/f", fserr.EACCES},
		{"beyond the root after a directory", "d/../../outside/x", fserr.EACCES},
		{"through an escaping link", "outdir/secret", fserr.EACCES},
		{"through an escaping link to nothing", "outdir/none", fserr.EACCES},
		{"through a file", "f/x", fserr.ENOTDIR},
		{"through a loop", "loop/x", fserr.ELOOP},
	} {
		for call, fn := range everyCall(rule.path) {
			out = append(out, is(call+" with "+rule.name, fn, rule.want))
		}
	}
	for _, link := range []string{"out", "outdir", "outdangling", "hop", "backin", "out/", "outdangling/"} {
		for call, fn := range resolvingCalls(link) {
			out = append(out, is(call+" of escaping link "+link, fn, escape(call, link)...))
		}
	}
	return out
}

// escape is what following link out of the tree gives. Creating something at a
// name with a final slash may be refused for that reason first.
func escape(call, link string) []fserr.Code {
	if strings.HasSuffix(link, "/") && strings.HasPrefix(call, "create") {
		return []fserr.Code{fserr.EACCES, fserr.EISDIR}
	}
	return []fserr.Code{fserr.EACCES}
}

var resolutionCases = []errnoCase{
	is("a missing component before ..", statting("nowhere/../f"), fserr.ENOENT),
	is("a file before ..", statting("f/../f"), fserr.ENOTDIR),
	is("a link through a missing component and ..", statting("missingup"), fserr.ENOENT),
	is("a directory before ..", statting("d/../f"), done),
	is(".. physically through a link", statting("d/sub/../g"), done),
	is("many slashes and dots", statting("//.//d/./../d//g"), done),
	is("no leading slash needed", statting("d/g"), done),
	is("the root", statting("/"), done),
	is("the root by a dot", statting("."), done),
	is("a name of 255 bytes is only missing", statting(strings.Repeat("n", 255)), fserr.ENOENT),
	is("a long path within the limit", statting(strings.Repeat("d/../", 800)+"f"), done),
	is("a relative link", reading("rel"), done),
	is("a relative link upwards within the tree", reading("d/up"), done),
	is("an absolute link means the root of the tree", reading("abs"), done),
	is("through an absolute link", reading("absdir/g"), done),
	is("an absolute link's .. stays within", reading("absdir/../f"), done),
	is("an absolute link to a host's file", reading("host"), fserr.ENOENT),
	is("a dangling link", reading("dangling"), fserr.ENOENT),
	is("a loop", reading("loop"), fserr.ELOOP),
	is("a slash after a file", statting("f/"), fserr.ENOTDIR),
	is("a slash after a link to a file", statting("rel/"), fserr.ENOTDIR),
	is("lstat with a slash after a link to a file", lstatting("rel/"), fserr.ENOTDIR),
	is("a link whose target has a slash after a file", statting("fslash"), fserr.ENOTDIR),
	is("a link whose target has a slash after a directory", statting("dslash"), done),
	is("a slash after an escaping link", lstatting("outdir/"), fserr.EACCES),
	is("readlink with a slash after a link to a directory", readlinking("dirlink/"), fserr.EINVAL),
	is("readlink of a file", readlinking("f"), fserr.EINVAL),
	is("readlink of the root", readlinking("/"), fserr.EINVAL),
	is("lstat of an escaping link", lstatting("out"), done),
	is("readlink of an escaping link", readlinking("outdangling"), done),
	is("access to what exists", accessing("f", 0), done),
	is("access to read and write", accessing("f", 6), done),
	is("access to search a directory", accessing("d", 1), done),
	is("access to what is missing", accessing("nowhere", 4), fserr.ENOENT),
	is("access with unknown bits", accessing("f", 8), fserr.EINVAL),
	is("access through a dangling link", accessing("dangling", 0), fserr.ENOENT),
	is("a reserved name looked up", statting(ReservedPrefix+"x"), fserr.ENOENT),
	is("a reserved name on the way", statting(ReservedPrefix+"x/y"), fserr.ENOENT),
	is("a link to a reserved name", statting("toreserved"), fserr.ENOENT),
	is("opendir of a file", listing("f"), fserr.ENOTDIR),
	is("opendir of a link to a file", listing("rel"), fserr.ENOTDIR),
	is("opendir of what is missing", listing("nowhere"), fserr.ENOENT),
	is("opendir through a link", listing("absdir"), done),
}

var mutationCases = []errnoCase{
	is("mkdir", making("new"), done),
	is("mkdir with a slash", making("new/"), done),
	is("mkdir without a parent", making("nowhere/new"), fserr.ENOENT),
	is("mkdir over a file", making("f"), fserr.EEXIST),
	is("mkdir over a directory", making("d/"), fserr.EEXIST),
	is("mkdir over a dangling link", making("dangling"), fserr.EEXIST),
	is("mkdir over an escaping link", making("outdangling"), fserr.EEXIST),
	is("mkdir of the root", making("/"), fserr.EEXIST),
	is("mkdir of a dot", making("d/."), fserr.EEXIST),
	is("mkdir of a reserved name", making(ReservedPrefix+"x"), fserr.EACCES),
	is("mkdirall of the root", makingAll("/"), done),
	is("mkdirall of a directory", makingAll("d/sub"), done),
	is("mkdirall of a link to a directory", makingAll("dirlink"), done),
	is("mkdirall over a file", makingAll("f"), fserr.EEXIST),
	is("mkdirall over a dangling link", makingAll("dangling"), fserr.ENOENT),
	is("mkdirall over a dangling link with a slash", makingAll("absdangling/"), fserr.ENOENT),
	is("mkdirall through a dangling link", makingAll("dangling/x/y"), fserr.ENOENT),
	is("mkdirall over a loop", makingAll("loop"), fserr.ELOOP),
	is("mkdirall over an escaping link", makingAll("outdangling"), fserr.EACCES),
	is("mkdirall through a file", makingAll("f/a/b"), fserr.ENOTDIR),
	is("mkdirall of a reserved name", makingAll("d/"+ReservedPrefix+"x"), fserr.EACCES),
	is("symlink over a file", symlinking("x", "f"), fserr.EEXIST),
	is("symlink over a dangling link", symlinking("x", "dangling"), fserr.EEXIST),
	is("symlink with a slash", symlinking("x", "new/"), fserr.ENOENT),
	is("symlink to nothing", symlinking("", "new"), fserr.ENOENT),
	is("symlink with a NUL byte", symlinking("a\x00b", "new"), fserr.EINVAL),
	is("symlink to too long a target", symlinking(strings.Repeat("x", 4097), "new"), fserr.ENAMETOOLONG),
	is("symlink of the root", symlinking("x", "/"), fserr.EEXIST),
	is("symlink of a reserved name", symlinking("x", ReservedPrefix+"x"), fserr.EACCES),
	is("link of a directory", linking("d", "new"), fserr.EPERM),
	is("link of the root", linking("/", "new"), fserr.EPERM),
	is("link over a file", linking("d/g", "f"), fserr.EEXIST),
	is("link of what is missing", linking("nowhere", "new"), fserr.ENOENT),
	is("link of a file with a slash", linking("f/", "new"), fserr.ENOTDIR),
	is("link to a name with a slash", linking("f", "new/"), fserr.ENOENT),
	is("link to a reserved name", linking("f", ReservedPrefix+"x"), fserr.EACCES),
	is("link of an escaping link itself", linking("out", "new"), done),
	is("rename of what is missing", renaming("nowhere", "new"), fserr.ENOENT),
	is("rename over a file", renaming("d/g", "f"), done),
	is("rename over itself", renaming("f", "f"), done),
	is("rename over an empty directory", renaming("d", "empty"), done),
	is("rename over a full directory", renaming("empty", "d"), fserr.ENOTEMPTY, fserr.EEXIST),
	is("rename of a file over a directory", renaming("f", "empty"), fserr.EISDIR),
	is("rename of a directory over a file", renaming("d", "f"), fserr.ENOTDIR),
	is("rename of a directory into itself", renaming("d", "d/sub/new"), fserr.EINVAL),
	is("rename of the root", renaming("/", "new"), fserr.EBUSY),
	is("rename of a dot", renaming("d/.", "new"), fserr.EBUSY, fserr.EINVAL),
	is("rename to the root", renaming("f", "/"), fserr.EBUSY),
	is("rename of a file with a slash", renaming("f/", "new"), fserr.ENOTDIR),
	is("rename of a file to a name with a slash", renaming("f", "new/"), fserr.ENOTDIR),
	is("rename of a directory to a name with a slash", renaming("d", "new/"), done),
	is("rename of an escaping link", renaming("out", "d/out"), done),
	is("rename to a reserved name", renaming("f", ReservedPrefix+"x"), fserr.EACCES),
	is("rename of a reserved name", renaming(ReservedPrefix+"x", "new"), fserr.ENOENT),
	is("unlink of a directory", unlinking("d"), fserr.EISDIR),
	is("unlink of an empty directory", unlinking("empty/"), fserr.EISDIR),
	is("unlink of the root", unlinking("/"), fserr.EISDIR, fserr.EBUSY),
	is("unlink of a file with a slash", unlinking("f/"), fserr.ENOTDIR),
	is("unlink of what is missing", unlinking("nowhere"), fserr.ENOENT),
	is("unlink of an escaping link", unlinking("out"), done),
	is("rmdir", rmdiring("empty"), done),
	is("rmdir with a slash", rmdiring("empty/"), done),
	is("rmdir of a full directory", rmdiring("d"), fserr.ENOTEMPTY),
	is("rmdir of a file", rmdiring("f"), fserr.ENOTDIR),
	is("rmdir of a link to a directory", rmdiring("dirlink"), fserr.ENOTDIR),
	is("rmdir of the root", rmdiring("/"), fserr.EBUSY),
	is("rmdir of a dot", rmdiring("empty/."), fserr.EINVAL),
	is("rmdir of dots", rmdiring("d/sub/.."), fserr.ENOTEMPTY),
	is("rmdir of what is missing", rmdiring("nowhere"), fserr.ENOENT),
}

var openCases = []errnoCase{
	is("open of a directory", reading("d"), done),
	is("open of the root", reading("/"), done),
	is("open with O_DIRECTORY", opening("dirlink", O_DIRECTORY), done),
	is("open of a file with O_DIRECTORY", opening("f", O_DIRECTORY), fserr.ENOTDIR),
	is("open of a directory to write", opening("d", O_RDWR), fserr.EISDIR),
	is("open of a directory to create", opening("d", O_RDONLY|O_CREAT), fserr.EISDIR),
	is("open of a file with a slash", reading("f/"), fserr.ENOTDIR),
	is("open of what is missing", reading("nowhere"), fserr.ENOENT),
	is("open of a link with O_NOFOLLOW", opening("rel", O_NOFOLLOW), fserr.ELOOP),
	is("open of an escaping link with O_NOFOLLOW", opening("out", O_NOFOLLOW), fserr.ELOOP),
	is("open of a file with O_NOFOLLOW", opening("rel/../f", O_NOFOLLOW), fserr.ENOTDIR),
	is("open through a link with O_NOFOLLOW", opening("dirlink/g", O_NOFOLLOW), done),
	is("create with O_NOFOLLOW at a link", opening("dangling", O_WRONLY|O_CREAT|O_NOFOLLOW), fserr.ELOOP),
	is("create with a slash", opening("new/", O_WRONLY|O_CREAT), fserr.EISDIR),
	is("create without a parent", opening("nowhere/new", O_WRONLY|O_CREAT), fserr.ENOENT),
	is("create exclusively over a file", opening("f", O_WRONLY|O_CREAT|O_EXCL), fserr.EEXIST),
	is("create exclusively over a directory", opening("d", O_WRONLY|O_CREAT|O_EXCL), fserr.EEXIST),
	is("create exclusively over a link", opening("rel", O_WRONLY|O_CREAT|O_EXCL), fserr.EEXIST),
	is("create exclusively over a dangling link", opening("dangling", O_WRONLY|O_CREAT|O_EXCL), fserr.EEXIST),
	is("create exclusively over an escaping link", opening("outdangling", O_WRONLY|O_CREAT|O_EXCL), fserr.EEXIST),
	is("create of a reserved name", opening(ReservedPrefix+"x", O_WRONLY|O_CREAT), fserr.EACCES),
	is("open with attributes", openStatting("rel", O_RDWR), done),
	is("open a directory with attributes", openStatting("d", O_RDONLY), done),
	is("open a missing name with attributes", openStatting("no", O_RDONLY), fserr.ENOENT),
	is("open an escaping link with attributes", openStatting("out", O_RDONLY), fserr.EACCES),
	is("open with attributes and create", openStatting("new", O_RDWR|O_CREAT), fserr.EINVAL),
	is("open with attributes and truncate", openStatting("f", O_RDWR|O_TRUNC), fserr.EINVAL),
	is("a NUL byte", openStatting("f\x00", O_RDONLY), fserr.EINVAL),
	is("an unknown flag", opening("f", 1<<30), fserr.EINVAL),
	is("truncate without writing", opening("f", O_RDONLY|O_TRUNC), fserr.EINVAL),
	is("create and truncate without writing", opening("new", O_RDONLY|O_CREAT|O_TRUNC), fserr.EINVAL),
	is("access mode 3", opening("f", O_ACCMODE), fserr.EINVAL),
	is("harmless flags", opening("f", O_CLOEXEC|O_NONBLOCK|O_NOCTTY|O_LARGEFILE), done),
	is("create atomically over a directory", replacing("d", false), fserr.EISDIR),
	is("create atomically at the root", replacing("/", false), fserr.EISDIR),
	is("create atomically without a parent", replacing("nowhere/new", false), fserr.ENOENT),
	is("create atomically, exclusively, over a file", replacing("f", true), fserr.EEXIST),
	is("create atomically, exclusively, over a dangling link", replacing("dangling", true), fserr.EEXIST),
	is("create atomically at a reserved name", replacing(ReservedPrefix+"x", false), fserr.EACCES),
}

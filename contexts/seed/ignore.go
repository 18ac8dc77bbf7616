package seed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/gitignore"
)

// IgnoreFile is the name of the file whose gitignore patterns leave things out,
// in the workspace itself and in any folder that is copied.
const IgnoreFile = ".contextignore"

// gitIgnoreFile is git's.
const gitIgnoreFile = ".gitignore"

// maxIgnoreFile bounds an ignore file, in bytes. A larger one is an error: its part would leave out less than the whole.
const maxIgnoreFile = 1 << 20

// alwaysExcluded are left out at any depth.
var alwaysExcluded = map[string]bool{
	".git": true, "node_modules": true, ".cache": true, ".databases": true, ".contexts": true,
}

// Ignores says which paths of a workspace its ignore files leave out. It is for one goroutine.
//
// An ignore file that cannot be read leaves out all that lies beside and below it, and Err returns the error: what the file would leave out
// may be a secret.
type Ignores struct {
	root    rootfs.Root
	exclude *gitignore.Patterns
	// seeding are the patterns of IgnoreFile, which apply to the whole workspace. git are those of git, nil if they do not count. The two do
	// not override one another.
	seeding, git *ignoring
	// excludes reads what git has beside its .gitignore files.
	excludes func(repo string) (git.Excludes, error)
	// repositories says of directories whether they are some, texts what the files in a directory say, by that and the name of the file.
	repositories map[string]bool
	texts        map[[2]string]string
	err          error
}

// ignoring is the patterns of the files of one name.
type ignoring struct {
	file string
	// levels has an entry for each directory that was entered; it is its parent's when it has no file of its own.
	levels map[string]*level
}

// level is the patterns of one directory and, by above, of those above it.
type level struct {
	above    *level
	patterns *gitignore.Patterns
	foldCase bool
	// unreadable says that the directory has patterns that could not be read.
	unreadable bool
}

// NewIgnores returns what leaves files out of contexts: exclude, whose patterns apply at any depth, and the files IgnoreFile.
func NewIgnores(root rootfs.Root, exclude []string) *Ignores {
	return &Ignores{
		root: root, exclude: gitignore.Parse([]byte(strings.Join(exclude, "\n")), "", false),
		seeding:      &ignoring{file: IgnoreFile, levels: map[string]*level{}},
		repositories: map[string]bool{}, texts: map[[2]string]string{},
	}
}

// NewGitIgnores adds what git ignores: by .gitignore files, and in each repository by info/exclude and core.excludesFile (see
// git.Excluder). Patterns do not apply in a repository below their own. Outside of repositories .gitignore files apply as in one.
func NewGitIgnores(ctx context.Context, src Source, exclude []string) *Ignores {
	g := NewIgnores(src.Root, exclude)
	g.git = &ignoring{file: gitIgnoreFile, levels: map[string]*level{}}
	g.excludes = func(repo string) (git.Excludes, error) { return src.Excluder.Read(ctx, src.path(repo), maxIgnoreFile) }
	return g
}

// Err returns the first error of reading an ignore file.
func (g *Ignores) Err() error { return g.err }

// Dirs returns the directories in which an Ignores has looked for ignore files and repositories so far. What it has answered depends on no others.
func (g *Ignores) Dirs() []string {
	dirs := slices.AppendSeq(slices.Collect(maps.Keys(g.seeding.levels)), maps.Keys(g.repositories))
	if g.git != nil {
		dirs = slices.AppendSeq(dirs, maps.Keys(g.git.levels))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Digest identifies what the ignore files and repositories in some directories say. It looks at those that were not looked at yet. An Ignores with
// the same exclude and the same Digest of Dirs gives the same answers. Ask Err afterwards.
func (g *Ignores) Digest(dirs []string) string {
	sum := sha256.New()
	for _, dir := range dirs {
		g.enter(g.seeding, dir)
		if g.git != nil {
			g.enter(g.git, dir)
		}
		fmt.Fprintf(sum, "%q %t", dir, g.isRepository(dir))
		for _, file := range []string{IgnoreFile, gitIgnoreFile, excludesFiles} {
			fmt.Fprintf(sum, " %q", g.texts[[2]string{dir, file}])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// excludesFiles stands for the files of git.Excludes.
const excludesFiles = "info/exclude"

// isRepository is the function of this name. It looks once.
func (g *Ignores) isRepository(dir string) bool {
	is, known := g.repositories[dir]
	if !known {
		is = isRepository(g.root, dir)
		g.repositories[dir] = is
	}
	return is
}

// ReasonAnywhere returns why p or a directory above it is left out, "" when none is. The workspace itself ("") is not left out.
func (g *Ignores) ReasonAnywhere(p string, isDir bool) string {
	if p == "" {
		return ""
	}
	byGit := ""
	for i := range p + "/" {
		if i < len(p) && p[i] != '/' {
			continue
		}
		at, isDir := p[:i], isDir || i < len(p)
		if reason := g.seedingReason(at, isDir); reason != "" {
			return reason
		}
		switch {
		case g.git == nil:
		case isDir && g.isRepository(at):
			byGit = ""
		case byGit == "": // git includes nothing below what it ignores
			byGit = g.reason(g.git, at, isDir)
		}
	}
	return byGit
}

// Reason returns why p is left out, "" when it is not. The directories above it are not left out.
func (g *Ignores) Reason(p string, isDir bool) string {
	reason := g.seedingReason(p, isDir)
	if reason == "" && g.git != nil {
		if reason = g.reason(g.git, p, isDir); reason != "" && isDir && g.isRepository(p) {
			return ""
		}
	}
	return reason
}

// seedingReason is Reason without git's patterns.
func (g *Ignores) seedingReason(p string, isDir bool) string {
	base := path.Base(p)
	switch {
	case alwaysExcluded[base]:
		return base
	case g.exclude.Match(p, isDir) == gitignore.Excluded:
		return "--seed-exclude"
	}
	return g.reason(g.seeding, p, isDir)
}

// reason asks the levels from that of p's directory up. The first that is not silent decides.
func (g *Ignores) reason(by *ignoring, p string, isDir bool) string {
	for l := g.enter(by, path.Dir(p)); l != nil; l = l.above {
		if l.unreadable {
			return by.file
		}
		switch l.patterns.Match(p, isDir) {
		case gitignore.Excluded:
			return by.file
		case gitignore.Included:
			return ""
		}
	}
	return ""
}

// enter returns the patterns that apply in dir, nil for none. It reads its ignore file the first time.
func (g *Ignores) enter(by *ignoring, dir string) *level {
	if l, ok := by.levels[dir]; ok {
		return l
	}
	var l *level
	var err error
	switch {
	case by == g.git && g.isRepository(dir):
		l, err = g.repository(dir)
	case dir != ".":
		l = g.enter(by, path.Dir(dir))
	}
	foldCase := l != nil && l.foldCase
	var text []byte
	if err == nil {
		text, err = g.read(dir, by.file)
	}
	if err != nil && g.err == nil {
		g.err = err
	}
	if len(text) > 0 {
		g.texts[[2]string{dir, by.file}] = string(text)
	}
	in := dir
	if dir == "." {
		in = ""
	}
	if own := gitignore.Parse(text, in, foldCase); !own.IsEmpty() || err != nil {
		l = &level{above: l, patterns: own, foldCase: foldCase, unreadable: err != nil}
	}
	by.levels[dir] = l
	return l
}

// repository returns what git ignores in a repository by other files than .gitignore.
func (g *Ignores) repository(dir string) (l *level, err error) {
	excludes, err := g.excludes(dir)
	if err != nil {
		return nil, fserr.Wrap(err, "read", "/"+dir, "")
	}
	if dir == "." {
		dir = ""
	}
	g.texts[[2]string{path.Join(".", dir), excludesFiles}] = fmt.Sprintf("%q %t", excludes.Texts, excludes.IgnoreCase)
	l = &level{patterns: gitignore.Parse(nil, "", false), foldCase: excludes.IgnoreCase}
	for _, text := range excludes.Texts {
		l = &level{above: l, patterns: gitignore.Parse(text, dir, excludes.IgnoreCase), foldCase: excludes.IgnoreCase}
	}
	return l, nil
}

// read returns the text of an ignore file, "" if there is none. A directory is none. Git follows no link in the place of a .gitignore, so
// neither does read; a link in the place of an IgnoreFile is an error. Nothing is read below a link.
func (g *Ignores) read(dir, file string) ([]byte, error) {
	name := path.Join(dir, file)
	f, st, err := g.root.OpenNoFollow(name, rootfs.O_RDONLY)
	code := fserr.CodeOf(err)
	switch {
	case code == fserr.ENOENT, code == fserr.ENOTDIR, code == fserr.ENAMETOOLONG, code == fserr.ELOOP && (file != IgnoreFile || !g.isReal(dir)):
		return nil, nil
	case code == fserr.ELOOP:
		return nil, unreadable(name, code, "it is a symbolic link", err)
	case err != nil:
		return nil, unreadable(name, code, code.Text(), err)
	}
	defer func() { _ = f.Close() }()
	if st.IsDir() {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile+1))
	switch {
	case err != nil:
		return nil, unreadable(name, fserr.CodeOf(err), fserr.CodeOf(err).Text(), err)
	case len(text) > maxIgnoreFile:
		return nil, unreadable(name, fserr.EFBIG, "it has more than "+Size(maxIgnoreFile), nil)
	}
	return text, nil
}

// isReal reports whether no link leads to a directory.
func (g *Ignores) isReal(dir string) bool {
	f, _, err := g.root.OpenNoFollow(dir, rootfs.O_RDONLY)
	return err == nil && f.Close() == nil
}

func unreadable(name string, code fserr.Code, why string, err error) error {
	return &fserr.Error{
		Op: "read", Path: "/" + name, Code: code, Err: err, Detail: fmt.Sprintf("'/%s' of the workspace says what is left out, and cannot be read: %s", name, why),
		Hint: "repair the file, or remove it",
	}
}

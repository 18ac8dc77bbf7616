package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/ctxfs/ctxfs/fserr"
)

// Draft is a commit in the making on one branch of a local repository. Git builds its objects with an empty scratch repository as
// GIT_DIR and an index of its own: it reads no configuration of the repository, runs no hook, filter or signing program, and sees
// neither the working tree nor what is staged. A Draft changes no ref; until a RefMove, its objects belong to nothing.
//
// It is for one goroutine. The caller closes it.
type Draft struct {
	// Ref is what the commit moves: a branch's full name, or HEAD if it is detached.
	Ref string
	// Old is the commit that Ref names; "" for none. Parent is Old or, for a new branch, the commit of HEAD; "" before the first one.
	Old, Parent string

	repo    *Local
	scratch *scratch
	objects *Objects
	// settings is the repository's configuration without includes.
	settings map[string]string
	// users is the configuration of the user, once setting has read it.
	users map[string]string
	// head is the content of HEAD; "" if the commit is for another branch.
	head string
	// root is the parent's tree; "" before the first commit. trees remembers directories by their path.
	root  string
	trees map[string][]TreeEntry
	index stagedIndex
	// apart says that the objects go to the scratch, which borrows those of the repository.
	apart bool
}

// Draft begins a commit on a branch, which need not exist; "" is what HEAD names, for a commit that the index and the working tree follow.
// A repository that another operation uses fails with EBUSY, one without working tree and a branch that is checked out with EINVAL.
func (l *Local) Draft(ctx context.Context, branch string) (_ *Draft, err error) {
	d, err := l.draft(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if branch == "" {
		err = d.onHead()
	} else {
		err = d.onBranch(branch)
	}
	if err != nil {
		return nil, err
	}
	if d.objects, err = l.batch(ctx, l.reader.opts.Scratch, d.zero()); err != nil {
		return nil, l.broken(err)
	}
	return d, d.readParent()
}

// draft returns a draft with its scratch and the repository's settings.
func (l *Local) draft(ctx context.Context) (_ *Draft, err error) {
	d := &Draft{repo: l, trees: map[string][]TreeEntry{}}
	if d.scratch, err = newScratch(l.reader.opts.Scratch, false); err != nil {
		return nil, err
	}
	if d.settings, err = d.list(ctx, d.scratch.local(""), "--file", filepath.Join(l.commonDir(), "config")); err != nil {
		return nil, errors.Join(l.broken(err), d.Close())
	}
	if !d.isWide() {
		return d, nil
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	d.scratch, err = newScratch(l.reader.opts.Scratch, true)
	return d, err
}

func (d *Draft) readParent() (err error) {
	if d.Parent != "" {
		if d.root, err = d.objects.TreeOf(d.Parent); err != nil {
			return d.repo.broken(err)
		}
	}
	return nil
}

// Close removes what the draft has in the scratch folder, and the lock of the index if the draft still has it.
func (d *Draft) Close() error {
	err := d.Unlock()
	if d.objects != nil {
		err = errors.Join(err, d.objects.Close())
	}
	if d.scratch != nil {
		err = errors.Join(err, d.scratch.remove())
	}
	return err
}

func (l *Local) gitDirPath() string { return filepath.Join(l.tree.Dir(), filepath.FromSlash(l.git)) }
func (l *Local) commonDir() string  { return filepath.Join(l.tree.Dir(), filepath.FromSlash(l.common)) }

func (d *Draft) isWide() bool { return d.settings["extensions.objectformat"] == "sha256" }

// zero is the ID that stands for no object.
func (d *Draft) zero() string {
	if d.isWide() {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// list reads a configuration file without the files that it includes.
func (d *Draft) list(ctx context.Context, r runner, which ...string) (map[string]string, error) {
	out, err := r.run(ctx, d.repo.reader.opts.Timeout, slices.Concat([]string{"config"}, which, []string{"--no-includes", "-z", "--list"})...)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for line := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(line, "\n")
		settings[key] = value
	}
	return settings, nil
}

// inProgress maps files of the git directory to the operation that they belong to.
var inProgress = map[string]string{
	"MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "rebase-merge": "a rebase", "rebase-apply": "a rebase",
	"sequencer": "a cherry-pick or revert", "BISECT_LOG": "a bisect",
}

func (d *Draft) onHead() (err error) {
	l := d.repo
	if d.head, err = l.ref("HEAD"); err != nil {
		return l.broken(err)
	}
	if l.git == l.common && d.settings["core.bare"] == "true" {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("repository %q is bare: it has no working tree", l.shown), Hint: "commit to a branch instead (--branch)"}
	}
	for _, name := range slices.Sorted(maps.Keys(inProgress)) {
		if exists(filepath.Join(l.gitDirPath(), name)) {
			return d.busy(inProgress[name]+" is in progress", "finish or abort it, or commit to a branch (--branch)")
		}
	}
	for _, name := range []string{"index.lock", "HEAD.lock"} {
		if exists(filepath.Join(l.gitDirPath(), name)) {
			return d.busy("another git command has its "+name, "wait for it; if none runs, remove the file")
		}
	}
	d.Ref = "HEAD"
	if target, ok := strings.CutPrefix(d.head, "ref: "); ok {
		d.Ref = strings.TrimSpace(target)
	}
	if !utf8.ValidString(d.Ref) {
		return l.broken(otherRef(d.Ref))
	}
	return d.at()
}

func (d *Draft) onBranch(branch string) error {
	l := d.repo
	if err := CheckBranch(branch); err != nil {
		return err
	}
	d.Ref = "refs/heads/" + branch
	dirs, err := l.gitDirs()
	if err != nil {
		return l.broken(err)
	}
	for _, dir := range dirs {
		if dir == l.commonDir() && d.settings["core.bare"] == "true" {
			continue
		}
		for name, prefix := range map[string]string{"HEAD": "ref: ", "rebase-merge/head-name": "", "rebase-apply/head-name": ""} {
			if data, err := readPlain(filepath.Join(dir, name), maxLine); err == nil && strings.TrimSpace(string(data)) == prefix+d.Ref {
				return &fserr.Error{
					Code: fserr.EINVAL, Detail: fmt.Sprintf("branch %q of repository %q is checked out", branch, l.shown),
					Hint: "name another branch, or commit to what is checked out (--commit)",
				}
			}
		}
	}
	return d.at()
}

// CheckBranch refuses what git refuses as the name of a branch, and names that mean something else too.
func CheckBranch(branch string) error {
	if err := errors.Join(CheckRef(branch), CheckRef("refs/heads/"+branch)); err != nil || branch == "HEAD" || strings.HasPrefix(branch, "refs/") || isObjectID(branch) {
		return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("%.300q cannot be the name of a branch", branch), Hint: "see 'git help check-ref-format'"}
	}
	return nil
}

// gitDirs lists the git directories of the repository: its own and those of its linked worktrees.
func (l *Local) gitDirs() ([]string, error) {
	dirs := []string{l.commonDir()}
	linked, err := os.ReadDir(filepath.Join(l.commonDir(), "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range linked {
		dirs = append(dirs, filepath.Join(l.commonDir(), "worktrees", e.Name()))
	}
	return dirs, err
}

// at resolves the ref, and refuses one that another process is moving.
func (d *Draft) at() (err error) {
	if err := d.resolve(); err != nil {
		return err
	}
	if d.repo.isLocked(d.Ref) {
		return d.busy("another git command moves "+d.Ref, "wait for it; if none runs, remove the file "+d.Ref+".lock")
	}
	return nil
}

// resolve sets Old and Parent.
func (d *Draft) resolve() (err error) {
	if d.Old, err = d.repo.follow(d.Ref); err != nil {
		return d.repo.broken(err)
	}
	if d.Parent = d.Old; d.Old == "" {
		if d.Parent, err = d.repo.follow("HEAD"); err != nil {
			return d.repo.broken(err)
		}
	}
	return nil
}

func (l *Local) isLocked(ref string) bool {
	dir := l.commonDir()
	if ref == "HEAD" {
		dir = l.gitDirPath()
	}
	return exists(filepath.Join(dir, filepath.FromSlash(ref)+".lock"))
}

func (d *Draft) busy(why, hint string) error {
	return &fserr.Error{Code: fserr.EBUSY, Detail: fmt.Sprintf("repository %q: %s", d.repo.shown, why), Hint: hint}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Entry returns what the parent has at a path: a zero Mode for nothing. If something that is no directory is where the path needs one,
// Entry returns that, and at is its path.
func (d *Draft) Entry(p string) (at string, e TreeEntry, err error) {
	return entryAt(p, d.root, d.tree)
}

// entryAt is Entry for the tree root, with a function that reads a directory.
func entryAt(p, root string, read func(dir, id string) ([]TreeEntry, error)) (at string, e TreeEntry, err error) {
	dir, id := "", root
	for id != "" {
		name, rest, more := strings.Cut(strings.TrimPrefix(p[len(dir):], "/"), "/")
		entries, err := read(dir, id)
		if err != nil {
			return "", TreeEntry{}, err
		}
		i := slices.IndexFunc(entries, func(e TreeEntry) bool { return e.Name == name })
		if i < 0 {
			return p, TreeEntry{}, nil
		}
		at, e = path.Join(dir, name), entries[i]
		if !more || rest == "" || e.Mode != ModeTree {
			return at, e, nil
		}
		dir, id = at, e.ID
	}
	return p, TreeEntry{}, nil
}

func (d *Draft) tree(dir, id string) ([]TreeEntry, error) {
	if entries, ok := d.trees[dir]; ok {
		return entries, nil
	}
	entries, err := d.objects.Tree(id, dir)
	if err != nil {
		return nil, d.repo.broken(err)
	}
	d.trees[dir] = entries
	return entries, nil
}

// Below calls f with the path of each entry below a directory of the parent that is no directory itself.
func (d *Draft) Below(dir, id string, f func(p string)) error {
	entries, err := d.tree(dir, id)
	for _, e := range entries {
		p := path.Join(dir, e.Name)
		if e.Mode != ModeTree {
			f(p)
		} else if err = d.Below(p, e.ID, f); err != nil {
			return err
		}
	}
	return err
}

// Blob opens the content of a file of the parent or the index. Read it before the next call.
func (d *Draft) Blob(id string) (io.Reader, error) {
	content, err := d.objects.Open(id)
	if err != nil {
		return nil, d.repo.broken(err)
	}
	return content, nil
}

// Modes of tree entries.
const (
	ModeFile       = 0o100644
	ModeExecutable = 0o100755
	ModeLink       = 0o120000
	ModeTree       = 0o40000
	// ModeRepository is of a submodule.
	ModeRepository = 0o160000
)

// File is a path of a tree or an index.
type File struct {
	Path string
	// Mode is ModeFile, ModeExecutable or ModeLink; 0 removes the path.
	Mode uint32
	// ID is the content's; "" with Mode 0.
	ID string
}

// Write stores the contents of files in the repository, byte for byte, and returns their IDs.
func (d *Draft) Write(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	for _, name := range names {
		if strings.ContainsAny(name, "\n\r") || !filepath.IsAbs(name) {
			return nil, fmt.Errorf("git cannot be given the name %q", name)
		}
	}
	ids := make([]string, len(names))
	step := max(fewContents, (len(names)+writers-1)/writers)
	g, ctx := errgroup.WithContext(ctx)
	for at := 0; at < len(names); at += step {
		end := min(at+step, len(names))
		g.Go(func() error { return d.write(ctx, names[at:end], ids[at:end]) })
	}
	return ids, d.failed(g.Wait())
}

const (
	// writers bounds the commands that store contents at a time. Each flushes one content after the other.
	writers = 16
	// fewContents are stored by one command.
	fewContents = 8
)

func (d *Draft) write(ctx context.Context, names, ids []string) error {
	out, err := d.build().feed(ctx, d.repo.reader.opts.FetchTimeout, strings.NewReader(strings.Join(names, "\n")+"\n"), "hash-object", "-w", "--no-filters", "--stdin-paths")
	got := strings.Fields(string(out))
	if err == nil && len(got) != len(ids) {
		err = fmt.Errorf("git hash-object returned %d of %d IDs", len(got), len(ids))
	}
	copy(ids, got)
	return err
}

// build runs git with the draft's own index, on the repository's objects.
func (d *Draft) build() runner {
	objects := d.repo.objectsDir()
	if d.apart {
		objects = ""
	}
	r := d.scratch.local(objects)
	r.config = append(slices.Clip(r.config), protect...)
	if shared, ok := d.settings["core.sharedrepository"]; ok && !d.apart {
		r.config = append(r.config, "core.sharedRepository="+shared) // others of the group write to the repository too
	}
	r.env = append(r.env, "GIT_INDEX_FILE="+filepath.Join(d.scratch.dir, "index"))
	return r
}

// protect is for commands that write to a repository. It refuses names that some file system takes for .git, and flushes objects and refs before they
// have their names: git would take what a power failure left empty for an object that it need not write.
var protect = []string{"core.protectHFS=true", "core.protectNTFS=true", "core.fsync=committed,reference"}

func (d *Draft) failed(err error) error {
	if err == nil {
		return nil
	}
	if Obstacle(err) != nil {
		return d.repo.broken(err)
	}
	return &fserr.Error{Code: fserr.CodeOf(err), Detail: fmt.Sprintf("git failed in repository %q", d.repo.shown), Hint: "try git fsck in it", Err: err}
}

// Tree stores the parent's tree with these changes, and returns its ID. It fails if anything else would change.
func (d *Draft) Tree(ctx context.Context, files []File) (string, error) {
	r, timeout := d.build(), d.repo.reader.opts.Timeout
	from := "--empty"
	if d.Parent != "" {
		from = d.Parent
	}
	if _, err := r.run(ctx, timeout, "read-tree", from); err != nil {
		return "", d.failed(err)
	}
	if _, err := r.feed(ctx, timeout, indexInfo(files, d.zero()), "update-index", "-z", "--index-info"); err != nil {
		return "", d.failed(err)
	}
	out, err := r.run(ctx, timeout, "write-tree", "--missing-ok") // a partial clone has not all of its files
	if err != nil {
		return "", d.failed(err)
	}
	tree := strings.TrimSpace(string(out))
	compare := []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", tree}
	if d.root != "" {
		compare = []string{"diff-tree", "-r", "-z", "--no-renames", "--name-only", d.root, tree}
	}
	if out, err = r.run(ctx, timeout, compare...); err != nil {
		return "", d.failed(err)
	}
	var want []string
	for _, f := range files {
		want = append(want, f.Path)
	}
	slices.Sort(want)
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if slices.Sort(got); !slices.Equal(got, want) {
		return "", d.failed(fmt.Errorf("the tree differs in %d paths, not in %d", len(got), len(want)))
	}
	return tree, nil
}

// indexInfo is the input of update-index --index-info: removals first, since they make room.
func indexInfo(files []File, zero string) io.Reader {
	var b bytes.Buffer
	for _, f := range files {
		if f.Mode == 0 {
			fmt.Fprintf(&b, "0 %s\t%s\x00", zero, f.Path)
		}
	}
	for _, f := range files {
		if f.Mode != 0 {
			fmt.Fprintf(&b, "%o %s\t%s\x00", f.Mode, f.ID, f.Path)
		}
	}
	return &b
}

// Identity is an author or a committer.
type Identity struct{ Name, Email string }

// String returns "Name <email>".
func (i Identity) String() string { return i.Name + " <" + i.Email + ">" }

// Check refuses what git would drop or misread.
func (i Identity) Check() error {
	for _, s := range []string{i.Name, i.Email} {
		if strings.Trim(s, " .,:;<>\"\\'") == "" || strings.ContainsAny(s, "<>\n\x00") {
			return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("%.300q is no identity", i.String()), Hint: "write 'Name <email>'"}
		}
	}
	return nil
}

// Identity returns user.name and user.email: the repository's or, if this process's user owns the repository, that user's own. Files that
// the configuration includes do not count. ok is false if one is missing.
func (d *Draft) Identity(ctx context.Context) (id Identity, ok bool) {
	id = Identity{d.setting(ctx, "user.name"), d.setting(ctx, "user.email")}
	return id, id.Check() == nil
}

// setting returns a setting of the repository or, if this process's user owns the repository, of that user; "" for none. key is in lower case.
func (d *Draft) setting(ctx context.Context, key string) string {
	if value := d.settings[key]; value != "" {
		return value
	}
	if d.users == nil {
		d.users = map[string]string{}
		if isOurs(d.repo.commonDir()) {
			r := runner{d.scratch.dir, noPrograms, environ(nil, "GIT_DIR="+d.scratch.dir, "GIT_CONFIG_NOSYSTEM=1")}
			if own, err := d.list(ctx, r, "--global"); err == nil { // git fails if the user has no configuration
				d.users = own
			}
		}
	}
	return d.users[key]
}

// Message of a commit.
type Message struct {
	Text string
	// Trailers are lines "Key: value" that are appended.
	Trailers          []string
	Author, Committer Identity
	At                time.Time
}

var trailer = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*: [^\x00-\x1f\x7f]+$`)

// CheckTrailer refuses what is not one line "Key: value".
func CheckTrailer(line string) error {
	if trailer.MatchString(line) {
		return nil
	}
	return &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("%.300q is no trailer", line), Hint: "write 'Key: value' in one line"}
}

// trailerKey matches what git takes for a trailer: with white space before the colon too.
var trailerKey = regexp.MustCompile(`^([A-Za-z0-9-]+)[ \t]*:`)

// TrailerKey returns the key of a line of a message if git may take the line for a trailer, and else "". Git compares keys without case.
func TrailerKey(line string) string {
	if m := trailerKey.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// Full returns the text with the trailers after it, and changes nothing else of it but white space at its ends. Trailers that the text has already are not
// repeated.
func (m Message) Full() []byte {
	text := strings.TrimRight(strings.TrimLeft(m.Text, "\r\n"), " \t\r\n")
	block := trailerBlock(text)
	var out strings.Builder
	out.WriteString(text + "\n")
	for _, line := range m.Trailers {
		if slices.Contains(block, line) {
			continue
		}
		if block == nil {
			out.WriteByte('\n')
		}
		block = append(block, line)
		out.WriteString(line + "\n")
	}
	return []byte(out.String())
}

// trailerLine is a line of a trailer, with the value apart: git interpret-trailers takes https://x for one too, and writes a space into it.
var trailerLine = regexp.MustCompile(`^[A-Za-z0-9-]+[ \t]*:[ \t]`)

// trailerBlock returns the lines of the last paragraph, if further trailers belong into it, and else nil: all lines are trailers, or a quarter is, one of
// which git itself has written (git-interpret-trailers(1)).
func trailerBlock(text string) []string {
	paragraphs := blankLines.Split(text, -1)
	if len(paragraphs) < 2 {
		return nil
	}
	var block []string
	var trailers, others int
	known := false
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		line = strings.TrimRight(line, "\r\n")
		block = append(block, line)
		switch {
		case strings.HasPrefix(line, "Signed-off-by: "), strings.HasPrefix(line, "(cherry picked from commit "):
			known = true
			trailers++
		case trailerLine.MatchString(line):
			trailers++
		case len(block) > 1 && strings.HasPrefix(line, " "), len(block) > 1 && strings.HasPrefix(line, "\t"): // it continues the line before
		default:
			others++
		}
	}
	if (known && 3*trailers >= others) || (trailers > 0 && others == 0) {
		return block
	}
	return nil
}

var blankLines = regexp.MustCompile(`\r?\n(?:[ \t]*\r?\n)+`)

// Commit stores a commit of a tree that follows the parent, with a text that Full or hooks have made, and returns its ID. No ref names it.
func (d *Draft) Commit(ctx context.Context, tree string, text []byte, m Message) (string, error) {
	var parents []string
	if d.Parent != "" {
		parents = []string{d.Parent}
	}
	id, err := commitTree(ctx, d.build(), d.repo.reader.opts.Timeout, tree, parents, text, m)
	return id, d.failed(err)
}

// commitTree stores a commit, and returns its ID.
func commitTree(ctx context.Context, r runner, timeout time.Duration, tree string, parents []string, text []byte, m Message) (string, error) {
	at := fmt.Sprintf("@%d %s", m.At.Unix(), m.At.Format("-0700"))
	r.env = append(slices.Clip(r.env), "GIT_AUTHOR_NAME="+m.Author.Name, "GIT_AUTHOR_EMAIL="+m.Author.Email, "GIT_AUTHOR_DATE="+at,
		"GIT_COMMITTER_NAME="+m.Committer.Name, "GIT_COMMITTER_EMAIL="+m.Committer.Email, "GIT_COMMITTER_DATE="+at)
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	out, err := r.feed(ctx, timeout, bytes.NewReader(text), args...)
	return strings.TrimSpace(string(out)), err
}

package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// maxAttributes bounds a repository's file info/attributes, in bytes.
const maxAttributes = 1 << 20

// Attributes takes over what the repository says of attributes outside of its tree: the file info/attributes, which names programs, but only the
// configuration says what they are. It reports whether there is something, or whether the user's configuration converts line ends without attributes.
func (d *Draft) Attributes(ctx context.Context) (converts bool, err error) {
	converts = d.autocrlf(ctx) != "false"
	f, err := d.repo.tree.Open(path.Join(d.repo.common, "info", "attributes"))
	if fserr.CodeOf(err) == fserr.ENOENT {
		return converts, nil
	}
	if err != nil {
		return false, d.repo.broken(err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxAttributes))
	err = errors.Join(err, f.Close(), os.MkdirAll(filepath.Join(d.scratch.dir, "info"), 0o700))
	return true, errors.Join(err, os.WriteFile(filepath.Join(d.scratch.dir, "info", "attributes"), data, 0o600))
}

// autocrlf returns core.autocrlf of the repository or its user: "true", "input" or "false".
func (d *Draft) autocrlf(ctx context.Context) string {
	switch value := strings.ToLower(d.setting(ctx, "core.autocrlf")); value {
	case "true", "yes", "on", "1":
		return "true"
	case "input":
		return value
	}
	return "false"
}

// within runs git on a working tree of our own, with its .gitattributes files and no configuration that names a filter.
func (d *Draft) within(ctx context.Context, work string) runner {
	r := d.build()
	r.dir = work
	r.config = append(r.config, "core.bare=false", "core.autocrlf="+d.autocrlf(ctx), "core.safecrlf=false", "core.fileMode=false", "core.ignoreCase=false",
		"core.precomposeUnicode=false", "core.bigFileThreshold=2g")
	r.env = append(r.env, "GIT_WORK_TREE="+work, "GIT_INDEX_FILE="+filepath.Join(d.scratch.dir, "clean-index"), "GIT_LITERAL_PATHSPECS=1")
	return r
}

// Filters returns those of the paths for which the attributes of a working tree of our own name a filter, with its name.
func (d *Draft) Filters(ctx context.Context, work string, paths []string) (map[string]string, error) {
	out, err := d.within(ctx, work).feed(ctx, d.repo.reader.opts.Timeout, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return nil, d.failed(err)
	}
	filters, err := parseFilters(out, len(paths))
	return filters, d.failed(err)
}

// Filtered returns those of the paths for which git add would run a filter, with its name: by the working tree, by what its index has beside that, by the
// configuration of the repository, its user and the system, and by another branch that is committed to. No filter runs.
func (d *Draft) Filtered(ctx context.Context, paths []string) (map[string]string, error) {
	dir := filepath.Join(d.repo.tree.Dir(), filepath.FromSlash(d.repo.path))
	there := worktree(dir, literalPaths)
	there.config = append([]string{"safe.directory=" + dir}, there.config...)
	timeout := d.repo.reader.opts.Timeout
	ask := func(r runner, cached ...string) (map[string]string, error) {
		args := slices.Concat([]string{"check-attr"}, cached, []string{"-z", "--stdin", "filter"})
		out, err := r.feed(ctx, timeout, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), args...)
		if err != nil {
			return nil, d.failed(err)
		}
		filters, err := parseFilters(out, len(paths))
		return filters, d.failed(err)
	}
	filters, err := ask(there)
	if err != nil || d.Parent == "" {
		return filters, err
	}
	if head, err := d.repo.follow("HEAD"); err != nil || head == d.Parent {
		return filters, d.failed(err)
	}
	branch := d.build()
	branch.env = append(branch.env, "GIT_INDEX_FILE="+filepath.Join(d.scratch.dir, "attributes-index"))
	if _, err := branch.run(ctx, timeout, "read-tree", d.Parent); err != nil {
		return nil, d.failed(err)
	}
	more, err := ask(branch, "--cached")
	maps.Copy(filters, more)
	return filters, err
}

// Clean stores files of a working tree of our own as git add does on top of the parent: line ends, encodings and keywords are converted as
// the attributes say. It runs no filter. It returns the IDs of the contents that the conversion changed.
func (d *Draft) Clean(ctx context.Context, work string, paths []string) (map[string]string, error) {
	r, timeout := d.within(ctx, work), d.repo.reader.opts.FetchTimeout
	var known []File // git keeps the line ends of a text that has CRLF in the index
	for _, p := range paths {
		at, e, err := d.Entry(p)
		if err != nil {
			return nil, err
		}
		if at == p && (e.Mode == ModeFile || e.Mode == ModeExecutable) {
			known = append(known, File{p, e.Mode, e.ID})
		}
	}
	if err := os.RemoveAll(filepath.Join(d.scratch.dir, "clean-index")); err != nil {
		return nil, err
	}
	if _, err := r.feed(ctx, timeout, indexInfo(known, d.zero()), "update-index", "-z", "--index-info"); err != nil {
		return nil, d.failed(err)
	}
	names := strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	if _, err := r.feed(ctx, timeout, names, "update-index", "-z", "--add", "--replace", "--stdin"); err != nil {
		return nil, &fserr.Error{
			Code: fserr.EINVAL, Detail: fmt.Sprintf("a file cannot be converted as the attributes of repository %q say", d.repo.shown),
			Hint: "does it have the encoding that .gitattributes names?", Err: err,
		}
	}
	out, err := r.run(ctx, timeout, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, d.failed(err)
	}
	return d.converted(ctx, r, out, paths)
}

// converted compares the output of git ls-files with the IDs of the same files byte for byte.
func (d *Draft) converted(ctx context.Context, r runner, out []byte, paths []string) (map[string]string, error) {
	var quoted strings.Builder
	for _, p := range paths {
		quoted.WriteString(quotePath(p) + "\n")
	}
	raw, err := r.feed(ctx, d.repo.reader.opts.FetchTimeout, strings.NewReader(quoted.String()), "hash-object", "--no-filters", "--stdin-paths")
	if err != nil {
		return nil, d.failed(err)
	}
	ids := strings.Fields(string(raw))
	if len(ids) != len(paths) {
		return nil, d.failed(fmt.Errorf("git hash-object returned %d of %d IDs", len(ids), len(paths)))
	}
	same := map[string]string{}
	for i, p := range paths {
		same[p] = ids[i]
	}
	changed := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		what, p, _ := strings.Cut(line, "\t")
		if f := strings.Fields(what); len(f) == 3 && same[p] != "" && f[1] != same[p] {
			changed[p] = f[1]
		}
	}
	return changed, nil
}

// quotePath quotes a path as git reads it from a list of lines: in C's manner, with octal escapes.
func quotePath(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

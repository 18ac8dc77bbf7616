package batch

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/linediff"
)

const (
	// maxDiff bounds a diff, in bytes.
	maxDiff = 1 << 20
	// maxDiffed is the size of the largest file whose lines are compared.
	maxDiffed = 4 << 20
	// around is how many lines of context a diff has.
	around = 3
	// maxDiffFiles bounds the files below directories that are removed or moved.
	maxDiffFiles = 10_000
)

// version is a file or link before or after the batch.
type version struct {
	st     rootfs.Stat
	target string
	read   func() ([]byte, error)
	// from is where it was before the batch; "" if a step made it. same says that its content is what it was.
	from string
	same bool
}

// compared returns how many bytes of the version a comparison reads.
func (v version) compared(there bool) int64 {
	if !there || v.st.Size > maxDiffed {
		return 0
	}
	return v.st.Size
}

// differ writes a unified diff of a plan.
type differ struct {
	*plan
	before, after map[string]version
	files         int
	out           bytes.Buffer
	reserve       func(bytes int64) error
}

// diffMemory is about how much memory the comparison of two contents takes for each of their bytes: the contents, their lines and the diff.
const diffMemory = 4

// Diff describes what the batch changes as a unified diff in git's form; cut says that it would be longer than it is. reserve is called with
// the memory that the diff takes, in bytes, before that grows. Its error ends the diff.
func (b *Batch) Diff(ctx context.Context, reserve func(bytes int64) error) (text []byte, cut bool, err error) {
	d := &differ{plan: b.plan, reserve: reserve, before: map[string]version{}, after: map[string]version{}}
	for _, from := range b.plan.gone {
		if err := d.addBefore(ctx, from); err != nil {
			return nil, false, err
		}
	}
	if err := d.addAfter(ctx, b.plan.top); err != nil {
		return nil, false, err
	}
	return d.write()
}

// addBefore adds what was at a path before the batch, and below it.
func (d *differ) addBefore(ctx context.Context, from string) error {
	return d.each(ctx, from, func(at string, v version) { d.before[at] = v })
}

// each calls add for the files and links at a path before the batch and below it.
func (d *differ) each(ctx context.Context, from string, add func(at string, v version)) error {
	st, err := d.root.Lstat(from)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		v, err := d.version(from, st)
		add(from, v)
		return err
	}
	return d.root.Walk(ctx, from, tree.WalkOptions{Stats: true}, func(rel string, e rootfs.Entry, walkErr error) error {
		if walkErr != nil || e.Stat == nil || e.Stat.IsDir() {
			return walkErr
		}
		if d.files++; d.files > maxDiffFiles {
			return &fserr.Error{Code: fserr.EFBIG, Detail: fmt.Sprintf("the diff has more than %d files", maxDiffFiles), Hint: "run the batch without a diff"}
		}
		at := path.Join(from, rel)
		v, err := d.version(at, *e.Stat)
		add(at, v)
		return err
	})
}

// version returns what is at a path before the batch.
func (d *differ) version(from string, st rootfs.Stat) (v version, err error) {
	v = version{st: st, from: from, same: true, read: func() ([]byte, error) { return readFile(d.root, from, maxDiffed) }}
	if st.Type() == rootfs.TypeSymlink {
		v.target, err = d.root.Readlink(from)
	}
	return v, err
}

// addAfter adds what the steps changed in a directory and below it.
func (d *differ) addAfter(ctx context.Context, dir *entry) error {
	for _, e := range dir.children {
		if e == nil {
			continue
		}
		at := e.path()
		switch moved := e.from != at; {
		case !e.isDir():
			if moved || e.content != nil || e.modeChanged {
				if err := d.addEntry(e, at); err != nil {
					return err
				}
			}
		case moved && e.from != "":
			if err := d.addMoved(ctx, e, at); err != nil {
				return err
			}
			fallthrough
		default:
			if err := d.addAfter(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEntry adds a file or link that a step made or changed, and what was at its place.
func (d *differ) addEntry(e *entry, at string) (err error) {
	if _, known := d.before[at]; !known && e.from == at {
		st, err := d.root.Lstat(at)
		if err != nil {
			return err
		}
		if d.before[at], err = d.version(at, st); err != nil {
			return err
		}
	}
	d.after[at] = version{st: e.st, target: e.target, from: e.from, same: e.content == nil, read: func() ([]byte, error) { return d.plan.read(e, maxDiffed) }}
	return nil
}

// addMoved adds what is below a directory that was moved and was not looked at.
func (d *differ) addMoved(ctx context.Context, e *entry, at string) error {
	return d.each(ctx, e.from, func(old string, v version) {
		if d.untouched(e, strings.Split(strings.TrimPrefix(old, e.from+"/"), "/")) {
			d.after[path.Join(at, strings.TrimPrefix(old, e.from))] = v
		}
	})
}

// untouched reports whether no step looked at names below a directory.
func (d *differ) untouched(dir *entry, names []string) bool {
	for _, name := range names {
		child, known := dir.children[name]
		if !known {
			return true
		}
		if child == nil {
			return false
		}
		dir = child
	}
	return false
}

func (d *differ) write() ([]byte, bool, error) {
	paths := map[string]bool{}
	for at := range d.before {
		paths[at] = true
	}
	renamed := map[string]bool{}
	for at, v := range d.after {
		paths[at] = true
		if _, there := d.before[at]; !there && v.from != "" {
			renamed[v.from] = true
		}
	}
	names := make([]string, 0, len(paths))
	for at := range paths {
		names = append(names, at)
	}
	slices.Sort(names)
	for _, at := range names {
		before, had := d.before[at]
		after, has := d.after[at]
		if !had && has && after.from != "" {
			before, had = d.before[after.from], true
		} else if had && !has && renamed[at] {
			continue // it is at another path
		}
		if err := d.file(at, before, after, had, has); err != nil {
			return nil, false, err
		}
		if d.out.Len() > maxDiff {
			return d.out.Bytes()[:maxDiff], true, nil
		}
	}
	return d.out.Bytes(), false, nil
}

// file writes the diff of one file.
func (d *differ) file(at string, before, after version, had, has bool) error {
	old := strings.TrimPrefix(at, "/")
	if had && before.from != "" {
		old = strings.TrimPrefix(before.from, "/")
	}
	name := strings.TrimPrefix(at, "/")
	old, name = quoted(old), quoted(name)
	var head bytes.Buffer
	_, _ = fmt.Fprintf(&head, "diff --git a/%s b/%s\n", old, name)
	a, b := "a/"+old, "b/"+name
	switch {
	case !had:
		_, _ = fmt.Fprintf(&head, "new file mode %06o\n", after.st.Mode)
		a = "/dev/null"
	case !has:
		_, _ = fmt.Fprintf(&head, "deleted file mode %06o\n", before.st.Mode)
		b = "/dev/null"
	case before.st.Mode != after.st.Mode:
		_, _ = fmt.Fprintf(&head, "old mode %06o\nnew mode %06o\n", before.st.Mode, after.st.Mode)
	}
	if had && has && old != name {
		_, _ = fmt.Fprintf(&head, "rename from %s\nrename to %s\n", old, name)
	}
	err := d.reserve(int64(d.out.Len()) + diffMemory*(before.compared(had)+after.compared(has)))
	if err != nil {
		return err
	}
	body, err := lines(a, b, before, after, had, has)
	if err != nil {
		return err
	}
	if len(body) > 0 || bytes.Count(head.Bytes(), []byte("\n")) > 1 {
		_, _ = head.WriteTo(&d.out)
		d.out.Write(body)
	}
	return nil
}

// quoted returns a path as a line of a diff can have it.
func quoted(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

// lines compares the contents.
func lines(a, b string, before, after version, had, has bool) ([]byte, error) {
	if had && has && after.same && after.target == before.target {
		return nil, nil
	}
	old, oldBinary, err := text(before, had)
	if err != nil {
		return nil, err
	}
	now, nowBinary, err := text(after, has)
	switch {
	case err != nil:
		return nil, err
	case oldBinary || nowBinary:
		return fmt.Appendf(nil, "Binary files %s and %s differ\n", a, b), nil
	}
	var out bytes.Buffer
	for line := range linediff.Compare(string(old), string(now), around).Lines {
		if out.Len() == 0 {
			_, _ = fmt.Fprintf(&out, "--- %s\n+++ %s\n", a, b)
		}
		if out.WriteString(line); out.Len() > maxDiff {
			break // write cuts there
		}
	}
	return out.Bytes(), nil
}

// text returns a content. One that is too large to compare counts as binary.
func text(v version, there bool) (data []byte, binary bool, err error) {
	switch {
	case !there:
		return nil, false, nil
	case v.st.Type() == rootfs.TypeSymlink:
		return []byte(v.target), false, nil
	case v.st.Type() != rootfs.TypeFile || v.st.Size > maxDiffed:
		return nil, true, nil
	}
	if data, err = v.read(); err != nil {
		return nil, false, err
	}
	const probe = 8000 // as git
	return data, bytes.IndexByte(data[:min(len(data), probe)], 0) >= 0, nil
}

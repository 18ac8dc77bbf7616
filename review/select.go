package review

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/ctxfs/ctxfs/fserr"
)

// Selection names some of a context's changes. One of its fields is set.
type Selection struct {
	// All takes what is neither barred, sensitive, ignored nor unstable.
	All bool
	// Approved takes what is approved.
	Approved bool
	Changes  []Selected
	// approves says that the selection approves: All, or a directory, leaves out what was rejected.
	approves bool
	// withdraws says that the selection rejects, or takes decisions back, also those on changes that are not there any more. All, or a directory, leaves out
	// only what no decision can be recorded on.
	withdraws bool
	// Patch is a unified diff, or one by git. Each of its hunks must be one that there is.
	Patch []byte
	// Seen, if it is not empty, has the IDs of the changes that All and Changes may select. Changes whose hunks are named need not be among them.
	Seen []string
}

// Selected is a change, or hunks of one.
type Selected struct {
	// Path may be a directory, with what is below it.
	Path Path
	// ChangeID, if it is not "", must be the change's.
	ChangeID string
	// Hunks are IDs; none means the whole change.
	Hunks []string
}

// LeftOut is a change that Selection.All, or a directory, leaves out.
type LeftOut struct {
	Path Path
	// Reason is "ignored", "unstable", "rejected", or a reason of Change.Sensitive or Change.Barred.
	Reason string
	// Hunks is how many hunks are left out, and the others are selected; 0 means the whole change.
	Hunks int
}

// isOne reports whether one change is meant, of a file, also if the path is a directory by now.
func (s Selected) isOne() bool { return s.ChangeID != "" || len(s.Hunks) > 0 }

// covers reports whether a path is meant: the one that is named, or one below it.
func (s Selected) covers(p Path) bool { return p == s.Path || !s.isOne() && isWithin(p, s.Path) }

// names reports whether a path is meant at which the change with one of these IDs stands.
func (s Selected) names(p Path, changeIDs ...string) bool {
	return s.covers(p) && (s.Path != p || s.ChangeID == "" || slices.Contains(changeIDs, s.ChangeID))
}

// choice is a change that is selected, whole or in part.
type choice struct {
	*Change
	// hunks are the IDs that are selected; nil means the whole change.
	hunks map[string]bool
	// named says that the caller has given the hunks' IDs, which cover what they show.
	named bool
}

// has reports whether a hunk is selected.
func (c *choice) has(h *Hunk) bool { return c.hunks == nil || c.hunks[h.ID] }

// scope returns the paths that the selection is about; "" is everything.
func (s Selection) scope() ([]Path, error) {
	switch {
	case s.Patch != nil:
		files, err := parsePatch(s.Patch)
		var out []Path
		for _, f := range files {
			out = append(out, patchPath(f))
		}
		return out, err
	case s.Changes != nil:
		var out []Path
		for _, c := range s.Changes {
			out = append(out, c.Path)
		}
		return out, nil
	}
	return []Path{""}, nil
}

// choose finds what the selection names among the changes. left has what All, or a directory, leaves out. text returns the Text of a change with its
// lines, and before what the base has.
func (s Selection) choose(changes []*Change, text func(*Change) (*TextDiff, error), before func(*Change) ([]byte, error)) (chosen []*choice, left []LeftOut, err error) {
	switch {
	case s.Patch != nil:
		chosen, err = choosePatch(changes, s.Patch, text, before)
	case s.Changes != nil:
		chosen, left, err = s.chooseNamed(changes, s.Changes)
	default:
		chosen, left, err = s.chooseNamed(changes, []Selected{{}})
	}
	if err == nil {
		err = s.checkSeen(chosen)
	}
	if err == nil {
		err = allowed(chosen)
	}
	if err != nil {
		return nil, nil, err
	}
	return chosen, left, nil
}

// checkSeen refuses changes that the caller has not seen.
func (s Selection) checkSeen(chosen []*choice) error {
	if len(s.Seen) == 0 || s.Patch != nil {
		return nil
	}
	seen := make(map[string]bool, len(s.Seen))
	for _, id := range s.Seen {
		seen[id] = true
	}
	var unseen []Path
	for _, c := range chosen {
		if !c.named && !seen[c.ID] {
			unseen = append(unseen, c.Path)
		}
	}
	if len(unseen) > 0 {
		return refuse(StaleRevision, unseen, "these changed since they were seen", "show the difference again")
	}
	return nil
}

// allowed refuses what can never be applied, and what cannot be decided on now.
func allowed(chosen []*choice) error {
	var unstable []Path
	for _, c := range chosen {
		if c.Barred != "" {
			return refuse(BarredPath, []Path{c.Path}, "the rule "+c.Barred+" keeps it out of the workspace", "leave it out of the selection")
		}
		if c.Unstable {
			unstable = append(unstable, c.Path)
		}
	}
	if len(unstable) > 0 {
		return &fserr.Error{Code: fserr.EBUSY, Path: "/" + string(unstable[0]), Detail: "another program was writing the file", Hint: "try again when it has ended"}
	}
	return nil
}

// chooseNamed finds what is named among the changes, and what the directories that are named leave out.
func (s Selection) chooseNamed(changes []*Change, named []Selected) (chosen []*choice, left []LeftOut, err error) {
	at, dirs := map[Path]*Change{}, map[Path]bool{"": true}
	for _, c := range changes {
		at[c.Path] = c
		for dir := parentOf(c.Path); !dirs[dir]; dir = parentOf(dir) {
			dirs[dir] = true
		}
	}
	byPath, within := map[Path]*choice{}, map[Path]bool{}
	var stale []Path
	for _, n := range named {
		if rule := BarredName(n.Path); rule != "" {
			return nil, nil, refuse(BarredPath, []Path{n.Path}, "the rule "+rule+" keeps it out of the workspace", "leave it out of the selection")
		}
		switch c := at[n.Path]; {
		case dirs[n.Path] && !n.isOne():
			within[n.Path] = true
		case c == nil || (n.ChangeID != "" && c.ID != n.ChangeID):
			stale = append(stale, n.Path)
		default:
			if err := take(byPath, c, n.Hunks); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(stale) > 0 {
		return nil, nil, refuse(StaleRevision, stale, "there is no such change any more", "list the changes again")
	}
	for _, c := range changes {
		switch why := c.leftOut(); {
		case byPath[c.Path] != nil || !(within[""] || within[c.Path] || below(c.Path, within)):
		case why == "" || s.withdraws && c.isDecidable():
			byPath[c.Path] = c.unrejected()
			if n := len(c.rejected); n > 0 {
				left = append(left, LeftOut{c.Path, rejected, n})
			}
		default:
			left = append(left, LeftOut{c.Path, why, 0})
		}
	}
	return sorted(byPath), left, nil
}

// unrejected is the choice of a change without the hunks that were rejected.
func (c *Change) unrejected() *choice {
	if len(c.rejected) == 0 {
		return &choice{Change: c}
	}
	out := &choice{Change: c, hunks: map[string]bool{}}
	for _, id := range c.HunkIDs() {
		if !c.rejected[id] {
			out.hunks[id] = true
		}
	}
	return out
}

// parentOf returns the directory of a path; "" is the root.
func parentOf(p Path) Path { return p[:max(0, strings.LastIndexByte(string(p), '/'))] }

// nothingSelected refuses a selection that has no change.
func nothingSelected(left []LeftOut) error {
	if len(left) == 0 {
		return refuse(StaleRevision, nil, "nothing is selected", "list the changes again")
	}
	paths := make([]Path, len(left))
	for i, l := range left {
		paths[i] = l.Path
	}
	return refuse(NotApproved, paths, "nothing is selected: ignored, sensitive and rejected files are selected by their own names alone", "name them one by one")
}

// take adds a change, or hunks of it.
func take(byPath map[Path]*choice, c *Change, hunks []string) error {
	if len(hunks) == 0 {
		byPath[c.Path] = &choice{Change: c}
		return nil
	}
	got, ok := byPath[c.Path]
	if ok && got.hunks == nil {
		return nil
	}
	if !ok {
		got = &choice{Change: c, hunks: map[string]bool{}, named: true}
		byPath[c.Path] = got
	}
	there := map[string]bool{}
	for _, id := range c.HunkIDs() {
		there[id] = true
	}
	for _, id := range hunks {
		if !there[id] {
			return refuse(StaleRevision, []Path{c.Path}, fmt.Sprintf("there is no hunk %q any more", id), "show the difference again")
		}
		got.hunks[id] = true
	}
	return nil
}

func sorted(byPath map[Path]*choice) []*choice {
	out := make([]*choice, 0, len(byPath))
	for _, c := range byPath {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *choice) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return out
}

func parsePatch(patch []byte) ([]*gitdiff.File, error) {
	files, _, err := gitdiff.Parse(bytes.NewReader(patch))
	if err == nil && len(files) == 0 {
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "the patch has no file"}
	} else if err != nil {
		err = &fserr.Error{Code: fserr.EINVAL, Detail: "bad patch: " + err.Error(), Err: err}
	}
	for _, f := range files {
		if f.IsRename || f.IsCopy {
			return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("the patch renames %s", f.OldName), Hint: "write it without renames (git diff --no-renames)"}
		}
	}
	return files, err
}

func patchPath(f *gitdiff.File) Path {
	if f.NewName != "" {
		return Path(f.NewName)
	}
	return Path(f.OldName)
}

// choosePatch finds each hunk of the patch among the changes: the same lines at the same place of the base. What has no hunks must be the same change as a
// whole: its kind, mode and content.
func choosePatch(changes []*Change, patch []byte, text func(*Change) (*TextDiff, error), before func(*Change) ([]byte, error)) ([]*choice, error) {
	files, err := parsePatch(patch)
	if err != nil {
		return nil, err
	}
	byPath := map[Path]*choice{}
	parts := map[Path][]*gitdiff.File{}
	for _, f := range files {
		parts[patchPath(f)] = append(parts[patchPath(f)], f)
	}
	for _, f := range files {
		p := patchPath(f)
		i := slices.IndexFunc(changes, func(c *Change) bool { return c.Path == p })
		if i < 0 {
			return nil, refuse(StaleRevision, []Path{p}, "the patch is of a file without changes", "make the patch again")
		}
		ids, err := hunksOf(changes[i], f, text)
		if err == nil && len(ids) == 0 {
			err = isChange(changes[i], parts[p], before)
		}
		if err == nil {
			err = take(byPath, changes[i], ids)
		}
		if err != nil {
			return nil, err
		}
	}
	return sorted(byPath), nil
}

// isChange refuses parts of a patch that are not what a change is as a whole. A change of a file's type has two parts.
func isChange(c *Change, parts []*gitdiff.File, before func(*Change) ([]byte, error)) error {
	content, err := before(c)
	if err != nil {
		return err
	}
	mode := headMode(c.Before)
	for _, f := range parts {
		if f.IsNew != (mode == 0) {
			return anotherChange(c)
		}
		if len(c.HunkIDs()) == 0 { // its lines were found otherwise
			var out bytes.Buffer
			err := gitdiff.Apply(&out, bytes.NewReader(content), f)
			if content = out.Bytes(); err != nil || f.IsDelete && len(content) > 0 {
				return anotherChange(c)
			}
		}
		switch {
		case f.IsDelete:
			mode = 0
		case f.NewMode != 0:
			mode = patchMode(f.NewMode)
		case f.IsNew:
			mode = plainMode
		}
	}
	if mode != headMode(c.After) || (len(c.HunkIDs()) == 0 && c.After.Exists() && hashOfText(string(content)) != c.After.Hash) {
		return anotherChange(c)
	}
	return nil
}

func anotherChange(c *Change) error {
	return refuse(StaleRevision, []Path{c.Path}, "the patch shows another change of the file than there is", "make the patch again, as git writes it, with modes and binary contents")
}

// patchMode is headMode of a mode that a patch names.
func patchMode(mode os.FileMode) uint32 {
	if mode&os.ModeSymlink != 0 || uint32(mode)&0o170000 == linkMode {
		return linkMode
	}
	return gitMode(uint32(mode.Perm()))
}

// hunksOf returns the IDs of a patch's hunks; none if it has all of a change that is decided as a whole.
func hunksOf(c *Change, f *gitdiff.File, text func(*Change) (*TextDiff, error)) ([]string, error) {
	if len(c.HunkIDs()) == 0 {
		return nil, nil
	}
	d, err := text(c)
	if err != nil {
		return nil, err
	}
	hunks := d.Hunks
	var ids []string
	for _, h := range patchHunks(f) {
		i := slices.IndexFunc(hunks, func(o Hunk) bool {
			return o.Base == h.Base && slices.Equal(o.Removed, h.Removed) && slices.Equal(o.Added, h.Added)
		})
		if i < 0 {
			return nil, refuse(StaleRevision, []Path{c.Path}, fmt.Sprintf("the patch's hunk at line %d is none that there is", h.Base+1), "make the patch again")
		}
		ids = append(ids, hunks[i].ID)
	}
	if len(ids) == 0 {
		return nil, anotherChange(c)
	}
	modes := f.OldMode != 0 && f.NewMode != 0 && f.OldMode != f.NewMode
	if len(ids) == len(hunks) && (modes || c.Before.sameMode(c.After)) {
		return nil, nil
	}
	return ids, nil
}

// patchHunks splits a patch's fragments into runs of changed lines.
func patchHunks(f *gitdiff.File) []Hunk {
	var out []Hunk
	for _, fragment := range f.TextFragments {
		at := int(fragment.OldPosition)
		if fragment.OldLines > 0 {
			at--
		}
		open := false
		for _, line := range fragment.Lines {
			if line.Op == gitdiff.OpContext {
				at, open = at+1, false
				continue
			}
			if !open {
				out, open = append(out, Hunk{Base: at}), true
			}
			h := &out[len(out)-1]
			if line.Op == gitdiff.OpDelete {
				h.Removed = append(h.Removed, line.Line)
				at++
			} else {
				h.Added = append(h.Added, line.Line)
			}
		}
	}
	return out
}

package review

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Kind says what a change does to a path.
type Kind int

// The kinds of change, in the order of the proto's.
const (
	Added Kind = iota + 1
	Modified
	Deleted
	TypeChanged
	ModeChanged
)

// Content says how the content of a change can be shown.
type Content int

// The kinds of content, in the order of the proto's.
const (
	NoContent Content = iota
	Text
	Binary
	Link
	TooLarge
	Tree
)

// Change is a Difference with what a reviewer needs of it.
type Change struct {
	Difference
	// ID covers path, kind, both contents and both modes.
	ID      string
	Kind    Kind
	Content Content
	// Text is set for Content Text.
	Text *TextDiff
	// RenamedFrom is the only deleted file with this content.
	RenamedFrom Path
	Ignored     bool
	Sensitive   []string
	// Drifted says that the workspace holds neither the base's version nor, if that went to a branch alone, the one before.
	Drifted bool
	// Unresolved says that a Rebase recorded a conflict of the path.
	Unresolved bool
	// Repository is the git repository that the path belongs to; "" is none, or the workspace's own. InRepository is false
	// only if there is none.
	Repository   Path
	InRepository bool
	// rejected are the IDs of the hunks that were rejected; "" is the change as a whole. It is set for selections that approve.
	rejected map[string]bool
}

// opener opens the content of a version that exists.
type opener func() (io.ReadCloser, error)

// describe makes a Change of a difference. It reads the contents of texts.
func describe(ctx context.Context, room *room, d Difference, before, after opener, ignored bool) (*Change, error) {
	c := &Change{Difference: d, Kind: kindOf(d), Ignored: ignored || d.Tree != nil}
	c.ID = d.id()
	err := c.read(ctx, room, before, after)
	c.Sensitive = c.sensitive(after)
	return c, err
}

// id returns the ID of the change.
func (d Difference) id() string {
	return idOf("change.2", []string{string(d.Path), fmt.Sprint(kindOf(d)), versionKey(d.Before), versionKey(d.After)})
}

func versionKey(v Version) string {
	return fmt.Sprint(v.Type, " ", v.Mode&executable != 0, " ", v.Hash)
}

func kindOf(d Difference) Kind {
	switch b, a := d.Before, d.After; {
	case !b.Exists():
		return Added
	case !a.Exists():
		return Deleted
	case b.Type != a.Type:
		return TypeChanged
	case b.Hash == a.Hash && b.Hash != "":
		return ModeChanged
	}
	return Modified
}

// read sets Content and Text.
func (c *Change) read(ctx context.Context, room *room, before, after opener) error {
	b, a := c.Before, c.After
	switch {
	case c.Tree != nil:
		c.Content = Tree
		return nil
	case c.Barred != "" || c.Unstable || c.Kind == ModeChanged:
		return nil
	case b.Type == rootfs.TypeSymlink || a.Type == rootfs.TypeSymlink:
		c.Content = Link
		return nil
	case b.Size > MaxText || a.Size > MaxText:
		c.Content = TooLarge
		return nil
	}
	old, err := c.side(room, 0, before)
	var now []byte
	if err == nil {
		now, err = c.side(room, 1, after)
	}
	if errors.Is(err, errUnstable) {
		c.Unstable = true
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case IsBinary(old) || IsBinary(now):
		c.Content = Binary
		return nil
	case isLong(old) || isLong(now):
		c.Content = TooLarge
		return nil
	}
	err = room.compare(ctx, old, now, func() { c.Text = diffVersions(c.Path, b, a, old, now, MaxHunks) })
	if c.Content = Text; c.Text == nil {
		c.Content = TooLarge
	}
	return err
}

// side returns a version that compare has kept, or reads it.
func (c *Change) side(room *room, i int, open opener) ([]byte, error) {
	if data, ok := room.takeContent(c.held[i]); ok {
		return data, nil
	}
	return side([]Version{c.Before, c.After}[i], open)
}

// side reads a version, nil when there is nothing. It is errUnstable if the content is another one than the version's.
func side(v Version, open opener) ([]byte, error) {
	if !v.Exists() {
		return nil, nil
	}
	data, err := content(open)
	if err != nil {
		return nil, err
	}
	if hashOfText(string(data)) != v.Hash {
		return nil, errUnstable
	}
	return data, nil
}

// HunkIDs returns the IDs of the hunks that can be decided on. A deletion and an empty addition are decided as a whole.
func (c *Change) HunkIDs() []string {
	if c.Text == nil || c.Kind == Deleted {
		return nil
	}
	return c.Text.ids
}

// isDecidable reports whether a decision on the change can be recorded.
func (c *Change) isDecidable() bool { return c.Barred == "" && !c.Unstable && c.Tree == nil }

// These are reasons of a LeftOut: another program was writing the file, or a decision rejects it.
const (
	unstable = "unstable"
	rejected = "rejected"
)

// leftOut says why Selection.All leaves the change out: "" if it takes it.
func (c *Change) leftOut() string {
	switch {
	case c.Barred != "":
		return c.Barred
	case c.Unstable:
		return unstable
	case len(c.Sensitive) > 0:
		return c.Sensitive[0]
	case c.Ignored:
		return "ignored"
	case c.rejected[""]:
		return rejected
	}
	return ""
}

// renames sets RenamedFrom where an addition and a deletion have the same content and no other does.
func renames(changes []*Change) {
	gone, made := map[string][]*Change{}, map[string][]*Change{}
	for _, c := range changes {
		switch {
		case c.Unstable:
		case c.Kind == Deleted && c.Before.Size > 0:
			gone[c.Before.Hash] = append(gone[c.Before.Hash], c)
		case c.Kind == Added && c.Barred == "" && c.Tree == nil:
			made[c.After.Hash] = append(made[c.After.Hash], c)
		}
	}
	for hash, to := range made {
		if from := gone[hash]; len(to) == 1 && len(from) == 1 {
			to[0].RenamedFrom = from[0].Path
		}
	}
}

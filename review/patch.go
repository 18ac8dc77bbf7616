package review

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git names contents by it
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxPatched bounds a version that a patch holds, in bytes.
const maxPatched = 64 << 20

// patchCopies is how many times the memory of both versions a patch takes.
const patchCopies = 5

// patch writes a change as text that git apply accepts, with so many context lines; nothing for a barred change and for a Tree.
// name is the path in it.
func (c *Change) patch(out io.Writer, name Path, before, after opener, context int) error {
	if c.Barred != "" || c.Tree != nil || c.Unstable {
		return nil
	}
	if c.Kind == TypeChanged {
		return errors.Join(patchPart(out, name, c.Before, Version{}, before, after, context), patchPart(out, name, Version{}, c.After, before, after, context))
	}
	return patchPart(out, name, c.Before, c.After, before, after, context)
}

// writeText is patch for a change whose Text is d.
func (c *Change) writeText(out io.Writer, name Path, d *TextDiff, context int) error {
	return writeText(out, FileHeader{Path: string(name), BeforeMode: headMode(c.Before), AfterMode: headMode(c.After)}, d, context)
}

func patchPart(out io.Writer, p Path, before, after Version, openBefore, openAfter opener, context int) error {
	old, err := whole(p, before, openBefore)
	if err != nil {
		return err
	}
	now, err := whole(p, after, openAfter)
	if err != nil {
		return err
	}
	head := FileHeader{Path: string(p), BeforeMode: headMode(before), AfterMode: headMode(after)}
	if !isText(old, now) {
		_, err = io.WriteString(out, binaryPatch(head, old, now))
		return err
	}
	return writeText(out, head, DiffText(string(p), old, now), context)
}

// writeText writes a header with all hunks; without hunks it is the header alone.
func writeText(out io.Writer, head FileHeader, d *TextDiff, context int) error {
	text := d.Unified(head, context, func(*Hunk) bool { return true })
	if text == nil {
		var b bytes.Buffer
		head.writeHead(&b)
		text = b.Bytes()
	}
	_, err := out.Write(text)
	return err
}

func headMode(v Version) uint32 {
	if v.Type == rootfs.TypeSymlink {
		return linkMode
	}
	return gitModeOf(v)
}

// GitMode returns git's mode of a version, 0 for nothing.
func GitMode(v Version) uint32 {
	if v.Type != rootfs.TypeFile && v.Type != rootfs.TypeSymlink {
		return 0
	}
	return gitOrZero(headMode(v))
}

// gitModeOf returns the mode of a file's version, 0 for nothing.
func gitModeOf(v Version) uint32 {
	if !v.Exists() {
		return 0
	}
	return gitMode(v.Mode)
}

// whole reads a version for a patch.
func whole(p Path, v Version, open opener) (data []byte, err error) {
	if !v.Exists() {
		return nil, nil
	}
	if v.Size > maxPatched {
		return nil, &fserr.Error{
			Code: fserr.EFBIG, Path: "/" + string(p), Detail: fmt.Sprintf("the file is too large for a patch (%d bytes)", v.Size),
			Hint: "leave it out, and read it by itself",
		}
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(io.LimitReader(r, maxPatched+1))
}

// binaryPatch returns git's form of a change between two binary contents, with both of them.
func binaryPatch(head FileHeader, before, after []byte) string {
	f := &gitdiff.File{
		OldName: head.Path, NewName: head.Path, IsBinary: true, IsNew: head.BeforeMode == 0, IsDelete: head.AfterMode == 0,
		OldMode: os.FileMode(gitOrZero(head.BeforeMode)), NewMode: os.FileMode(gitOrZero(head.AfterMode)),
		OldOIDPrefix: blobID(before, head.BeforeMode != 0), NewOIDPrefix: blobID(after, head.AfterMode != 0),
		BinaryFragment: literal(after), ReverseBinaryFragment: literal(before),
	}
	if f.OldMode == f.NewMode {
		f.NewMode = 0
	}
	return f.String()
}

// literal returns a content as git's patches have it.
func literal(content []byte) *gitdiff.BinaryFragment {
	var raw bytes.Buffer
	z := zlib.NewWriter(&raw)
	_, _ = z.Write(content) // a buffer takes everything
	_ = z.Close()
	return &gitdiff.BinaryFragment{Method: gitdiff.BinaryPatchLiteral, Size: int64(len(content)), RawData: raw.Bytes()}
}

func gitOrZero(mode uint32) uint32 {
	if mode == 0 {
		return 0
	}
	return gitMode(mode)
}

// blobID returns git's name of a content, all zeros for none.
func blobID(content []byte, exists bool) string {
	if !exists {
		return hex.EncodeToString(make([]byte, sha1.Size))
	}
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(content))
	_, _ = h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

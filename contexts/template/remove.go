package template

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Settled is Ready once nobody builds or removes the template: who has said before that it
// is needed (see Remove) may then use what it returns. It is nil when there is none.
func (b *Builder) Settled(ctx context.Context, hash string) (*Built, error) {
	built, err := b.Ready(hash)
	if built == nil || err != nil {
		return nil, err
	}
	f := b.lockFile(built.Hash)
	ok, err := f.TryRLockContext(ctx, lockPoll)
	release, err := held(f, ok, err)
	if err != nil {
		return nil, err
	}
	defer release()
	return load(b.opts.Layers, built.Hash)
}

// Remove removes a template layer, unless somebody is at work on it or needed, which is asked once nobody can be, says
// that it must stay. The mark that it is ready goes first: what is left of a removal that was interrupted is no template.
func (b *Builder) Remove(ctx context.Context, hash string, needed func() (bool, error)) (removed bool, err error) {
	if len(hash) != hashDigits || !hashPattern.MatchString(hash) {
		return false, badHash(hash)
	}
	f := b.lockFile(hash)
	ok, err := f.TryLock()
	if err == nil && !ok {
		return false, f.Close()
	}
	release, err := held(f, ok, err)
	if err != nil {
		return false, err
	}
	defer release()
	if keep, err := needed(); keep || err != nil {
		return false, err
	}
	return b.drop(ctx, hash)
}

func (b *Builder) drop(ctx context.Context, hash string) (bool, error) {
	root, err := rootfs.Open(b.opts.Layers, rootfs.Options{})
	if err != nil {
		return false, internal("remove a template", err)
	}
	defer func() { _ = root.Close() }()
	err = root.Unlink(path.Join(hash, readyName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, internal("remove a template", err)
	}
	return true, remove(ctx, b.opts.Layers, hash)
}

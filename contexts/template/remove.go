package template

import (
	"context"
	"os"
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

// Remove moves a template layer to a free path on its file system, where the caller deletes it. It leaves a layer that a build
// or another removal works on. It calls needed when neither can begin any more, and leaves the layer if needed returns true.
func (b *Builder) Remove(hash, to string, needed func() (bool, error)) (removed bool, err error) {
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
	return b.drop(hash, to)
}

func (b *Builder) drop(hash, to string) (bool, error) {
	built, err := load(b.opts.Layers, hash)
	if built == nil || err != nil {
		return false, err
	}
	if err := os.Rename(built.Dir, to); err != nil {
		return false, internal("remove a template", err)
	}
	return true, nil
}

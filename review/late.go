package review

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/rootfs/tree"
	"github.com/ctxfs/ctxfs/fserr"
)

// verify checks what a swap has replaced. It does not read a file that has the attributes which plan saw: late reads it, when no program
// can write to it any more.
func (s *swaps) verify(t *taken) (err error) {
	if !t.Before.Exists() {
		return nil
	}
	if t.seen != (seen{}) {
		if st, err := t.swap.OldStat(); err != nil || (st.Type() == rootfs.TypeFile && seenOf(st) == t.seen) {
			return err
		}
	}
	old, err := t.swap.Old()
	if err != nil {
		return err
	}
	is, err := isVersion(context.Background(), old, t.Before)
	if old.File != nil {
		err = errors.Join(err, old.File.Close())
	}
	if err == nil && !is {
		err = tree.ErrOccupied
	}
	return err
}

// isVersion reports whether a swap's former entry is a version.
func isVersion(ctx context.Context, f tree.Former, v Version) (is bool, err error) {
	hash := hashOfText(f.Target)
	if f.File != nil {
		if _, err := f.File.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
		hash, _, err = hashOf(ctx, f.File)
	}
	return Version{Type: f.Stat.Type(), Mode: f.Stat.Perm(), Hash: hash}.Same(v), err
}

// late returns the files that were written after they had been replaced, through a descriptor that was open before. Afterwards no program
// can write to the others any more, where the system says which files are open for writing.
func (s *swaps) late(ctx context.Context) (conflicts []Conflict, err error) {
	changed := make([]bool, len(s.all))
	err = inParallel(ctx, len(s.all), func(i int) (err error) {
		changed[i], err = s.isLate(ctx, &s.all[i])
		return err
	})
	for i, is := range changed {
		if is {
			conflicts = append(conflicts, Conflict{s.all[i].Path, ConflictChangedMeanwhile})
		}
	}
	return conflicts, err
}

func (s *swaps) isLate(ctx context.Context, t *taken) (bool, error) {
	if t.away || !t.Before.Exists() {
		return false, nil
	}
	old, err := t.swap.Old()
	if errors.Is(err, tree.ErrOccupied) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	is, err := s.isFinal(ctx, old, t.Before)
	if old.File != nil {
		err = errors.Join(err, old.File.Close())
	}
	return !is, err
}

// writersWait is how long programs are waited for that have files open for writing which an apply has replaced: most are about to save.
const writersWait = time.Second

// writersPoll is how often such a file is looked at.
const writersPoll = 5 * time.Millisecond

// isFinal reports whether a swap's former entry is a version, and no program has it open for writing. It has no name that other programs know,
// so that it stays so. It waits a moment for programs that are writing.
func (s *swaps) isFinal(ctx context.Context, f tree.Former, v Version) (bool, error) {
	for f.File != nil {
		has, err := tree.HasWriter(f.File)
		if fserr.CodeOf(err) == fserr.EOPNOTSUPP || (err == nil && !has) {
			break
		}
		if err != nil {
			return false, err
		}
		if !s.waitForWriters() {
			return false, nil
		}
	}
	return isVersion(ctx, f, v)
}

// waitForWriters waits a moment. It returns false if programs were waited for long enough.
func (s *swaps) waitForWriters() bool {
	s.writersMu.Lock()
	if s.writersUntil.IsZero() {
		s.writersUntil = time.Now().Add(writersWait)
	}
	until := s.writersUntil
	s.writersMu.Unlock()
	if time.Now().After(until) {
		return false
	}
	time.Sleep(writersPoll)
	return true
}

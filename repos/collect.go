package repos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/review"
)

// The record of a pushed commit stays for so long, and a context keeps so many of them.
const (
	pushedTime = 30 * 24 * time.Hour
	pushedKept = 100
)

// Collect removes what is left of commits that were pushed: all objects, and records that are too old or too many.
func (r *Repos) Collect(ctx context.Context) error {
	all := map[string]bool{}
	var errs []error
	for id, k := range r.matching(func(k known) bool { return k.pushed && k.settled && !k.damaged }) {
		all[k.context] = true
		errs = append(errs, r.unused(id, func() error { return trim(r.dirOf(id)) }))
	}
	for id := range all {
		errs = append(errs, r.prune(ctx, id))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// tidy removes the objects of a commit that was pushed: the target has them. The caller has its lock.
func (r *Repos) tidy(ctx context.Context, s *Staged) {
	if s.Pushed == nil || s.Pushing != nil {
		return
	}
	r.point("pushed")
	if err := errors.Join(trim(r.dirOf(s.ID)), r.prune(ctx, s.Context)); err != nil {
		r.cfg.Log.Warn("what is left of pushed commits is removed later", zap.String("staged", s.ID), zap.Error(err))
	}
}

// trim removes the objects and the ref of a staged commit. The repository still shows what the workspace's repository has.
func trim(dir string) error {
	errs := []error{os.RemoveAll(filepath.Join(dir, "refs", "ctxfs"))}
	for _, in := range []string{"objects", filepath.Join("objects", "pack")} {
		entries, err := os.ReadDir(filepath.Join(dir, in))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if e.Name() != "info" && e.Name() != "pack" { // info names the workspace's repository
				errs = append(errs, os.RemoveAll(filepath.Join(dir, in, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

// prune removes the oldest records of pushed commits of a context.
func (r *Repos) prune(ctx context.Context, id string) error {
	type record struct {
		id string
		at time.Time
	}
	var all []record
	for staged, k := range r.matching(func(k known) bool { return k.context == id && k.pushed && k.settled && !k.damaged }) {
		all = append(all, record{staged, k.at})
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.id, b.id)) })
	var errs []error
	for i, one := range all {
		if ctx.Err() == nil && (i >= pushedKept || time.Since(one.at) > pushedTime) {
			errs = append(errs, r.unused(one.id, func() error { return r.remove(one.id) }))
		}
	}
	return errors.Join(errs...)
}

// unused calls f with the lock of a pushed commit. One that another call uses, or that has got another push since, is left for the next time.
func (r *Repos) unused(id string, f func() error) error {
	unlock := r.tryLock("staged " + id)
	if unlock == nil {
		return nil
	}
	defer unlock()
	r.mu.Lock()
	k, ok := r.known[id]
	r.mu.Unlock()
	if !ok || !k.pushed || !k.settled {
		return nil
	}
	return f()
}

// Contents returns the contents that the staged commits in dir need of the store of reviews, by SHA-256. A damaged record needs none, since it cannot
// be pushed. One of a newer ctxfs needs what this one understands of it.
func Contents(dir string) ([]string, error) {
	ids, err := idsIn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, id := range ids {
		data, err := statedir.ReadFile(filepath.Join(dir, id+dirSuffix, recordName), statedir.MaxList)
		if errors.Is(err, fs.ErrNotExist) { // it was discarded meanwhile, or is damaged
			continue
		}
		if err != nil {
			return nil, err
		}
		var s struct {
			Changes []review.PickedChange `json:"changes"`
			Pushed  json.RawMessage       `json:"pushed"`
		}
		if json.Unmarshal(data, &s) != nil || s.Pushed != nil {
			continue
		}
		for _, c := range s.Changes {
			out = append(out, c.Before.Hash, c.After.Hash)
		}
	}
	return out, err
}

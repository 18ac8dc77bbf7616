package review

import (
	"bytes"
	"context"
	"time"

	"go.uber.org/zap"
)

// runHooks runs the hooks that decide on the commits, and gives the commits the messages that the hooks made. The changed files are in place, and no ref
// has moved. ctx is the caller's.
func (d *drafts) runHooks(ctx context.Context) error {
	began := time.Now()
	for _, c := range d.all {
		h, err := c.RunHooks(ctx, c.tree, c.text, c.done.Author)
		if err != nil {
			return asRefusal(err)
		}
		c.done.Hooks = h.Ran
		if bytes.Equal(h.Text, c.text) {
			continue
		}
		if c.done.ID, err = c.Commit(ctx, c.tree, h.Text, c.message); err != nil {
			return err
		}
	}
	return d.flush(began)
}

// runPostCommit runs the hooks that follow the commits. Their failure changes nothing.
func (d *drafts) runPostCommit(ctx context.Context) {
	for _, c := range d.all {
		ran, err := c.AfterCommit(ctx)
		if ran {
			c.done.Hooks = append(c.done.Hooks, "post-commit")
		}
		if err != nil {
			d.r.cfg.Log.Warn("a hook failed after a commit", zap.String("repository", string(c.done.Repository)), zap.Error(err))
		}
	}
}

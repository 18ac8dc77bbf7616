package server

import (
	"context"
	"path"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/review"
)

// checkpoints records what commands change in the journal of reviews.
type checkpoints struct {
	contexts *contexts.Manager
	reviews  *review.Reviews
}

// checkpoint is what a context held before a command, and what callers have changed since.
type checkpoint struct {
	reviews *review.Reviews
	before  *review.Checkpoint
	// into is the zone that the context was seeded into. Changes elsewhere are not recorded.
	into   string
	others *contexts.Recording
}

// Begin implements exec.Checkpoints. It begins to note what callers change before it looks at the context, so that no change is missed.
func (c checkpoints) Begin(ctx context.Context, id contexts.ID) (exec.Checkpoint, error) {
	into, err := c.contexts.SeededInto(id)
	if err != nil {
		return nil, err
	}
	others, err := c.contexts.Record(ctx, id)
	if err != nil {
		return nil, err
	}
	before, err := c.reviews.Checkpoint(ctx, string(id))
	if err != nil {
		others.Stop()
		return nil, err
	}
	return &checkpoint{reviews: c.reviews, before: before, into: into, others: others}, nil
}

// Bounds of what is recorded of a command. That of the paths is in bytes too: they reach a runner in one packet.
const (
	maxCommandLine  = 1 << 10
	maxLeftOut      = 100
	maxLeftOutBytes = 16 << 10
	maxUnrecorded   = 20
	maxUnrecBytes   = 8 << 10
)

// End implements exec.Checkpoint.
func (c *checkpoint) End(ctx context.Context, argv []string) (exec.Recorded, error) {
	defer c.others.Stop()
	command := fserrpb.Valid(strings.Join(argv, " "))
	command = strings.ToValidUTF8(command[:min(len(command), maxCommandLine)], "")
	done, err := c.reviews.Record(ctx, c.before, "host", command, func(p review.Path) bool { return c.others.Has(path.Join(c.into, string(p))) })
	out := exec.Recorded{Entry: done.Entry}
	out.LeftOut, out.MoreLeftOut = c.leftOut(done.LeftOut, maxLeftOut, maxLeftOutBytes)
	out.Unrecorded, _ = c.leftOut(done.Unrecorded, maxUnrecorded, maxUnrecBytes)
	return out, err
}

// leftOut returns the first of the paths, as the bounds have it, and how many more there are.
func (c *checkpoint) leftOut(paths []review.Path, most, bytes int) (list []string, more int) {
	size := 0
	for i, p := range paths {
		name := fserrpb.Printable(path.Join(c.into, string(p)))
		if size += len(name); i == most || size > bytes {
			return list, len(paths) - i
		}
		list = append(list, name)
	}
	return list, 0
}

// Drop implements exec.Checkpoint.
func (c *checkpoint) Drop() {
	c.others.Stop()
	c.before.Drop()
}

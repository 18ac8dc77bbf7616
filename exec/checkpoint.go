package exec

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
)

// Checkpoints records what commands change.
type Checkpoints interface {
	// Begin records what a context holds before a command.
	Begin(ctx context.Context, id contexts.ID) (Checkpoint, error)
}

// Checkpoint is what a context held before a command. It ends with End or Drop.
type Checkpoint interface {
	// End records what has changed since.
	End(ctx context.Context, argv []string) (Recorded, error)
	// Drop forgets the checkpoint.
	Drop()
}

// Recorded is what a command changed.
type Recorded struct {
	// Entry is the journal entry; 0 if nothing changed.
	Entry int64
	// LeftOut are paths that are not in the entry, since a caller of the server changed them too.
	LeftOut []string
	// MoreLeftOut is how many more of these there are.
	MoreLeftOut int
	// Unrecorded are the first directories that the command changed, and whose content no entry has, since they are new and ignored.
	Unrecorded []string
	// Err is why the changes could not be recorded. An engine that adopts the process does not know it.
	Err error `json:"-"`
}

// How long the changes of a command may take to be recorded, and while the server stops.
const (
	recordTime     = time.Minute
	lastRecordTime = 3 * time.Second
)

// record ends the checkpoint of a process that has ended and has released its context.
func (p *Process) record(exit *Exit) {
	if p.checkpoint == nil {
		return
	}
	if exit.Reason == ContextClosed {
		p.checkpoint.Drop() // what it began with is gone
		return
	}
	limit := recordTime
	if exit.Reason == ServerStopped {
		limit = lastRecordTime
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.table.stopped), limit)
	defer cancel()
	var err error
	if exit.Recorded, err = p.checkpoint.End(ctx, p.cmd.Argv); err != nil {
		exit.Recorded.Err = err
		p.table.cfg.Log.Warn("what a command changed could not be recorded", zap.String("process", p.ID), zap.Error(err))
	}
}

package attack

import (
	"context"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// checkVictim asks another context, which must answer however the attacker behaves.
func (w *world) checkVictim(what string) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(w.victim.ctx, slow())
	defer cancel()
	if _, err := ctxfsv1.NewFsServiceClient(w.cc).Stat(ctx, &ctxfsv1.StatRequest{Path: "/README.md"}); err != nil {
		w.leak("%s: another context, after %v: %v", what, time.Since(begun), err)
	}
}

// askVictim asks another context again and again until ctx ends, and returns how often. A
// question that was asked before the end is waited for.
func (w *world) askVictim(ctx context.Context, what string) (asked int64) {
	pause := time.NewTicker(2 * time.Millisecond) // leaves the processors to the race
	defer pause.Stop()
	for {
		w.checkVictim(what)
		asked++
		select {
		case <-ctx.Done():
			return asked
		case <-pause.C:
		}
	}
}

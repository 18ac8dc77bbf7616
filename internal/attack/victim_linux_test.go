package attack

import (
	"context"
	"time"

	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// checkVictim asks another context, which must answer however the attacker behaves.
func (w *world) checkVictim(what string) {
	ctx, cancel := context.WithTimeout(w.victim.ctx, patience)
	defer cancel()
	if _, err := ctxfsv1.NewFsServiceClient(w.cc).Stat(ctx, &ctxfsv1.StatRequest{Path: "/README.md"}); err != nil {
		w.leak("%s: another context: %v", what, err)
	}
}

// answers is how often others are asked at least while an attack lasts. An answer that waited for the end of the attack would not come.
const answers = 3

// askVictim asks another context again and again for a while, and returns how often it has answered. It returns earlier if ctx ends.
func (w *world) askVictim(ctx context.Context, long time.Duration, what string) (asked int64) {
	_ = repeat(ctx, long, func() error {
		w.checkVictim(what)
		asked++
		return nil
	})
	return asked
}

// repeat calls ask for a while, and as often as answers at least, with pauses that leave the processors to others. It returns earlier if ctx
// ends or ask fails.
func repeat(ctx context.Context, long time.Duration, ask func() error) error {
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	var over bool
	for end, n := time.After(long), 1; ; n++ {
		if err := ask(); err != nil {
			return err
		}
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-end:
				over = true
			case <-pause.C:
				waits = false
			}
		}
		if over && n >= answers {
			return nil
		}
	}
}

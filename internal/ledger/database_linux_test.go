package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
)

// recoverTime bounds how long a server takes to serve new panels again after its database was started. Machines that run tests are busy.
const recoverTime = time.Minute

// killsDatabase gives the load a PostgreSQL of its own, which keeps what was committed, if the tests keep their records in one.
func (l *load) killsDatabase() {
	l.t.Helper()
	if os.Getenv(pgtest.Env) != "postgres" || namespacestest.Inside() {
		return
	}
	l.database = pgtest.Start(l.t)
	l.database.Serve(l.t, l.w.dir)
}

// failPower kills the database a moment before the server.
func (l *load) failPower() {
	l.t.Helper()
	l.outage = func() { l.kill() }
	l.life(l.moment(), os.Kill, nil)
	l.outage = nil
	l.database.Restart(l.t)
	l.tally.databases++
}

// failDatabase kills the database and starts it again while a server serves. The panels work on as if nothing had happened. The host's calls
// may fail until the server has recovered.
func (l *load) failDatabase() {
	l.t.Helper()
	l.outage = func() {}
	l.life(time.Second, os.Kill, func(ctx context.Context, p *process) {
		l.kill()
		l.t.Logf("the database is killed; a server recovered in %s", l.recovered(ctx, p))
	})
	l.outage = nil
	l.tally.databases++
}

func (l *load) kill() { l.database.Kill(l.t) }

// recovered starts the database after a moment, and returns how long the server took to open a panel then.
func (l *load) recovered(ctx context.Context, p *process) time.Duration {
	timer := time.NewTimer(rand.N(time.Second))
	defer timer.Stop()
	<-timer.C
	l.database.Restart(l.t)
	begun := time.Now()
	c, err := p.dial(context.WithoutCancel(ctx))
	if err != nil {
		l.t.Error(err)
		return 0
	}
	defer func() { _ = c.Close() }()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		opened, err := c.OpenPanel(context.WithoutCancel(ctx), l.panels[0].id)
		took := time.Since(begun) // clock: it is printed, and bounds a hang
		switch {
		case err == nil:
			_ = opened.Close()
			return took
		case took > recoverTime || fserr.CodeOf(err) != fserr.EAGAIN:
			l.t.Errorf("%s after the database was started a panel cannot be opened: %v", took, err)
			return took
		}
		<-ticker.C
	}
}

// excused drops an error of the host's that the end of the database explains.
func (l *load) excused(err error) error {
	if l.outage != nil && fserr.CodeOf(err) == fserr.EAGAIN {
		return nil
	}
	return err
}

// databaseKills says how often the database was killed.
func (t *tally) databaseKills() string {
	if t.databases == 0 {
		return ""
	}
	return fmt.Sprintf(", %d kills of the database", t.databases)
}

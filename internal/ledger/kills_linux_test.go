package ledger

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/internal/namespaces/namespacestest"
	"github.com/ctxfs/ctxfs/internal/pgtest"
	"github.com/ctxfs/ctxfs/server"
)

const (
	// killsEnv is how often servers are killed, over all drivers.
	killsEnv = "CTXFS_KILLS"
	// fewKills are those of an ordinary run of the tests.
	fewKills = 8
	// many is from how many kills of this process on every operation must have been in flight.
	many = 100
	// budget bounds the time that the kills of one driver take.
	budget = 15 * time.Minute
)

// TestKills ends servers under load, most of them by kill -9, and one in four by SIGTERM. Some are killed while they start.
func TestKills(t *testing.T) {
	kills := fewKills
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	drivers := drivers(t)
	if !namespacestest.Inside() {
		drivers = append(drivers, server.DriverUserNS) // which a process of an ordinary user has, in namespaces
	}
	share := (kills + len(drivers) - 1) / len(drivers)
	sum := newTally()
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			if driver == server.DriverUserNS && !namespacestest.Inside() {
				database, err := pgtest.Reachable()
				if err != nil {
					t.Fatal(err)
				}
				summaries(namespacestest.Run(t, "^TestKills$", fmt.Sprintf("%s=%d", killsEnv, share), database))
				return
			}
			l := newLoad(t, driver, 6, 2)
			l.killsDatabase()
			begun := time.Now()
			for l.tally.kills < share && time.Since(begun) < budget && !t.Failed() { // clock: how long the test goes on
				switch k := l.rng.IntN(8); {
				case k < 2:
					l.life(l.moment(), syscall.SIGTERM, nil)
				case k == 2:
					l.stillborn()
				case k == 3 && l.database != nil:
					l.failPower()
				case k == 4 && l.database != nil:
					l.failDatabase()
				default:
					l.life(l.moment(), os.Kill, nil)
				}
			}
			if l.tally.kills < share && !t.Failed() {
				t.Errorf("only %d of %d kills in %v", l.tally.kills, share, budget)
			}
			l.last()
			sum.add(l.tally)
		})
	}
	fmt.Println(sum.summary())
	for _, o := range sum.missing() {
		if sum.kills >= many && !namespacestest.Inside() {
			t.Errorf("%s was never in flight at a kill", o)
		}
	}
}

// summaries prints the lines of another run's output that say how it went.
func summaries(out string) {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "ledger: ") {
			fmt.Print("in namespaces: ", line)
		}
	}
}

// moment is when a server is killed, after its workers have begun.
func (l *load) moment() time.Duration {
	return 30*time.Millisecond + time.Duration(l.rng.Int64N(int64(270*time.Millisecond)))
}

// stillborn kills a server while it starts, which is when it clears up after the one before.
func (l *load) stillborn() {
	l.t.Helper()
	p, err := launch(l.w.dir, l.driver)
	must(l.t, err)
	timer := time.NewTimer(time.Duration(l.rng.Int64N(int64(250 * time.Millisecond))))
	defer timer.Stop()
	<-timer.C
	must(l.t, p.end(os.Kill))
	l.tally.kills++
}

// drivers are those that this process can have.
func drivers(t *testing.T) []string {
	if namespacestest.Inside() {
		return []string{server.DriverUserNS}
	}
	if why := server.OverlayRefusal(t.Context(), t.TempDir()); why != "" {
		fmt.Println("ledger: without the overlay driver:", why)
		return []string{server.DriverCopy}
	}
	return []string{server.DriverCopy, server.DriverOverlay}
}

func (t *tally) add(o tally) {
	t.kills += o.kills
	t.stops += o.stops
	t.lost += o.lost
	t.databases += o.databases
	addAll(t.acknowledged, o.acknowledged)
	for name, all := range o.flight {
		for v, n := range all {
			t.saw(name, v, n)
		}
	}
}

func (t *tally) summary() string {
	acknowledged := 0
	for _, n := range t.acknowledged {
		acknowledged += n
	}
	sum := outcomes{}
	for _, all := range t.flight {
		addAll(sum, all)
	}
	return fmt.Sprintf("ledger: %d kills%s, %d orderly stops, %s acknowledged, %d lost; of %d calls in flight %d had happened, %d had not, %d in part, of %d nothing tells it\n%s",
		t.kills, t.databaseKills(), t.stops, grouped(acknowledged), t.lost, sum.sum(), sum[happened], sum[nothing], sum[partly], sum[unseen], t.table())
}

// table says of each operation how often it was acknowledged and in flight, and what became of it then.
func (t *tally) table() string {
	var b strings.Builder
	const row = "%-26s%13s%10s%10s%6s%9s%8s\n"
	fmt.Fprintf(&b, row, "operation", "acknowledged", "in flight", "happened", "not", "in part", "unseen")
	names := maps.Clone(t.acknowledged)
	for name, all := range t.flight {
		names[name] += all.sum()
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		o := t.flight[name]
		fmt.Fprintf(&b, row, name, shown(t.acknowledged[name]), shown(o.sum()), shown(o[happened]), shown(o[nothing]), shown(o[partly]), shown(o[unseen]))
	}
	return b.String()
}

// shown leaves zeros out, so that the others are seen.
func shown(n int) string {
	if n == 0 {
		return "."
	}
	return grouped(n)
}

// grouped writes a number with a comma before each three digits.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// missing are the operations that were never in flight.
func (t *tally) missing() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.acknowledged)), func(name string) bool { return t.flight[name].sum() > 0 })
}

package ledger

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/server"
)

const (
	// soakEnv is how long the soak takes, as Go writes durations; soakDriverEnv by which driver, plotEnv the file of its plot, "" for none.
	soakEnv       = "CTXFS_SOAK"
	soakDriverEnv = "CTXFS_SOAK_DRIVER"
	plotEnv       = "CTXFS_SOAK_PLOT"
	// warm is how long a soak takes whose servers live long enough to be held to growing no more.
	warm = 2 * time.Minute
)

// TestSoak has many panels at work for long, while servers are stopped and killed in turn.
func TestSoak(t *testing.T) {
	if length, err := time.ParseDuration(os.Getenv(soakEnv)); err == nil {
		soakBy(t, cmp.Or(os.Getenv(soakDriverEnv), server.DriverCopy), soak{panels: 200, length: length, every: time.Second, lives: 6})
		return
	}
	for _, driver := range drivers(t) {
		t.Run(driver, func(t *testing.T) {
			soakBy(t, driver, soak{panels: 12, length: 3 * time.Second, every: 100 * time.Millisecond, lives: 2})
		})
	}
}

func soakBy(t *testing.T, driver string, s soak) {
	t.Helper()
	l := newLoad(t, driver, s.panels, 1)
	l.pause, l.chooser.reading = 100*time.Millisecond, 0.5
	s.begun = time.Now()
	for n := 0; (n < 2 || time.Since(s.begun) < s.length) && !t.Failed(); n++ { // clock: how long the test goes on
		sig, how := os.Signal(syscall.SIGTERM), "SIGTERM"
		if n%2 == 1 {
			sig, how = os.Kill, "kill -9"
		}
		life := soakLife{end: how}
		l.life(max(s.length/time.Duration(s.lives), time.Second), sig, func(ctx context.Context, p *process) {
			life.samples = s.watch(ctx, l, p)
		})
		s.lived = append(s.lived, life)
	}
	l.last()
	fmt.Print(s.table(l))
	for i, life := range s.lived {
		if s.length < warm {
			break
		}
		for _, bad := range life.rises() {
			t.Errorf("life %d: %s", i+1, bad)
		}
	}
	if plot := os.Getenv(plotEnv); plot != "" && !t.Failed() {
		must(t, os.WriteFile(plot, []byte(s.svg()), 0o644))
	}
}

// soak is a run, and what was seen.
type soak struct {
	panels int
	length time.Duration
	// every is the time between two samples, lives how many servers there are about.
	every time.Duration
	lives int
	begun time.Time
	lived []soakLife
}

// soakLife is that of one server.
type soakLife struct {
	end     string
	samples []sample
}

// sample is what a server takes at one time.
type sample struct {
	// at is from the soak's beginning on; memory is the resident set, in MiB.
	at                              time.Duration
	memory, descriptors, goroutines float64
	// done is how many operations were acknowledged so far.
	done int64
}

// watch samples a server until ctx ends.
func (s *soak) watch(ctx context.Context, l *load, p *process) []sample {
	var out []sample
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return out
		case <-ticker.C:
		}
		m, err := s.sample(l, p)
		if err != nil {
			l.t.Errorf("look at the server: %v", err)
			return out
		}
		out = append(out, m)
	}
}

func (s *soak) sample(l *load, p *process) (m sample, err error) {
	m.at, m.done = time.Since(s.begun), l.done.Load() // clock: it is plotted
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	if m.memory, err = resident(filepath.Join(proc, "status")); err != nil {
		return m, err
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return m, err
	}
	n, err := p.goroutines()
	m.descriptors, m.goroutines = float64(len(fds)), float64(n)
	return m, err
}

// resident reads VmRSS of a process's status (proc_pid_status(5)), in MiB.
func resident(status string) (float64, error) {
	data, err := os.ReadFile(status)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(f[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no VmRSS", status)
}

// quantity is one thing that must stay flat.
type quantity struct {
	name, unit string
	of         func(sample) float64
	// slack is what it may rise besides a tenth.
	slack float64
}

var quantities = []quantity{
	{"memory", "MiB", func(m sample) float64 { return m.memory }, 8},
	{"descriptors", "", func(m sample) float64 { return m.descriptors }, 20},
	{"goroutines", "", func(m sample) float64 { return m.goroutines }, 20},
}

// thirds are the medians of the middle and the last third; the first is for warming up.
func (s soakLife) thirds(q quantity) (middle, last float64) {
	n := len(s.samples) / 3
	return median(s.samples[n:2*n], q.of), median(s.samples[len(s.samples)-n:], q.of)
}

func median(all []sample, of func(sample) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	var values []float64
	for _, m := range all {
		values = append(values, of(m))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// enough is the number of samples that a conclusion needs.
const enough = 9

// rises says what grew over a server's life.
func (s soakLife) rises() []string {
	var out []string
	for _, q := range quantities {
		if middle, last := s.thirds(q); len(s.samples) >= enough && last > middle*1.1+q.slack {
			out = append(out, fmt.Sprintf("%s rose from %.0f to %.0f %s", q.name, middle, last, q.unit))
		}
	}
	return out
}

// table says what each life took, middle third and last.
//
// clock: it is printed
func (s *soak) table(l *load) string {
	var b strings.Builder
	fmt.Fprintf(&b, "soak: %d panels, driver %s, %v, %d stops, %d kills, %s calls answered, %d lost\n", s.panels, l.driver, time.Since(s.begun).Round(time.Second),
		l.tally.stops, l.tally.kills, grouped(int(l.done.Load())), l.tally.lost)
	fmt.Fprintf(&b, "%-6s%-9s%9s%8s%18s%18s%18s\n", "life", "end", "samples", "ops/s", "memory MiB", "descriptors", "goroutines")
	for i, life := range s.lived {
		fmt.Fprintf(&b, "%-6d%-9s%9d%8.0f", i+1, life.end, len(life.samples), life.rate())
		for _, q := range quantities {
			middle, last := life.thirds(q)
			fmt.Fprintf(&b, "%18s", fmt.Sprintf("%.0f -> %.0f", middle, last))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// rate is operations a second.
func (s soakLife) rate() float64 {
	if len(s.samples) < 2 {
		return 0
	}
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	return float64(last.done-first.done) / (last.at - first.at).Seconds()
}

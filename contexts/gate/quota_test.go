package gate

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/fserr"
)

// measured is an account whose measurements the test chooses.
type measured struct {
	*account
	use   disk.Usage
	err   error
	times int
	clock time.Time
	// takes is how long a measurement takes.
	takes time.Duration
}

func newMeasured(q Quota) *measured {
	m := &measured{clock: time.Unix(1e9, 0)}
	m.account = newAccount(q, func() time.Time { return m.clock }, func(context.Context) (disk.Usage, error) {
		m.times++
		m.clock = m.clock.Add(m.takes)
		return m.use, m.err
	})
	return m
}

func (m *measured) charges(t *testing.T, bytes, entries int64, code fserr.Code, says string) {
	t.Helper()
	err := m.charge(t.Context(), "ctx_a", bytes, entries)
	if code == 0 {
		if err != nil {
			t.Errorf("%d bytes, %d entries: %v", bytes, entries, err)
		}
		return
	}
	wantCode(t, err, code, says)
}

func (m *measured) wantMeasured(t *testing.T, times int) {
	t.Helper()
	if m.times != times {
		t.Errorf("measured %d times, want %d", m.times, times)
	}
}

func TestQuota(t *testing.T) {
	if newAccount(Quota{}, time.Now, nil) != nil {
		t.Error("no quota has an account")
	}
	m := newMeasured(Quota{Bytes: 1600, Entries: 160})
	m.use = disk.Usage{Bytes: 1000, Entries: 50}
	m.charges(t, 100, 10, 0, "")
	m.wantMeasured(t, 0) // a sixteenth is free
	m.charges(t, math.MinInt64, 0, fserr.EDQUOT, "ctx_a")
	m.charges(t, 0, -1, fserr.EDQUOT, "ctx_a")
	m.charges(t, 1, 0, 0, "")
	m.wantMeasured(t, 1)
	// 1,000 are there, plus the charges.
	m.charges(t, 599, 0, 0, "")
	m.wantMeasured(t, 1)
	m.charges(t, 1, 0, fserr.EDQUOT, "has about 1.6 KiB of 1.6 KiB")
	m.wantMeasured(t, 1) // it was measured just now
	m.clock = m.clock.Add(time.Minute)
	m.use.Bytes = 1600
	m.charges(t, 1, 0, fserr.EDQUOT, "1.6 KiB")
	m.charges(t, 1, 0, fserr.EDQUOT, "1.6 KiB")
	m.wantMeasured(t, 2)

	// A refused charge is not counted; after a removal there is room again.
	m.clock = m.clock.Add(time.Minute)
	m.use.Bytes = 800
	m.charges(t, 800, 0, 0, "")
	m.wantMeasured(t, 3)
	m.charges(t, 0, 110, 0, "")
	m.charges(t, 0, 1, fserr.EDQUOT, "160 of 160 files and directories")

	// What cannot be measured stands as it is known.
	m.clock, m.err = m.clock.Add(time.Minute), errors.New("no")
	m.charges(t, 1, 0, fserr.EDQUOT, "")
	m.wantMeasured(t, 4)
}

// TestBaselineMeasuresWhatMayExceedItsQuota asks for baselines: a context that fits its quota is not measured for one.
func TestBaselineMeasuresWhatMayExceedItsQuota(t *testing.T) {
	m := newMeasured(Quota{Bytes: 1600})
	access := &Access{account: m.account}
	want := func(step string, over bool, times int) {
		t.Helper()
		m.clock = m.clock.Add(time.Minute)
		if got := access.Baseline(t.Context()); got.Over != over || over && got.Bytes != m.use.Bytes {
			t.Errorf("%s: got %+v", step, got)
		}
		m.wantMeasured(t, times)
	}
	m.use.Bytes = 2000
	want("unknown", true, 1)
	want("too much", true, 2)
	m.use.Bytes = 1000
	want("less", false, 3)
	want("a user may have written", false, 4)
	m = newMeasured(Quota{Bytes: 1600})
	access = &Access{account: m.account}
	m.use.Bytes = 1000
	m.charges(t, 200, 0, 0, "")
	want("known to fit", false, 1)
	m.use.Bytes = 2000
	want("filled by the user before", true, 2)
	if got := (&Access{}).Baseline(t.Context()); got != (Usage{}) {
		t.Errorf("no quota: %+v", got)
	}
}

// TestQuotaIsMeasuredWhenTheFileSystemLosesSpace has the file system lose space between measurements that take long. Without that the context is
// measured for a 20th of the time.
func TestQuotaIsMeasuredWhenTheFileSystemLosesSpace(t *testing.T) {
	const long = 10 * time.Second
	quota := Quota{Bytes: 1600, Entries: 160}
	for name, c := range map[string]struct {
		quota      Quota
		use        disk.Usage
		then       disk.Space
		wantAtOnce bool
	}{
		"as before":               {quota, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Bytes: 5000, Entries: 500}, false},
		"less than fits":          {quota, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Bytes: 4400, Entries: 390}, false},
		"more bytes":              {quota, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Bytes: 4399, Entries: 500}, true},
		"more entries":            {quota, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Bytes: 5000, Entries: 389}, true},
		"no bound of entries":     {Quota{Bytes: 1600}, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Bytes: 5000}, false},
		"no bound of bytes":       {Quota{Entries: 160}, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Entries: 500}, false},
		"it exceeds its quota":    {quota, disk.Usage{Bytes: 2000, Entries: 50}, disk.Space{Bytes: 5000, Entries: 500}, true},
		"entries are not counted": {quota, disk.Usage{Bytes: 1000, Entries: 50}, disk.Space{Bytes: 5000}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeasured(c.quota)
			free := disk.Space{Bytes: 5000, Entries: 500}
			if name == "entries are not counted" {
				free.Entries = 0
			}
			m.space = func() (disk.Space, error) { return free, nil }
			m.use, m.takes = c.use, long
			access := &Access{account: m.account}
			got := access.Usage(t.Context())
			m.wantMeasured(t, 1)
			free = c.then
			if got.Fits(free) == c.wantAtOnce {
				t.Errorf("with %+v free, Fits returns %t", free, !c.wantAtOnce)
			}
			m.clock = m.clock.Add(time.Second - 1)
			access.Usage(t.Context())
			m.wantMeasured(t, 1)
			m.clock = m.clock.Add(1)
			access.Usage(t.Context())
			want := 1
			if c.wantAtOnce {
				want = 2
			}
			m.wantMeasured(t, want)
			m.clock = m.clock.Add(measureShare * long)
			access.Usage(t.Context())
			m.wantMeasured(t, want+1)
		})
	}
	if (Usage{}).Fits(disk.Space{Bytes: math.MaxInt64, Entries: math.MaxInt64}) {
		t.Error("a context that was not measured fits its quota")
	}
}

// TestBaselineOfAFullContextIsNew asks for baselines at once after a measurement, of a context whose user wrote on until it ended.
func TestBaselineOfAFullContextIsNew(t *testing.T) {
	m := newMeasured(Quota{Bytes: 1000})
	access := &Access{account: m.account}
	m.use.Bytes = 1100
	access.Usage(t.Context())
	for _, bytes := range []int64{1300, 1200, 900} {
		m.use.Bytes = bytes
		if got := access.Baseline(t.Context()); got.Bytes != bytes || got.Over != (bytes > 1000) {
			t.Errorf("the context takes %d bytes: %+v", bytes, got)
		}
	}
	m.wantMeasured(t, 4)
	free := disk.Space{Bytes: 5000}
	m.space = func() (disk.Space, error) { return free, nil }
	m.clock = m.clock.Add(time.Minute)
	access.Usage(t.Context())
	free.Bytes -= 100
	access.Baseline(t.Context())
	m.wantMeasured(t, 5) // the file system shows that it fits
	free.Bytes--
	m.use.Bytes = 1001
	if got := access.Baseline(t.Context()); !got.Over {
		t.Errorf("it fitted its quota just before: %+v", got)
	}
}

// TestQuotaIsMeasuredSoonWhenMuchIsLost has the file system lose more than the context could take, or a little more, beside measurements of all
// lengths: they rest as long as one takes, and at most a second.
func TestQuotaIsMeasuredSoonWhenMuchIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		takes, rest time.Duration
		use, lost   disk.Space
	}{
		"quick":                            {time.Millisecond, minRest, disk.Space{Bytes: 1000}, disk.Space{Bytes: 601}},
		"quick, entries":                   {time.Millisecond, minRest, disk.Space{Entries: 50}, disk.Space{Entries: 111}},
		"slower":                           {300 * time.Millisecond, 300 * time.Millisecond, disk.Space{Bytes: 1000}, disk.Space{Bytes: 601}},
		"slow":                             {time.Minute, maxRest, disk.Space{Bytes: 1000}, disk.Space{Bytes: 601}},
		"it is almost full, by a 16th":     {time.Millisecond, maxRest, disk.Space{Bytes: 1600}, disk.Space{Bytes: 100}},
		"it is almost full, by more":       {time.Millisecond, minRest, disk.Space{Bytes: 1600}, disk.Space{Bytes: 101}},
		"it exceeds its quota, by a 16th":  {time.Millisecond, maxRest, disk.Space{Bytes: 2000}, disk.Space{Bytes: 100}},
		"it exceeds its quota, by more":    {time.Millisecond, minRest, disk.Space{Bytes: 2000}, disk.Space{Bytes: 101}},
		"it exceeds its quota, by entries": {time.Millisecond, minRest, disk.Space{Entries: 200}, disk.Space{Entries: 11}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeasured(Quota{Bytes: 1600, Entries: 160})
			free := disk.Space{Bytes: 5000, Entries: 500}
			m.space = func() (disk.Space, error) { return free, nil }
			m.use, m.takes = disk.Usage{Bytes: c.use.Bytes, Entries: c.use.Entries}, c.takes
			access := &Access{account: m.account}
			got := access.Usage(t.Context())
			free.Bytes, free.Entries = free.Bytes-c.lost.Bytes, free.Entries-c.lost.Entries
			if want := c.rest == minRest || c.takes > minRest; got.Lost(free) != want {
				t.Errorf("lost is %t", !want)
			}
			m.clock = m.clock.Add(c.rest - 1)
			access.Usage(t.Context())
			m.wantMeasured(t, 1)
			m.clock = m.clock.Add(1)
			access.Usage(t.Context())
			m.wantMeasured(t, 2)
		})
	}
	for name, u := range map[string]Usage{
		"not measured":            {Max: Quota{Bytes: 1, Entries: 1}},
		"no bounds":               {Bytes: 1000, Entries: 1000, Floor: new(disk.Space)},
		"entries are not counted": {Max: Quota{Entries: 1}, Floor: &disk.Space{Entries: math.MaxInt64}},
	} {
		if u.Lost(disk.Space{}) {
			t.Errorf("%s: lost", name)
		}
	}
	large := Usage{Bytes: 1 << 40, Max: Quota{Bytes: 1 << 40}, Floor: &disk.Space{Bytes: 1 << 40}}
	if large.Lost(disk.Space{Bytes: 1<<40 - slack}) || !large.Lost(disk.Space{Bytes: 1<<40 - slack - 1}) {
		t.Error("a full context of 1 TiB counts as lost with another slack")
	}
}

// TestQuotaIsNotOverflowed has sparse files, which may say that they have 8 EiB, be copied.
func TestQuotaIsNotOverflowed(t *testing.T) {
	m := newMeasured(Quota{Bytes: 1600, Entries: 160})
	m.charges(t, 10, 1, 0, "")
	m.charges(t, math.MaxInt64, 1, fserr.EDQUOT, "has about 10 B of 1.6 KiB")
	m.charges(t, 1, math.MaxInt64, fserr.EDQUOT, "has about 1 of 160 files and directories")
	m.wantMeasured(t, 0)
	if b, e := m.bytes.Load(), m.entries.Load(); b != 10 || e != 1 {
		t.Errorf("%d bytes, %d entries are charged", b, e)
	}
}

// TestChargeDoesNotOutlastItsCaller has one caller measure, and another one that waits for it give up.
func TestChargeDoesNotOutlastItsCaller(t *testing.T) {
	measuring, hold := make(chan struct{}), make(chan struct{})
	a := newAccount(Quota{Bytes: 1600}, time.Now, func(context.Context) (disk.Usage, error) {
		close(measuring)
		<-hold
		return disk.Usage{}, nil
	})
	first := make(chan error, 1)
	go func() { first <- a.charge(context.Background(), "ctx_a", 200, 0) }()
	<-measuring
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, a.charge(ctx, "ctx_a", 300, 0), fserr.EAGAIN, "ctx_a")
	close(hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if got := a.bytes.Load(); got != 200 {
		t.Errorf("%d bytes are charged, want the first caller's 200", got)
	}
}

// wantCode checks an error's errno, and that its text has all parts.
func wantCode(t *testing.T, err error, code fserr.Code, parts ...string) {
	t.Helper()
	if fserr.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

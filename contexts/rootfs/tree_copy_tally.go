package rootfs

import (
	"sync"
	"time"
)

// progressEvery bounds how often CopyOptions.Progress is called.
const progressEvery = 100 * time.Millisecond

// tally counts for the report and serialises the callbacks.
type tally struct {
	mu     sync.Mutex
	opts   CopyOptions
	report CopyReport
	told   time.Time
}

func newTally(opts CopyOptions) *tally { return &tally{opts: opts} }

func (t *tally) bytes(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Bytes += n
	t.tell(false)
}

// file counts a copied file or link, whose content was counted by bytes.
func (t *tally) file(rel string, st Stat, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Files++
	if t.opts.Record != nil {
		t.opts.Record(rel, st, target)
	}
	t.tell(false)
}

func (t *tally) record(rel string, st Stat, target string) {
	if t.opts.Record == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opts.Record(rel, st, target)
}

func (t *tally) special() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Special++
}

func (t *tally) unstable(rel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Unstable = append(t.report.Unstable, rel)
}

// tell calls Progress, but not too often; mu is held.
func (t *tally) tell(last bool) {
	if t.opts.Progress == nil || (!last && time.Since(t.told) < progressEvery) {
		return
	}
	t.told = time.Now()
	t.opts.Progress(t.report.CopyProgress)
}

// finish tells the last progress and returns the report.
func (t *tally) finish() CopyReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(true)
	return t.report
}

package feed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// open counts the descriptors of files of the feeds.
func (p *play) open() (n int) {
	p.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		p.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, p.cfg.Dir+"/") {
			n++
		}
	}
	return n
}

// TestIdleFeedsKeepNoDescriptor has a feed with a reader that waits, and one that comes later.
func TestIdleFeedsKeepNoDescriptor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t)
		waiting := p.read("")
		p.add("one")
		p.want(waiting, "one")
		time.Sleep(idleTime / 2)
		p.add("two")
		p.want(waiting, "two")
		time.Sleep(idleTime / 2)
		if p.open() == 0 {
			t.Error("a feed in use is closed")
		}
		grown := waiting.Grown()
		time.Sleep(idleTime)
		<-grown
		if _, ok, err := waiting.Next(); ok || err != nil {
			t.Errorf("an idle feed has an event: %v, %v", ok, err)
		}
		if n := p.open(); n != 0 {
			t.Errorf("%d files of an idle feed are open", n)
		}
		select {
		case <-waiting.Grown():
			t.Error("a reader of an idle feed does not wait")
		default:
		}
		cursor := waiting.Cursor()
		p.add("three")
		p.want(waiting, "three")
		p.want(p.read(cursor), "three")
		waiting.Close()
		time.Sleep(2 * idleTime) // idle again, until the server stops
		p.stop()
		p.start()
		p.want(p.read(cursor), "three")
		p.add("four")
		p.stop()
	})
}

// TestIdleFeedOfAKilledServer: what it did without an answer is not known, although the feed was closed.
func TestIdleFeedOfAKilledServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t)
		r := p.read("")
		p.add("one")
		p.want(r, "one")
		time.Sleep(2 * idleTime)
		synctest.Wait()
		p.kill()
		p.start()
		p.want(p.read(r.Cursor()), "interrupted")
		p.stop()
	})
}

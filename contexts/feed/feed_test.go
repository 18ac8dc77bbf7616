package feed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play is a directory of feeds that servers open one after the other.
type play struct {
	*testing.T
	cfg   Config
	feeds *Feeds
}

func newPlay(t *testing.T) *play {
	t.Helper()
	p := &play{T: t, cfg: Config{
		Dir: filepath.Join(t.TempDir(), "feeds"), MaxBytes: MinBytes, Interrupted: func() []byte { return []byte("interrupted") }, boot: "this boot",
	}}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *play) start() {
	p.Helper()
	var err error
	if p.feeds, err = Open(p.cfg); err != nil {
		p.Fatal(err)
	}
}

// stop is an orderly end of the server.
func (p *play) stop() {
	p.Helper()
	if err := p.feeds.Close(); err != nil {
		p.Fatal(err)
	}
}

// kill leaves on disk what a killed server leaves.
func (p *play) kill() {
	for _, f := range p.feeds.feeds {
		if f.log != nil {
			_ = f.log.close()
		}
	}
}

func (p *play) add(records ...string) {
	p.Helper()
	for _, r := range records {
		if err := p.feeds.Of("ctx_a").Append([]byte(r)); err != nil {
			p.Fatal(err)
		}
	}
}

// read returns a reader behind a cursor.
func (p *play) read(cursor string) *Reader {
	p.Helper()
	r, err := p.feeds.Read("ctx_a", cursor)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(r.Close)
	return r
}

// want compares what a reader has next with records; "!" begins part of the reason of a reset.
func (p *play) want(r *Reader, all ...string) {
	p.Helper()
	for _, want := range all {
		e, ok, err := r.Next()
		if err != nil || !ok {
			p.Fatalf("%v, %v, want %q", ok, err, want)
		}
		reason, reset := strings.CutPrefix(want, "!")
		if reset && (e.Reset == "" || !strings.Contains(e.Reset, reason)) || !reset && string(e.Record) != want {
			p.Fatalf("the feed has %q and reset %q, want %q", e.Record, e.Reset, want)
		}
		if e.Cursor != r.Cursor() {
			p.Errorf("the cursor of %q is not the reader's", want)
		}
	}
	if e, ok, err := r.Next(); ok || err != nil {
		p.Fatalf("the feed continues with %q, %q, %v", e.Record, e.Reset, err)
	}
}

func (p *play) segments() []string {
	p.Helper()
	list, err := filepath.Glob(filepath.Join(p.cfg.Dir, "ctx_a", "*"+logSuffix))
	if err != nil {
		p.Fatal(err)
	}
	return list
}

func TestFeedIsMadeByItsFirstReader(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	if p.feeds.Some() || p.feeds.Of("ctx_a") != nil {
		t.Error("there is a feed, and no reader")
	}
	if _, err := os.Stat(p.cfg.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there before the first feed: %v", err)
	}
	r := p.read("")
	p.add("1", "2")
	p.want(r, "1", "2")
	if p.feeds.Of("ctx_b") != nil {
		t.Error("another context has a feed")
	}
}

func TestEndsOfTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(p *play)
		want []string
	}{
		"it stops":                 {(*play).stop, []string{"2", "3"}},
		"it is killed":             {(*play).kill, []string{"2", "interrupted", "3"}},
		"it is killed in a write":  {func(p *play) { p.tear(5) }, []string{"2", "interrupted", "3"}},
		"it is killed in a length": {func(p *play) { p.tear(9) }, []string{"2", "interrupted", "3"}},
		"the machine crashes":      {func(p *play) { p.kill(); p.cfg.boot = "the next boot" }, []string{"!began anew"}},
		"a record is damaged":      {(*play).damage, []string{"!began anew"}},
		"it is restored from a backup": {func(p *play) {
			p.stop()
			dir := filepath.Join(p.cfg.Dir, "ctx_a")
			if err := errors.Join(os.CopyFS(dir+"-copy", os.DirFS(dir)), os.RemoveAll(dir), os.Rename(dir+"-copy", dir)); err != nil {
				p.Fatal(err)
			}
		}, []string{"!began anew"}},
		"it stops, and the name is lost": {func(p *play) {
			p.stop()
			_ = os.Remove(filepath.Join(p.cfg.Dir, "ctx_a", nameFile))
		}, []string{"!began anew"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			r := p.read("")
			p.add("1")
			p.want(r, "1")
			p.add("2")
			c.end(p)
			p.start()
			p.add("3")
			again := p.read(r.Cursor())
			p.want(again, c.want...)
			p.add("4")
			p.want(again, "4")
			p.want(p.read(again.Cursor()))
		})
	}
}

// tear is a kill in a write of which n bytes less than half a record were written.
func (p *play) tear(n int) {
	p.Helper()
	p.kill()
	list := p.segments()
	f, err := os.OpenFile(list[len(list)-1], os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.Write([]byte{0, 0, 0, 20, 1, 2, 3, 4, 5}[:n])
	}
	if err = errors.Join(err, f.Close()); err != nil {
		p.Fatal(err)
	}
}

// damage changes a byte of the last record.
func (p *play) damage() {
	p.Helper()
	p.kill()
	list := p.segments()
	text, err := os.ReadFile(list[len(list)-1])
	if err != nil {
		p.Fatal(err)
	}
	text[len(text)-1]++
	if err := os.WriteFile(list[len(list)-1], text, 0o600); err != nil {
		p.Fatal(err)
	}
}

// TestOldChangesAreDropped appends three times what is kept, with a reader that follows, one that sleeps, and one that comes back.
func TestOldChangesAreDropped(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	follows, sleeps := p.read(""), p.read("")
	p.add("first")
	p.want(follows, "first")
	p.want(sleeps, "first")
	old := sleeps.Cursor()
	const size = 64 << 10
	for i := range 3 * MinBytes / size {
		record := fmt.Sprintf("%0*d", size, i)
		p.add(record)
		p.want(follows, record)
	}
	if kept := int64(len(p.segments())) * maxSegment; kept > MinBytes {
		t.Errorf("the feed keeps up to %d bytes, more than %d", kept, MinBytes)
	}
	p.want(sleeps, "!not kept")
	p.want(p.read(old), "!not kept")
	p.add("last")
	p.want(sleeps, "last")
	p.want(follows, "last")
	p.stop()
	p.start()
	p.add("after a restart")
	p.want(p.read(follows.Cursor()), "after a restart")
}

func TestFeedRemovedByHandIsReset(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	r := p.read("")
	p.add("1")
	p.want(r, "1")
	if err := os.RemoveAll(p.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	p.add("2")
	r.Close()
	p.want(r, "!could not be recorded")
	if err := os.RemoveAll(p.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.start()
	p.want(p.read(r.Cursor()), "!began anew")
}

func TestCursorsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	mine := p.read("").Cursor()
	if _, err := p.feeds.Read("ctx_b", mine); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("a cursor of another context is %v", err)
	}
	for _, bad := range []string{"x", mine + "!", "f1" + mine, strings.ToUpper(mine), mine + "-1"} {
		if _, err := p.feeds.Read("ctx_a", bad); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("the cursor %q is %v", bad, err)
		}
	}
	p.want(p.read(makeCursor("ctx_a", p.feeds.Of("ctx_a").name, 99)), "!lost changes")
}

func TestReadersOfADeletedContextEnd(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	r := p.read("")
	grown := r.Grown()
	if err := p.feeds.Drop("ctx_a"); err != nil {
		t.Fatal(err)
	}
	<-grown
	if _, _, err := r.Next(); fserr.CodeOf(err) != fserr.ESTALE {
		t.Errorf("got %v, want ESTALE", err)
	}
	if _, err := os.Stat(filepath.Join(p.cfg.Dir, "ctx_a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the feed is there: %v", err)
	}
	p.want(p.read(r.Cursor()), "!began anew")
}

// TestSleepingReadersDoNotBlockWriters appends more than a reader could hold, while three readers do not read.
func TestSleepingReadersDoNotBlockWriters(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	readers := []*Reader{p.read(""), p.read(""), p.read("")}
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprint(i))
	}
	p.add(want...)
	for _, r := range readers {
		p.want(r, want...)
	}
}

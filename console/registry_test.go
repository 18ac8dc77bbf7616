package console_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/fserr"
)

// desk is a registry with a clock of its own, the consoles that have a stream open, and those that it said have ended.
type desk struct {
	*testing.T
	*console.Registry
	now   time.Time
	busy  map[console.Hash]bool
	ended map[console.Hash]bool
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, now: time.Unix(1_800_000_000, 0), busy: map[console.Hash]bool{}, ended: map[console.Hash]bool{}}
	d.Registry = console.NewRegistry(console.Config{
		Now:   func() time.Time { return d.now },
		Busy:  func(h console.Hash) bool { return d.busy[h] },
		Ended: func(c console.Console) { d.ended[c.Hash] = true },
	})
	return d
}

// code returns a new code.
func (d *desk) code() string {
	d.Helper()
	code, expires, err := d.Open(0)
	if err != nil || !expires.Equal(d.now.Add(console.CodeLife)) {
		d.Fatalf("Open: until %v, %v", expires, err)
	}
	return code
}

// open opens a console.
func (d *desk) open() (token string, c console.Console) {
	d.Helper()
	token, c, err := d.Exchange(d.code())
	if err != nil {
		d.Fatal(err)
	}
	return token, c
}

// alive reports whether a token works.
func (d *desk) alive(token string) bool {
	d.Helper()
	_, err := d.Authenticate(token)
	if err != nil && (fserr.CodeOf(err) != fserr.EACCES || !strings.Contains(err.Error(), "ctxfs console")) {
		d.Errorf("Authenticate: %v", err)
	}
	return err == nil
}

func TestCodeWorksOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	code := d.code()
	token, c, err := d.Exchange(code)
	if err != nil || !strings.HasPrefix(token, console.TokenPrefix) || len(token) != len(console.TokenPrefix)+43 || !d.alive(token) {
		t.Fatalf("Exchange: %q, %v", token, err)
	}
	if again, _, err := d.Exchange(code); !errors.Is(err, console.ErrUsed) || again != "" {
		t.Errorf("the second use: %q, %v", again, err)
	}
	if d.alive(token) || !d.ended[c.Hash] {
		t.Error("the console of the first use is alive")
	}
	if _, _, err := d.Exchange(code); !errors.Is(err, console.ErrUnknownCode) {
		t.Errorf("the third use: %v", err)
	}
}

func TestSecondUseLaterEndsConsole(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	code := d.code()
	token, _, err := d.Exchange(code)
	if err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(20 * time.Minute) // the code itself would have expired
	if _, _, err := d.Exchange(code); !errors.Is(err, console.ErrUsed) || d.alive(token) {
		t.Errorf("the second use: %v", err)
	}
}

func TestCodeExpires(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, ttl := range []time.Duration{-1, console.CodeLife + 1} {
		if _, _, err := d.Open(ttl); fserr.CodeOf(err) != fserr.EINVAL {
			t.Errorf("Open(%v): %v", ttl, err)
		}
	}
	code, _, err := d.Open(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	last := d.code()
	d.now = d.now.Add(time.Second)
	if _, _, err := d.Exchange(code); !errors.Is(err, console.ErrUnknownCode) || !strings.Contains(err.Error(), "run 'ctxfs console' again") {
		t.Errorf("after its life: %v", err)
	}
	d.now = d.now.Add(console.CodeLife - time.Second - 1)
	if _, _, err := d.Exchange(last); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	for _, code := range []string{"", "x", strings.Repeat("A", 43)} {
		if _, _, err := d.Exchange(code); !errors.Is(err, console.ErrUnknownCode) {
			t.Errorf("%q: %v", code, err)
		}
	}
}

func TestConsoleEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pass  func(d *desk, hash console.Hash)
		alive bool
	}{
		"it was just opened":          {func(*desk, console.Hash) {}, true},
		"just before it is idle":      {func(d *desk, _ console.Hash) { d.now = d.now.Add(console.IdleLife - 1) }, true},
		"idle":                        {func(d *desk, _ console.Hash) { d.now = d.now.Add(console.IdleLife) }, false},
		"a stream is open":            {func(d *desk, h console.Hash) { d.busy[h] = true; d.now = d.now.Add(console.Life - 1) }, true},
		"a stream is open to the end": {func(d *desk, h console.Hash) { d.busy[h] = true; d.now = d.now.Add(console.Life) }, false},
		"a stream has just ended": {func(d *desk, h console.Hash) {
			d.now = d.now.Add(2 * console.IdleLife)
			d.Used(h)
		}, true},
		"it ended itself": {func(d *desk, h console.Hash) {
			if !d.End(h) || d.End(h) {
				d.Error("End: want true, then false")
			}
		}, false},
		"all were ended": {func(d *desk, _ console.Hash) {
			if n := d.EndAll(); n != 1 {
				d.Errorf("EndAll ended %d", n)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			token, opened := d.open()
			c.pass(d, opened.Hash)
			if got := d.alive(token); got != c.alive {
				t.Errorf("alive: %v", got)
			}
		})
	}
}

func TestUseKeepsConsoleAlive(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token, opened := d.open()
	for d.now.Add(20 * time.Minute).Before(opened.ExpiresAt) {
		if d.now = d.now.Add(20 * time.Minute); !d.alive(token) {
			t.Fatalf("it ended %v before its time", opened.ExpiresAt.Sub(d.now))
		}
	}
	if d.now = d.now.Add(20 * time.Minute); d.alive(token) {
		t.Error("it outlives 12 hours")
	}
}

func TestEndAllEndsCodes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	code := d.code()
	d.EndAll()
	if _, _, err := d.Exchange(code); !errors.Is(err, console.ErrUnknownCode) {
		t.Errorf("a code from before: %v", err)
	}
}

func TestCodesAndConsolesAreBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var codes, tokens []string
	for i := range 65 {
		d.now = d.now.Add(time.Millisecond)
		token, _ := d.open()
		if tokens = append(tokens, token); i == 10 {
			continue
		}
		if i > 0 && !d.alive(tokens[0]) {
			t.Fatalf("the first console ended at %d", i)
		}
	}
	if len(d.ended) != 1 || d.alive(tokens[1]) || !d.alive(tokens[0]) || !d.alive(tokens[64]) {
		t.Errorf("%d consoles were ended; want the one whose last use was longest ago", len(d.ended))
	}
	for range 65 {
		d.now = d.now.Add(time.Millisecond)
		codes = append(codes, d.code())
	}
	for i, want := range map[int]bool{0: false, 1: true, 64: true} {
		if _, _, err := d.Exchange(codes[i]); (err == nil) != want {
			t.Errorf("code %d: %v", i, err)
		}
	}
}

func TestSecretsDiffer(t *testing.T) {
	t.Parallel()
	d, seen := newDesk(t), map[string]bool{}
	for range 20 {
		seen[d.code()] = true
	}
	if len(seen) != 20 {
		t.Error(fmt.Sprint(len(seen), " codes of 20 differ"))
	}
}

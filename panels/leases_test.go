package panels

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/fserr"
)

// lobby counts what ended, under a clock that only moves by sleeping.
type lobby struct {
	*testing.T
	*Leases
	mu    sync.Mutex
	ended []string
}

func inLobby(t *testing.T, f func(l *lobby)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{T: t}
		l.Leases = NewLeases(DefaultGrace, func(owner, instance string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ended = append(l.ended, owner+"/"+instance)
		})
		defer l.Close()
		f(l)
	})
}

func (l *lobby) hold(instance string, resumed bool) (release func()) {
	l.Helper()
	release, got := l.Hold("p", instance)
	if got != resumed {
		l.Errorf("hold of %s: resumed %v, want %v", instance, got, resumed)
	}
	return release
}

// after lets time pass and checks what has ended by then.
func (l *lobby) after(d time.Duration, want ...string) {
	l.Helper()
	// clock: each play has a bubble
	time.Sleep(d)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := strings.Join(l.ended, " "); got != strings.Join(want, " ") {
		l.Errorf("ended: %q, want %q", got, strings.Join(want, " "))
	}
}

func TestLeases(t *testing.T) {
	for name, play := range map[string]func(l *lobby){
		"it lasts as long as its stream": func(l *lobby) {
			release := l.hold("a", false)
			l.after(time.Hour)
			release()
		},
		"it ends after the grace, once": func(l *lobby) {
			l.hold("a", false)()
			l.after(DefaultGrace - 1)
			l.after(1, "p/a")
			l.after(time.Hour, "p/a")
			l.hold("a", false)()
		},
		"who comes back in time goes on": func(l *lobby) {
			l.hold("a", false)()
			l.after(DefaultGrace - 1)
			release := l.hold("a", true)
			l.after(time.Hour)
			release()
			l.after(DefaultGrace, "p/a")
		},
		"a late end of the old stream ends nothing": func(l *lobby) {
			old := l.hold("a", false)
			release := l.hold("a", true)
			old()
			l.after(time.Hour)
			release()
			l.after(DefaultGrace, "p/a")
		},
		"another instance is another lease": func(l *lobby) {
			l.hold("a", false)()
			release := l.hold("b", false)
			l.after(time.Hour, "p/a")
			release()
		},
		"a dropped one calls nobody": func(l *lobby) {
			l.hold("a", false)()
			release := l.hold("b", false)
			l.Drop("p")
			release()
			l.after(time.Hour)
			release = l.hold("b", false)
			l.after(time.Hour)
			release()
		},
		"the end of a dropped one does not end its successor": func(l *lobby) {
			old := l.hold("a", false)
			l.Drop("p")
			release := l.hold("a", false)
			old()
			l.after(time.Hour)
			release()
			l.after(DefaultGrace, "p/a")
		},
		"it is held until its grace is over": func(l *lobby) {
			l.hold("a", false)()
			if !l.Held("p", "a") || l.Held("q", "a") || l.Count() != 1 {
				l.Error("in its grace it should be held")
			}
			l.after(DefaultGrace, "p/a")
			if l.Held("p", "a") || l.Count() != 0 {
				l.Error("after its grace it should not be held")
			}
		},
		"after Close nothing ends": func(l *lobby) {
			l.hold("a", false)()
			release := l.hold("b", false)
			l.Close()
			release()
			l.after(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) { inLobby(t, play) })
	}
}

func TestCheckInstance(t *testing.T) {
	for name, ok := range map[string]bool{
		"": false, "a": true, "A-z_0.9": true, "a/b": false, "a b": false, "ü": false, "a\x00": false,
		strings.Repeat("x", MaxInstance): true, strings.Repeat("x", MaxInstance+1): false,
	} {
		if err := CheckInstance(name); ok != (err == nil) || (err != nil && fserr.CodeOf(err) != fserr.EINVAL) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

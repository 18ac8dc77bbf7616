package attack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// TestCheckersFind does by hand what no attack may, and expects each checker to say so.
func TestCheckersFind(t *testing.T) {
	w := newWorld(t, config{driver: "copy", implementation: "openat2", transport: "unary"})
	inside := func() { w.checkInside("by hand", names("d/planted")) }
	logged := func() { w.checkLog("by hand") }
	outside := func() { w.checkAll("by hand") }
	path := func(name string) string { return filepath.Join(w.dir, "d", name) }
	for _, c := range []struct {
		name  string
		do    func() error
		check func()
		says  string
	}{
		{"nothing", func() error { return nil }, func() { inside(); outside() }, ""},
		{"what the case itself planted", func() error { return os.WriteFile(path("planted"), []byte(w.secret), 0o600) }, inside, ""},
		{"content", func() error { return os.WriteFile(path("stolen"), []byte("x"+w.secret), 0o600) }, inside, "d/stolen has outside content"},
		{"a name", func() error { return os.Mkdir(path("name-"+w.secret), 0o700) }, inside, "has come in"},
		{"a setuid file", func() error { return unix.Chmod(path("plain"), 0o4755) }, inside, "d/plain is setuid"},
		{"a setgid directory", func() error { return unix.Chmod(path("in"), 0o2755) }, inside, "d/in is setuid"},
		{"a file outside", func() error { return os.WriteFile(w.in("outside", "new"), nil, 0o600) }, outside, "outside/new is new"},
		{"a file where a mover goes", func() error { return os.WriteFile(filepath.Join(w.away(), "new"), nil, 0o600) }, outside, "away/new is new"},
		{"a content outside", func() error { return os.WriteFile(w.in("outside", "target"), nil, 0o600) }, outside, "outside/target was"},
		{"a path in a call's line", w.say("call", w.base), logged, "carries a server path"},
		{"a path in another line", w.say("seeding failed", w.base), logged, "carries a server path"},
		{"a path for the operator", w.say("serving", w.base), logged, ""},
		{"content for the operator", w.say("serving", w.secret), logged, "carries outside content"},
		{"a text that is no line", func() error { _, err := w.log.Write([]byte(w.base + "\n")); return err }, logged, "carries a server path"},
		{"another context is gone", func() error { return os.Remove(filepath.Join(w.victim.dir, "README.md")) }, func() { w.checkVictim("by hand") }, "another context: "},
	} {
		w.replant(row{})
		w.must(c.do())
		c.check()
		found := strings.Join(w.takeLeaks(), "\n")
		if c.says == "" && found != "" || !strings.Contains(found, c.says) {
			t.Errorf("%s: found %q, want %q", c.name, found, c.says)
		}
		w.repair()
	}
}

// say logs a line.
func (w *world) say(msg, text string) func() error {
	return func() error {
		w.log.logger().Info(msg, zap.Error(errors.New(text)))
		return nil
	}
}

// TestHeldResourcesAreFound holds more than is spared.
func TestHeldResourcesAreFound(t *testing.T) {
	base := resources{descriptors: 10, goroutines: 20, heap: 1 << 20}
	for name, now := range map[string]resources{
		"descriptors": {10 + spareDescriptors + 1, 20, 0}, "goroutines": {10, 20 + spareGoroutines + 1, 0}, "memory": {10, 20, base.heap + spareHeap + 1},
	} {
		if now.within(base) {
			t.Errorf("%s are not missed: %+v", name, now)
		}
	}
	if !base.within(base) {
		t.Error("nothing is found to be something")
	}
}

// TestIdleRacesAreFound counts what never worked.
func TestIdleRacesAreFound(t *testing.T) {
	var idle, busy tally
	for range plenty {
		idle.count("read", false)
		busy.count("read", false)
	}
	busy.count("read", true)
	busy.turned, busy.asked = 1, 1
	if found := idle.idle(); len(found) != 3 {
		t.Errorf("of an idle race: %q", found)
	}
	if found := busy.idle(); len(found) != 0 {
		t.Errorf("of a busy one: %q", found)
	}
	idle.add(busy)
	if found := idle.idle(); len(found) != 0 || idle.tried() != 2*plenty+1 {
		t.Errorf("of both: %q, %+v", found, idle)
	}
}

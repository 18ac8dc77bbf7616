package exec

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
)

// TestQuotaIsMeasuredAfterWaiting has a look at what commands keep wait for another one of the context, while the context grows beyond its quota.
func TestQuotaIsMeasuredAfterWaiting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// grows is when the context exceeds its quota, waits how long the other look takes.
		grows, waits time.Duration
		wantMeasured int
		want         bool
	}{
		"it does not wait":                       {grows: time.Hour, wantMeasured: 1},
		"it grows while it waits":                {grows: time.Second, waits: time.Minute, wantMeasured: 2, want: true},
		"it has not grown":                       {grows: time.Hour, waits: time.Minute, wantMeasured: 2},
		"it has grown before, and does not wait": {waits: time.Hour, wantMeasured: 1, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				own, begun, measured := newKeeper(), time.Now(), 0
				if c.waits > 0 {
					own.turn <- struct{}{}
					time.AfterFunc(c.waits, func() { <-own.turn })
				}
				quota := toldQuota{usage: func() contexts.Usage {
					measured++
					grown := time.Since(begun) >= c.grows
					return contexts.Usage{Bytes: 20, Over: grown}
				}}
				access := contexts.NewRemoteAccess(t.Context(), &lossyRoot{}, 0, quota, func() {})
				table := &Processes{keepers: map[contexts.ID]*keeper{"": own}, measureTime: measureTime}
				g := gauge{Process: &Process{table: table}, access: access, looks: lookEvery}
				g.look(t.Context(), true)
				if g.known.Over != c.want || measured != c.wantMeasured {
					t.Errorf("measured %d times, over is %t", measured, g.known.Over)
				}
				if measured == 2 && g.looks != lookEvery {
					t.Error("the next time it does not look at what commands keep")
				}
			})
		})
	}
}

// TestLookAtOneContextKeepsNoOtherWaiting has a look at what the commands of a context keep last until the one that looks is ended. Another command
// of the context waits for that look. It takes two seconds: a command is looked at every second.
func TestLookAtOneContextKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	s := quotaSite(t)
	var hostile atomic.Pointer[box]
	entered, looked := make(chan struct{}, 100), make(chan struct{}, 100)
	s.keep = func(b *box, of *survey) {
		if hostile.CompareAndSwap(nil, b) || hostile.Load() == b {
			entered <- struct{}{}
			<-of.ctx.Done()
			return
		}
		b.kept(of)
		looked <- struct{}{}
	}
	one := s.start("sleep 1000")
	await(t, entered)
	waits := s.start("sleep 1000")
	other := s.begin(Command{Context: "ctx_b", Argv: []string{"cat"}, OpenStdin: true})
	await(t, looked)
	if err := other.CloseInput(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, _, _ := s.result(other); exit.Reason != Exited || exit.Code != 0 {
		t.Errorf("a command of another context: %+v", exit)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := waits.Kill(soon, 0); err != nil {
		t.Error("another command of the context does not end: ", err)
	}
	if _, err := s.contexts.Delete(t.Context(), testContext, nil); err != nil {
		t.Error(err)
	}
	s.wantReason(one, ContextClosed)
}

// await waits for another goroutine.
func await(t *testing.T, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(waitTime):
		t.Fatal("it does not happen")
	}
}

// TestLookIsBounded has a command with more of each kind than are looked at.
func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	const python, many = "/usr/bin/python3", 400
	if _, err := os.Stat(python); err != nil {
		t.Skip("it needs Python")
	}
	s := newSite(t, "copy")
	for name, program := range map[string]string{
		"descriptors": "import os\nfor i in range(400): os.dup(0)",
		"processes":   "import os, time\nfor i in range(400):\n  if os.fork() == 0: time.sleep(1000)",
		"threads":     "import threading, time\nthreading.stack_size(1 << 16)\nfor i in range(400): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
		"mapped":      "import mmap\nm = [mmap.mmap(-1, 4096) for i in range(400 * 16)]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			p := s.begin(Command{Argv: []string{python, "-c", program + "\nimport time\nprint('ready', flush=True); time.sleep(1000)"}})
			s.awaitOutput(p, "ready")
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			for _, look := range []struct {
				ctx    context.Context
				left   int
				hidden bool
			}{{t.Context(), many, true}, {t.Context(), mostLooks, false}, {ended, mostLooks, false}} {
				of := newSurvey(look.ctx)
				of.left = look.left
				p.box.kept(of)
				took := look.left - of.left
				if of.hidden != look.hidden || of.hidden != (of.left == 0) {
					t.Errorf("of %d looks %d are left, hidden is %t", look.left, of.left, of.hidden)
				}
				if most := 2; look.ctx == ended && took > most || look.ctx != ended && took < many {
					t.Errorf("it took %d looks", took)
				}
			}
			if err := p.Kill(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExitSaysThatWhatIsHiddenCounted has commands that ended for the quota, and for another reason.
func TestExitSaysThatWhatIsHiddenCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guessed bool
		reason  Reason
		want    string
	}{
		"what is hidden counted": {true, QuotaExceeded, unmeasured},
		"the context shows it":   {false, QuotaExceeded, ""},
		"it was killed":          {true, Killed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &Process{guessed: c.guessed, spools: [2]*spool{{}, {}}}
			if got := p.detail(Exit{Reason: c.reason}); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

package background

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestTasksHaveALowPriority(t *testing.T) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(1, true)
	leave := p.Join()
	got := make(chan int, 1)
	if err := p.Do(t.Context(), func() {
		knob, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		got <- knob
	}); err != nil {
		t.Fatal(err)
	}
	if knob := <-got; knob != max(own-lower, 20-mostNice) {
		t.Errorf("a task has priority %d, %d is the caller's", knob, own)
	}
	leave()
	p.Close()
	// A goroutine that runs where the thread ended has the usual one.
	after := make(chan int)
	go func() {
		knob, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
		after <- knob
	}()
	if knob := <-after; knob != own {
		t.Errorf("others have priority %d now, it was %d", knob, own)
	}
}

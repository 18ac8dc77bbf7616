package watch

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/fserr"
)

func TestWatchLimitsNameTheirRemedy(t *testing.T) {
	for _, test := range []struct {
		err  unix.Errno
		code fserr.Code
		hint string
	}{
		{unix.ENOSPC, fserr.ENOSPC, "raise fs.inotify.max_user_watches"},
		{unix.ENOENT, fserr.EOPNOTSUPP, "mount it"},
		{unix.EACCES, fserr.EACCES, ""},
	} {
		var got *fserr.Error
		if err := watchError(test.err); !errors.As(err, &got) || got.Code != test.code || got.Hint != test.hint {
			t.Errorf("%v became %v, want %v with hint %q", test.err, err, test.code, test.hint)
		}
	}
}

func TestOutboxIsBounded(t *testing.T) {
	budget := NewBudget(2 * (eventCost + 1))
	for name, box := range map[string]*outbox{"by its length": {limit: 2}, "by its budget": {limit: 10, budget: budget}} {
		t.Run(name, func(t *testing.T) {
			for i, name := range []string{"a", "b", "c"} {
				if ok := box.put(Rename, "d", name); ok != (i < 2) {
					t.Errorf("put %s: %t", name, ok)
				}
			}
			box.overflow()
			box.overflow()
			for _, want := range []Event{{Rename, "d/a"}, {Rename, "d/b"}, {Kind: Overflow}} {
				if _, e := box.next(nil); e != want {
					t.Errorf("next is %v, want %v", e, want)
				}
				box.sent()
			}
			if box.events != nil {
				t.Error("an empty outbox keeps its memory")
			}
		})
	}
	if used := budget.used.Load(); used != 0 {
		t.Errorf("%d bytes stay counted", used)
	}
}

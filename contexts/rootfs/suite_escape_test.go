package rootfs

import (
	"errors"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/fserr"
)

// everywhere runs a case against each implementation.
func everywhere(t *testing.T, run func(w *world)) {
	t.Helper()
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			run(newWorld(t, with(name)))
		})
	}
}

// TestEscapeSaysSo distinguishes a path that leads outside from one that is merely forbidden.
func TestEscapeSaysSo(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		calls := everyCall("../outside/secret")
		for _, path := range []string{"out", "outdir/", "hop", "backin", "outdangling"} {
			for call, fn := range resolvingCalls(path) {
				calls[call+" of "+path] = fn
			}
		}
		for call, fn := range calls {
			err := fn(w.Root)
			if err == nil || fserr.CodeOf(err) == fserr.EISDIR { // a slash may be refused first
				continue
			}
			if text := "EACCES: permission denied, path leads outside the context"; !strings.HasPrefix(err.Error(), text) {
				w.Errorf("%s: %v", call, err)
			}
		}
		var e *fserr.Error
		err := making(ReservedPrefix + "x")(w.Root)
		w.equal(errors.As(err, &e), true)
		w.equal(e.Code, fserr.EACCES)
		w.equal(e.Detail, "")
	})
}

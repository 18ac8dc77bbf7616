package command

import (
	"os"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/server"
)

// driver tells which one makes new contexts and why the other does not, and whether the
// contexts that the other has made can be used.
func (x *examination) driver() {
	refused := server.OverlayRefusal(x.ctx, x.tried())
	choice, err := server.ChooseDriver(x.ctx, x.cfg.Driver, x.tried())
	x.copies = 2
	if choice.Name == server.DriverOverlay {
		x.copies = 1
	}
	switch {
	case err != nil:
		x.say(markFail, "driver", "%v", err)
	case choice.Caveat != "":
		x.say(markWarn, "driver", "%s, %s", choice.Name, choice.Caveat)
	case choice.Name == server.DriverOverlay:
		x.say(markOK, "driver", "overlay")
	case choice.Refused != "":
		x.say(markOK, "driver", "copy; overlay refused: %s", choice.Refused)
	case refused != "":
		x.say(markOK, "driver", "copy; overlay would be refused: %s", refused)
	default:
		x.say(markOK, "driver", "copy; overlay works here too: --driver overlay makes contexts without copying")
	}
	if n := x.overlayContexts(); n > 0 && refused != "" {
		x.say(markFail, "driver", "contexts of the overlay driver that cannot be used here: %d (their files are kept): %s", n, refused)
	}
}

// tried is where a driver is tried: the contexts directory, or the one it will be on the file system of.
func (x *examination) tried() string {
	if st, err := os.Stat(x.layout.Dir); err == nil && st.IsDir() {
		return x.layout.Dir
	}
	return x.layout.Workspace
}

func (x *examination) overlayContexts() int {
	entries, err := os.ReadDir(x.layout.DriverState(server.DriverOverlay, ""))
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if _, err := contexts.ParseID(e.Name()); err == nil {
			n++
		}
	}
	return n
}

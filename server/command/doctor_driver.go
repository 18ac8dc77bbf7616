package command

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/server"
)

// refusals say why drivers do not work here; "" when they do.
type refusals struct{ overlay, userns string }

// driver reports which driver makes new contexts, why the others do not, and whether the contexts that the others made can be used.
func (x *examination) driver() {
	why := refusals{overlay: server.OverlayRefusal(x.ctx, x.tried()), userns: x.userns(x.ctx, x.tried())}
	x.copies = 2
	if x.cfg.Driver == server.DriverUserNS {
		x.usernsDriver(why)
	} else {
		x.otherDriver(why)
	}
	x.strangers(why)
	if lost := server.LostStates(x.layout); len(lost) > 0 {
		x.say(markFail, "driver", "restored without the extended attributes that say what was renamed and replaced: %s; "+
			"restore .contexts with them (tar --xattrs --xattrs-include='*', rsync -aX, cp -a), or use --repair to take them as they are", strings.Join(lost, ", "))
	}
	left, err := server.LeftChecks(x.tried())
	if err == nil && len(left) > 0 {
		x.say(markWarn, "driver", "a check of the driver was killed and left %s in %s; 'ctxfs gc' or 'ctxfs doctor --repair' removes it",
			strings.Join(left, ", "), x.tried())
	}
}

func (x *examination) usernsDriver(why refusals) {
	if why.userns != "" {
		x.say(markFail, "driver", "%v", usernsError(why.userns))
		return
	}
	x.copies = 1
	x.say(markOK, "driver", "%s: its mounts are seen by the server alone, to others the folders look empty%s", server.DriverUserNS, alternative("; overlay", why.overlay))
}

// alternative says whether another driver would work.
func alternative(name, why string) string {
	if why == "" {
		return name + " works here too"
	}
	return name + " would be refused: " + why
}

func (x *examination) otherDriver(why refusals) {
	choice, err := server.ChooseDriver(x.ctx, x.cfg.Driver, x.tried())
	if choice.Name == server.DriverOverlay {
		x.copies = 1
	}
	userns := alternative("; overlay-userns", why.userns)
	switch {
	case err != nil:
		x.say(markFail, "driver", "%v%s", err, userns)
	case choice.Caveat != "":
		x.say(markWarn, "driver", "%s, %s", choice.Name, choice.Caveat)
	case choice.Name == server.DriverOverlay:
		x.say(markOK, "driver", "overlay")
	case choice.Refused != "":
		x.say(markOK, "driver", "copy; overlay refused: %s%s", choice.Refused, userns)
	case why.overlay != "":
		x.say(markOK, "driver", "copy; overlay would be refused: %s%s", why.overlay, userns)
	default:
		x.say(markOK, "driver", "copy; overlay works here too: --driver overlay makes contexts without copying")
	}
}

// strangers reports contexts that a server with these settings cannot mount.
func (x *examination) strangers(why refusals) {
	if n := x.contextsOf(server.DriverOverlay); n > 0 {
		refused := why.overlay
		if x.cfg.Driver == server.DriverUserNS {
			refused = "a server of --driver " + server.DriverUserNS + " mounts its own alone"
		}
		x.unusable(server.DriverOverlay, n, refused)
	}
	if n := x.contextsOf(server.DriverUserNS); n > 0 {
		refused := why.userns
		if x.cfg.Driver != server.DriverUserNS {
			refused = "serve with --driver " + server.DriverUserNS
		}
		x.unusable(server.DriverUserNS, n, refused)
	}
}

func (x *examination) unusable(driver string, n int, refused string) {
	if refused != "" {
		x.say(markFail, "driver", "contexts of the %s driver that cannot be used here: %d (their files are kept): %s", driver, n, refused)
	}
}

// tried is where a driver is tried: the contexts directory, or the one it will be on the file system of.
func (x *examination) tried() string {
	for dir := x.layout.Dir; ; dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err == nil && st.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// contextsOf counts the contexts that a driver keeps state of.
func (x *examination) contextsOf(driver string) int {
	entries, err := os.ReadDir(x.layout.DriverState(driver, ""))
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

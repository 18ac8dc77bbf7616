package server

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// The values of Config.Driver.
const (
	DriverAuto    = "auto"
	DriverCopy    = copyfs.Name
	DriverOverlay = overlay.Name
	// DriverUserNS requires that the caller runs the server in namespaces of its own (package namespaces).
	DriverUserNS = overlay.UserNSName
)

// DriverChoice is the driver that makes new contexts, and why others do not.
type DriverChoice struct {
	// Name is DriverCopy, DriverOverlay or DriverUserNS.
	Name string
	// Caveat is a drawback of the driver that was asked for, although it works; "" for none.
	Caveat string
	// Refused is why DriverOverlay does not make them; "" when it does or was not asked for.
	Refused string
}

// String is a line such as "copy (overlay: no CAP_SYS_ADMIN)".
func (c DriverChoice) String() string {
	switch {
	case c.Refused != "":
		return fmt.Sprintf("%s (%s: %s)", c.Name, DriverOverlay, c.Refused)
	case c.Caveat != "":
		return fmt.Sprintf("%s (%s)", c.Name, c.Caveat)
	}
	return c.Name
}

// drivers has all drivers of this version. Contexts stay with the driver that made them.
type drivers struct {
	copy            *copyfs.Driver
	overlay, userns *overlay.Driver
}

func newDrivers(l contexts.Layout, owner *rootfs.Owner, log *zap.Logger) drivers {
	mounting := overlay.Options{Owner: owner, Parts: l.Parts, Log: log}
	return drivers{copy: copyfs.New(copyfs.Options{Owner: owner}), overlay: overlay.New(mounting), userns: overlay.NewUserNS(mounting)}
}

// order returns the named driver and the others.
func (d drivers) order(name string) (driver.Driver, []driver.Driver) {
	switch name {
	case DriverOverlay:
		return d.overlay, []driver.Driver{d.copy, d.userns}
	case DriverUserNS:
		return d.userns, []driver.Driver{d.copy, d.overlay}
	}
	return d.copy, []driver.Driver{d.overlay, d.userns}
}

// LostStates names the contexts and snapshots in l that came back from a backup without the extended attributes that they need.
func LostStates(l contexts.Layout) []string {
	all := newDrivers(l, nil, nil)
	return contexts.LostStates(l, all.overlay, all.userns)
}

// OverlayRefusal tries the overlay driver in dir, a directory, and returns why it does not work there; "" when it does. It removes what
// it makes there.
func OverlayRefusal(ctx context.Context, dir string) string {
	return refusal(ctx, overlay.New(overlay.Options{}), dir)
}

// UserNSRefusal is OverlayRefusal for DriverUserNS. It must be called within the namespaces.
func UserNSRefusal(ctx context.Context, dir string) string {
	return refusal(ctx, overlay.NewUserNS(overlay.Options{}), dir)
}

// LeftChecks names what OverlayRefusal, or a start, left in dir because its process was killed. A start, a collection and a repair remove
// it from the contexts directory.
func LeftChecks(dir string) ([]string, error) { return overlay.New(overlay.Options{}).LeftChecks(dir) }

func refusal(ctx context.Context, d driver.Driver, dir string) string {
	return why(d.Check(ctx, dir))
}

// why returns the text of a Check's error; "" for nil.
func why(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "overlay driver: ")
}

// untried is the caveat of a driver that was asked for by name and could not be tried on a full disk.
const untried = "not tried: the disk is full"

// seenByServer is the caveat of DriverUserNS.
const seenByServer = "only this server sees the files"

// ChooseDriver picks the driver of new contexts for a setting. It tries drivers in dir, which exists. auto is overlay where everyone on
// the machine sees its mounts, else copy. It fails when a driver that was asked for by name does not work.
func ChooseDriver(ctx context.Context, setting, dir string) (DriverChoice, error) {
	switch setting {
	case DriverCopy:
		return DriverChoice{Name: DriverCopy}, nil
	case DriverUserNS:
		err := overlay.NewUserNS(overlay.Options{}).Check(ctx, dir)
		switch {
		case isFull(err):
			return DriverChoice{Name: DriverUserNS, Caveat: untried}, nil
		case err != nil:
			return DriverChoice{}, fmt.Errorf("driver %s: %s; use --driver copy", DriverUserNS, why(err))
		}
		return DriverChoice{Name: DriverUserNS, Caveat: seenByServer}, nil
	}
	err, hidden := overlay.New(overlay.Options{}).Check(ctx, dir), overlay.Hidden()
	switch {
	case setting == DriverOverlay && isFull(err):
		return DriverChoice{Name: DriverOverlay, Caveat: untried}, nil
	case setting == DriverOverlay && err != nil:
		return DriverChoice{}, fmt.Errorf("driver overlay: %s; use --driver auto or --driver copy", why(err))
	case setting == DriverOverlay && hidden != "":
		return DriverChoice{Name: DriverOverlay, Caveat: hidden}, nil
	case err != nil:
		return DriverChoice{Name: DriverCopy, Refused: why(err)}, nil
	case hidden != "":
		return DriverChoice{Name: DriverCopy, Refused: hidden}, nil
	}
	return DriverChoice{Name: DriverOverlay}, nil
}

package catalog

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/durable"
	"github.com/ctxfs/ctxfs/metadata"
)

// Drivers are all drivers that this server has. A context keeps the driver that made it.
type Drivers struct {
	// New makes new contexts.
	New    driver.Driver
	others []driver.Driver
	layout Layout
}

// NewDrivers returns the drivers of a workspace.
func NewDrivers(l Layout, newContexts driver.Driver, others []driver.Driver) Drivers {
	return Drivers{New: newContexts, others: others, layout: l}
}

func (d Drivers) all() []driver.Driver { return append([]driver.Driver{d.New}, d.others...) }

// Mounters lists the drivers that mount.
func (d Drivers) Mounters() []driver.Mounter {
	var out []driver.Mounter
	for _, dr := range d.all() {
		if mounter, ok := dr.(driver.Mounter); ok {
			out = append(out, mounter)
		}
	}
	return out
}

// Parts returns the directories of what a state shares with others (driver.Sharer), the uppermost first.
func (d Drivers) Parts(of driver.Driver, state string) ([]string, error) {
	sharer, ok := of.(driver.Sharer)
	if !ok {
		return nil, nil
	}
	names, err := sharer.PartsOf(state)
	for i, name := range names {
		names[i] = filepath.Join(sharer.Parts(), name)
	}
	return names, err
}

// Sharers lists the drivers that make parts.
func (d Drivers) Sharers() []driver.Sharer {
	var out []driver.Sharer
	for _, m := range d.Mounters() {
		if sharer, ok := m.(driver.Sharer); ok && sharer.Parts() != "" {
			out = append(out, sharer)
		}
	}
	return out
}

// MounterAt returns the driver that has the state of a context on disk, or nil.
func (d Drivers) MounterAt(id ID) driver.Mounter {
	for _, m := range d.Mounters() {
		if st, err := os.Lstat(d.layout.DriverState(m.Name(), id)); err == nil && st.IsDir() {
			return m
		}
	}
	return nil
}

// madeBy names the driver of a context whose record is lost. A context without a driver's state has plain files.
func (d Drivers) madeBy(id ID) string {
	if m := d.MounterAt(id); m != nil {
		return m.Name()
	}
	for _, dr := range d.all() {
		if _, mounts := dr.(driver.Mounter); !mounts {
			return dr.Name()
		}
	}
	return d.New.Name()
}

// stateNames lists the contexts whose state drivers have on disk.
func (d Drivers) stateNames() []string {
	var names []string
	for _, m := range d.Mounters() {
		entries, err := os.ReadDir(d.layout.DriverState(m.Name(), ""))
		if err != nil {
			continue // the driver has made none yet
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return names
}

// Held returns a context's driver and the directory that the driver duplicates: the context's folder, or the state of a Mounter.
// It fails with EOPNOTSUPP if this server does not have the driver.
func (d Drivers) Held(rec metadata.Context) (driver.Driver, string, error) {
	for _, dr := range d.all() {
		if dr.Name() != rec.Driver {
			continue
		}
		if _, mounts := dr.(driver.Mounter); mounts {
			return dr, d.layout.DriverState(dr.Name(), ID(rec.ID)), nil
		}
		return dr, d.layout.Folder(ID(rec.ID)), nil
	}
	return nil, "", &fserr.Error{
		Code: fserr.EOPNOTSUPP, Kind: fserr.KindContext,
		Detail: fmt.Sprintf("context '%s' was made by the driver %q, which this server does not have", rec.ID, rec.Driver),
		Hint:   "serve the workspace with the version of ctxfs that made it; the context's files are kept",
	}
}

// MounterOf returns the driver that mounts a context, or nil if the context is a plain folder. Errors as Held.
func (d Drivers) MounterOf(rec metadata.Context) (driver.Mounter, error) {
	dr, _, err := d.Held(rec)
	if err != nil {
		return nil, err
	}
	mounter, _ := dr.(driver.Mounter)
	return mounter, nil
}

// PlaceFor returns the path at which a new context of the named driver must appear, and creates its parent.
func (d Drivers) PlaceFor(name string, id ID) (string, error) {
	for _, m := range d.Mounters() {
		if m.Name() == name {
			place := d.layout.DriverState(name, id)
			return place, durable.MkdirAll(filepath.Dir(place), 0o700)
		}
	}
	return d.layout.Folder(id), nil
}

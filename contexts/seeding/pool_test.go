package seeding

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/driver/copyfs"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/layer"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/metadata/memory"
)

// newSeeder returns a Seeder of a workspace with one repository. Its pool has room for a copy, and fills only when asked.
func newSeeder(t *testing.T, d driver.Driver, change func(*Config)) *Seeder {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "app", ".git"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "app", "f"), []byte("twenty bytes of text"), 0o644))
	l, err := catalog.NewLayout(dir, "")
	must(t, err)
	must(t, l.Make("0.1.0"))
	life := gate.NewLife()
	cat, err := catalog.New(catalog.Catalog{
		Layout: l, Drivers: catalog.NewDrivers(l, d, nil), Store: memory.New(), Locks: catalog.FileLocks{Dir: l.Locks},
		Staging: disk.NewStaging(l.Staging, life.Clearing, zap.NewNop()), Events: catalog.Events{}.WithDefaults(), Log: zap.NewNop(), Now: time.Now,
	})
	must(t, err)
	flights, layers := NewFlights(life), layer.New(l.Layers, nil)
	gates, err := gate.New(t.Context(), gate.Config{Catalog: cat, Life: life, Seedings: flights, LayerTree: layers.Tree})
	must(t, err)
	root, err := rootfs.Open(dir, rootfs.Options{})
	must(t, err)
	cfg := Config{Catalog: cat, Life: life, Gates: gates, Flights: flights, Layers: layers, Source: l.Source(root), Pool: 1}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	must(t, err)
	s.Pool.cheap = func() bool { return false }
	t.Cleanup(func() {
		life.Stop(time.Minute)
		must(t, gates.Close())
		must(t, s.Close())
		must(t, root.Close())
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copies returns how many copies the pool has.
func (s *Seeder) copies(t *testing.T) int {
	t.Helper()
	all, err := s.Pool.List()
	must(t, err)
	return len(all)
}

func (s *Seeder) seedNow(t *testing.T, id catalog.ID) {
	t.Helper()
	_, _, err := s.Ensure(t.Context(), id, Request{}, nil)
	must(t, err)
	must(t, s.Pool.turn(t.Context()))
}

// plain is a driver that makes no spare copies.
type plain struct{ driver.Driver }

func TestPoolIsOff(t *testing.T) {
	d := copyfs.New(copyfs.Options{})
	for name, c := range map[string]struct {
		driver driver.Driver
		change func(*Config)
		want   int
	}{
		"on":           {d, nil, 1},
		"by number":    {d, func(c *Config) { c.Pool = 0 }, 0},
		"by size":      {d, func(c *Config) { c.PoolMaxBytes = 10 }, 0},
		"plain driver": {plain{d}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeeder(t, c.driver, c.change)
			s.seedNow(t, "ctx_a")
			if s.Pool.driver != nil {
				if more, err := s.Pool.fill(); more != (c.want > 0) || err != nil {
					t.Errorf("filling gives %t, %v", more, err)
				}
			}
			if n := s.copies(t); n != c.want {
				t.Errorf("the pool has %d copies, want %d", n, c.want)
			}
		})
	}
}

// TestPoolGoesFirst gives up the copies before it refuses a seeding for the disk reserve.
func TestPoolGoesFirst(t *testing.T) {
	s := newSeeder(t, copyfs.New(copyfs.Options{}), nil)
	s.seedNow(t, "ctx_a")
	_, err := s.Pool.fill()
	must(t, err)
	if s.copies(t) != 1 {
		t.Fatal("the pool is empty")
	}
	s.Pool.reserve = 1 << 60
	if err := s.Pool.MakeRoom("test", 1); fserr.CodeOf(err) != fserr.ENOSPC {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if n := s.copies(t); n != 0 {
		t.Errorf("the pool has %d copies", n)
	}
	if _, err := s.Pool.fill(); err != nil || s.copies(t) != 0 {
		t.Errorf("the pool was filled below the reserve, %v", err)
	}
}

// mounting is a driver that mounts, as far as the space for a context depends on it.
type mounting struct{ driver.Mounter }

func (mounting) Name() string { return "mounting" }

// TestSpaceThatAContextNeeds: only a driver that copies needs space for the layer's files again.
func TestSpaceThatAContextNeeds(t *testing.T) {
	if copiesPer(mounting{}) != 0 || copiesPer(copyfs.New(copyfs.Options{})) != 1 {
		t.Error("a mounted context takes no copy of its layer, a plain one takes one")
	}
	s := newSeeder(t, copyfs.New(copyfs.Options{}), nil)
	if err := s.Pool.MakeRoom("test", 1<<50); fserr.CodeOf(err) != fserr.ENOSPC {
		t.Errorf("got %v, want ENOSPC", err)
	}
	must(t, s.Pool.MakeRoom("test", 0))
}

// TestAFlightThatLandedIsNotRepeated: a caller that found the context missing before it landed looks again.
func TestAFlightThatLandedIsNotRepeated(t *testing.T) {
	life := gate.NewLife()
	defer life.Stop(time.Minute)
	flights := NewFlights(life)
	before := flights.landed()
	f, err := flights.join("ctx_a", Request{}, before, func(*flight) {})
	must(t, err)
	<-f.done
	if late, err := flights.join("ctx_a", Request{}, before, func(*flight) { t.Error("the context was seeded again") }); late != nil || err != nil {
		t.Errorf("the late caller got %v, %v; want no flight", late, err)
	}
}

// TestFlightsEndWithTheServer: after a stop none begins.
func TestFlightsEndWithTheServer(t *testing.T) {
	life := gate.NewLife()
	flights := NewFlights(life)
	begun := make(chan struct{})
	f, err := flights.join("ctx_a", Request{}, 0, func(*flight) {
		close(begun)
		<-life.Context.Done()
	})
	must(t, err)
	<-begun
	if _, err := flights.join("ctx_A", Request{}, 0, nil); fserr.CodeOf(err) != fserr.EEXIST {
		t.Errorf("an ID that differs by case got %v, want EEXIST", err)
	}
	if same, err := flights.join("ctx_a", Request{}, 0, nil); same != f || err != nil {
		t.Errorf("a second caller got another flight, %v", err)
	}
	if fserr.CodeOf(flights.Busy("ctx_a")) != fserr.EAGAIN || flights.Busy("ctx_b") != nil {
		t.Error("ctx_a alone is busy")
	}
	if ended, _ := life.Stop(time.Minute); !ended {
		t.Error("the flight did not end")
	}
	must(t, flights.Wait(context.Background(), "ctx_a"))
	if _, err := flights.join("ctx_a", Request{}, 0, nil); fserr.CodeOf(err) != fserr.ECANCELED {
		t.Errorf("after the stop got %v, want ECANCELED", err)
	}
}

package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ctxfs/ctxfs/contexts/batch"
	"github.com/ctxfs/ctxfs/contexts/driver/overlay/overlaytest"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/internal/faults/powercut"
)

const (
	// killsEnv is how many kills there are; killDirEnv, killSeedEnv and killAtEnv make this program one that carries out a batch until a phase.
	killsEnv    = "CTXFS_KILLS"
	killDirEnv  = "CTXFS_BATCH_DIR"
	killSeedEnv = "CTXFS_BATCH_SEED"
	killAtEnv   = "CTXFS_BATCH_KILL_AT"
	fewKills    = 12
)

func TestMain(m *testing.M) {
	overlaytest.Main()
	powercut.Main()
	if dir := os.Getenv(killDirEnv); dir != "" {
		if err := beKilled(dir); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// worldAt is a world that exists.
func worldAt(base string) (world, error) {
	w := world{dir: filepath.Join(base, "tree"), journal: filepath.Join(base, "journal")}
	var err error
	w.root, err = rootfs.Open(w.dir, rootfs.Options{})
	return w, err
}

// beKilled carries out the batch of a seed, and kills itself at a phase.
func beKilled(base string) error {
	w, err := worldAt(base)
	if err != nil {
		return err
	}
	seed, err1 := strconv.Atoi(os.Getenv(killSeedEnv))
	at, err2 := strconv.Atoi(os.Getenv(killAtEnv))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	phases := 0
	return w.run(batchOf(w.root, seed), func(string) {
		if phases++; phases == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
}

// batchOf returns the batch of a seed, all of whose steps succeed in a tree of fill.
func batchOf(root rootfs.Root, seed int) []batch.Step {
	var steps []batch.Step
	for n := seed; len(steps) < 12; n++ {
		try := append(steps[:len(steps):len(steps)], rapid.Custom(anyStep).Example(n))
		if _, err := batch.New(context.Background(), root, try); err == nil {
			steps = try
		}
	}
	return steps
}

// TestKilledBatchIsAllOrNothing kills processes at random phases of random batches, and recovers.
func TestKilledBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	kills := fewKills
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	killed, all := 0, 0
	for range kills {
		whole, was := killOnce(t, rand.IntN(1<<20), 1+rand.IntN(50))
		if was {
			killed++
		}
		if whole {
			all++
		}
		if t.Failed() {
			return
		}
	}
	fmt.Printf("batch: %d of %d batches were killed; %d were carried out\n", killed, kills, all)
	if killed == 0 {
		t.Error("no batch was killed")
	}
}

// killOnce kills one process. It reports whether the batch was carried out, and whether the process was killed.
func killOnce(t *testing.T, seed, at int) (whole, killed bool) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("seed %d, phase %d: %v", seed, at, err)
		}
	}
	w, other := newWorld(t, t.TempDir()), newWorld(t, t.TempDir())
	defer func() { must(errors.Join(w.root.Close(), other.root.Close())) }()
	w.fill(t)
	other.fill(t)
	before := w.tree()
	must(other.run(batchOf(other.root, seed), nil))
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killDirEnv+"="+filepath.Dir(w.dir), killSeedEnv+"="+strconv.Itoa(seed), killAtEnv+"="+strconv.Itoa(at))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL { //nolint:forcetypeassert // on Linux
		killed = true
	} else if err != nil {
		t.Fatalf("the process: %v: %s", err, out)
	}
	must(batch.Recover(context.Background(), w.root, w.journal))
	got := w.tree()
	if got != before && got != other.tree() {
		t.Errorf("seed %d, phase %d: neither the tree before nor the one after:\n%s\n%s", seed, at, cmp.Diff(before, got), cmp.Diff(other.tree(), got))
	}
	if strings.Contains(got, rootfs.ReservedPrefix) || batch.Pending(w.journal) {
		t.Errorf("seed %d, phase %d: something is left:\n%s", seed, at, got)
	}
	return got != before, killed
}

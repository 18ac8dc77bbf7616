package faults

import (
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/client"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/server"
)

// fewWatches is how many directories the child may watch.
const fewWatches = 12

// instancesEnv is how many inotify instances it may have.
const instancesEnv = "CTXFS_FAULTS_INSTANCES"

// serveFewWatches serves in a user namespace with limits of its own, which do not affect other processes of the machine.
func serveFewWatches() error {
	for name, value := range map[string]string{"watches": fmt.Sprint(fewWatches), "instances": os.Getenv(instancesEnv)} {
		if err := os.WriteFile("/proc/sys/user/max_inotify_"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("%w: %w", errCannot, err)
		}
	}
	return serveChild(func(*server.Config) {})
}

// startFewWatches starts such a server and connects to it.
func startFewWatches(t *testing.T, instances string) *client.Client {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not tested: only root may map its user into a namespace here")
	}
	ws := workspace(t)
	own := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	c := startIn(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: own, GidMappings: own},
		"few watches", workspaceEnv+"="+ws, instancesEnv+"="+instances)
	host, err := client.Dial(t.Context(), client.WithAddress(c.first))
	must(t, err)
	t.Cleanup(func() { must(t, host.Close()) })
	return host
}

func TestNoWatchesLeft(t *testing.T) {
	host := startFewWatches(t, "4")
	first, greedy := openPanel(t, host, "panels/first"), openPanel(t, host, "panels/greedy")
	w, err := first.Watch(".", false)
	must(t, err)
	for i := range 2 * fewWatches {
		must(t, greedy.MkdirAll(path.Join("tree", fmt.Sprint(i)), 0o755))
	}
	for range 3 { // what is refused keeps none
		_, err := greedy.Watch("tree", true)
		wantWatchError(t, err, fserr.ENOSPC, "fs.inotify.max_user_watches")
	}
	hears(t, w, first, "while they are short")
	must(t, greedy.WriteFile("kept", []byte(kept), 0o644))
	wantFile(t, greedy, "kept", kept)
	one, err := greedy.Watch("tree/1", false)
	must(t, err)
	hears(t, one, greedy, "tree/1/now")
	for i := range 2*fewWatches - 4 {
		must(t, greedy.RemoveAll(path.Join("tree", fmt.Sprint(i+4))))
	}
	all, err := greedy.Watch("tree", true)
	must(t, err)
	hears(t, all, greedy, "tree/2/deep")
	for _, w := range []*client.Watcher{w, one, all} {
		must(t, w.Close())
	}
}

func TestNoWatchInstancesLeft(t *testing.T) {
	f := openPanel(t, startFewWatches(t, "0"), "panels/first")
	_, err := f.Watch(".", false)
	wantWatchError(t, err, fserr.EMFILE, "fs.inotify.max_user_instances")
	must(t, f.WriteFile("kept", []byte(kept), 0o644))
	wantFile(t, f, "kept", kept)
}

func wantWatchError(t *testing.T, err error, code fserr.Code, setting string) {
	t.Helper()
	wantCode(t, "watch", err, code)
	if err != nil && !strings.Contains(err.Error(), setting) {
		t.Errorf("%q does not name %s", err, setting)
	}
}

// hears creates a file and waits until a watch of its directory reports it.
func hears(t *testing.T, w *client.Watcher, f *client.FS, name string) {
	t.Helper()
	must(t, f.WriteFile(name, nil, 0o644))
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-w.Events():
			if path.Base(e.Name) == path.Base(name) {
				return
			}
		case <-timeout:
			t.Fatalf("the watch tells nothing of %s: %v", name, w.Err())
		}
	}
}

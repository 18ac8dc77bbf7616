package faults

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// sourceEnv is the directory that the child shows, mountEnv where.
const (
	sourceEnv = "CTXFS_FAULTS_SOURCE"
	mountEnv  = "CTXFS_FAULTS_MOUNT"
)

// errCannot says that the machine does not have what the test needs; the program then exits with cannot.
var errCannot = errors.New("this machine cannot do it")

const cannot = 77

// child is the test binary as another program.
func child(as string) int {
	run, ok := map[string]func() error{"disk": serveDisk, "few descriptors": serveFew, "a crowd": serveCrowd, "few watches": serveFewWatches}[as]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such child:", as)
		return 2
	}
	switch err := run(); {
	case errors.Is(err, errCannot):
		fmt.Fprintln(os.Stderr, err)
		return cannot
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveDisk shows a directory as a FUSE file system whose faults the lines on standard input set; each is answered by a line.
// It is a process of its own since one that reads its own FUSE file system may wait for itself.
func serveDisk() error {
	rules := newRules()
	root := &fs.LoopbackRoot{Path: os.Getenv(sourceEnv)}
	top := &node{&fs.LoopbackNode{RootData: root}, rules}
	root.RootNode = top
	var none time.Duration // each look-up is asked for
	server, err := fs.Mount(os.Getenv(mountEnv), top, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "faults", Name: "faults"},
		AttrTimeout:  &none, EntryTimeout: &none, NullPermissions: true,
	})
	if err != nil {
		return fmt.Errorf("%w: mount FUSE: %w", errCannot, err)
	}
	fmt.Println("mounted")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		rules.set(strings.Fields(in.Text()))
	}
	rules.set(nil)
	return server.Unmount()
}

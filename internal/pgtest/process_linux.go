package pgtest

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a postmaster. It ends when this process does.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startProcess starts cmd from a thread of its own: the kernel ends the child when the thread that started it ends.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd, make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(p.done)
	}()
	return p, <-started
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killTime bounds how long kill waits for the backends, which are not this process's children.
const killTime = 2 * time.Minute

// kill ends the postmaster and its children at once, and waits for them: the shared memory of one that is left keeps the next postmaster
// from starting. A stopped postmaster starts no further one.
func (p *process) kill() {
	if p.ended() {
		return
	}
	postmaster := p.cmd.Process.Pid
	_ = syscall.Kill(postmaster, syscall.SIGSTOP)
	awaitState(postmaster, "T")
	children := childrenOf(postmaster)
	for _, pid := range append([]int{postmaster}, children...) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
	for _, pid := range children {
		awaitState(pid, "Z")
	}
}

// awaitState waits until a process is in a state of proc(5), or is gone.
func awaitState(pid int, state string) {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(killTime); time.Now().Before(deadline); <-ticker.C {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, after, ok := strings.Cut(string(data), ") ")
		if err != nil || !ok || strings.HasPrefix(after, state) || strings.HasPrefix(after, "Z") {
			return
		}
	}
}

// stop kills it and returns what it wrote.
func (p *process) stop(log *bytes.Buffer) string {
	p.kill()
	return log.String()
}

// childrenOf lists the children of a process.
func childrenOf(pid int) (children []int) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// ordinary makes a child an ordinary user's: PostgreSQL refuses to run as root.
func ordinary() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		uid, gid := owner()
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return attr
}

// giveAway makes a directory that user's.
func giveAway(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := owner()
	return os.Chown(dir, uid, gid)
}

func owner() (uid, gid int) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		if errU == nil && errG == nil {
			return uid, gid
		}
	}
	return 65534, 65534
}

package exec

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kept adds what processes of the sandbox keep of the context's files that have no name any more: by descriptors, as working directories, and
// mapped into memory. There may be more, of which the kernel does not show the size: descriptors in flight in a socket, and, to a server that is
// not root, mapped files that are not open.
func (b *box) kept(s *survey) {
	b.mu.Lock()
	runs, init := b.init >= 0, b.initPID
	b.mu.Unlock()
	if !runs {
		return
	}
	seen := map[int]bool{init: true}
	for queue := []int{init}; len(queue) > 0 && s.more(); queue = queue[1:] {
		pid := queue[0]
		s.process(pid)
		below, err := childrenOf(pid)
		s.failed(err)
		for _, child := range below {
			if !seen[child] {
				seen[child] = true
				queue = append(queue, child)
			}
		}
	}
}

// process is kept of one process.
func (s *survey) process(pid int) {
	dirs, err := tasks(pid)
	s.failed(err)
	for _, dir := range dirs {
		if !s.more() {
			return
		}
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || tid != pid && sharesFiles(pid, tid) {
			continue
		}
		s.found.AddLink(dir+"/cwd", home)
		s.descriptors(dir)
	}
	s.mapped(pid)
}

// failed notes an error of a file in /proc: there may be more than the survey sees.
func (s *survey) failed(err error) { s.hidden = s.hidden || isUnknown(err) }

// descriptors adds those of a thread.
func (s *survey) descriptors(dir string) {
	f, err := os.Open(dir + "/fd")
	if err != nil {
		s.failed(err)
		return
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(namesAtOnce)
		for _, name := range names {
			if !s.more() {
				return
			}
			if s.found.AddLink(dir+"/fd/"+name, home) == unix.S_IFSOCK && hasInFlight(dir+"/fdinfo/"+name) {
				s.hidden = true
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.failed(err)
			return
		}
	}
}

// namesAtOnce is how many descriptors are read from the kernel at once.
const namesAtOnce = 256

// sharesFiles reports whether two threads have one table of descriptors, by kcmp(2).
func sharesFiles(one, other int) bool {
	const kcmpFiles = 2
	order, _, err := unix.Syscall6(unix.SYS_KCMP, uintptr(one), uintptr(other), kcmpFiles, 0, 0, 0)
	return err == 0 && order == 0
}

// hasInFlight reports whether a socket holds descriptors that no process has received. Linux 5.19 says so for sockets that listen, too.
func hasInFlight(fdinfo string) bool {
	data, err := os.ReadFile(fdinfo)
	if err != nil {
		return isUnknown(err) // otherwise it is closed
	}
	_, count, ok := strings.Cut(string(data), "scm_fds:")
	line, _, _ := strings.Cut(count, "\n")
	return ok && strings.TrimSpace(line) != "0"
}

// linesOfLook is how many lines about what a process has mapped count as one look.
const linesOfLook = 16

// mapped adds files that a process has mapped. The kernel shows them to root only.
func (s *survey) mapped(pid int) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		s.failed(err)
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if n%linesOfLook == 0 && !s.more() {
			return
		}
		// start-end permissions offset device inode path
		line := lines.Text()
		if !strings.HasSuffix(line, " (deleted)") || !strings.Contains(line, " "+home+"/") {
			continue
		}
		fields := strings.Fields(line)
		start, end, _ := strings.Cut(fields[0], "-")
		link := fmt.Sprintf("/proc/%d/map_files/%s-%s", pid, strings.TrimLeft(start, "0"), strings.TrimLeft(end, "0"))
		if _, err := os.Stat(link); os.IsPermission(err) {
			if number, err := strconv.ParseUint(fields[4], 10, 64); err == nil {
				s.unseen[number] = true
			}
			continue
		}
		s.found.AddLink(link, home)
	}
	s.failed(lines.Err())
}

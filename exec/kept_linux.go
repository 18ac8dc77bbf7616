package exec

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ctxfs/ctxfs/contexts"
)

// kept adds what processes of the sandbox keep of the context's files that have no name any more: by descriptors, as working directories, and
// mapped into memory. hidden says that there may be more, of which the kernel does not show the size: descriptors in flight in a socket, and,
// to a server that is not root, mapped files that are not open.
func (b *box) kept(found contexts.Nameless) (hidden bool) {
	b.mu.Lock()
	runs, init := b.init >= 0, b.initPID
	b.mu.Unlock()
	if !runs {
		return false
	}
	seen := map[int]bool{init: true}
	for queue := []int{init}; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		hidden = keptBy(pid, found) || hidden
		for _, child := range children(pid) {
			if !seen[child] {
				seen[child] = true
				queue = append(queue, child)
			}
		}
	}
	return hidden
}

// keptBy is kept of one process.
func keptBy(pid int, found contexts.Nameless) (hidden bool) {
	for _, dir := range tasks(pid) {
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || tid != pid && sharesFiles(pid, tid) {
			continue
		}
		found.AddLink(dir+"/cwd", home)
		for _, socket := range found.Add(dir+"/fd", home) {
			hidden = hasInFlight(fmt.Sprintf("%s/fdinfo/%s", dir, socket)) || hidden
		}
	}
	return addMapped(pid, found) || hidden
}

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
		return false // it is closed
	}
	_, count, ok := strings.Cut(string(data), "scm_fds:")
	line, _, _ := strings.Cut(count, "\n")
	return ok && strings.TrimSpace(line) != "0"
}

// addMapped adds files that a process has mapped. The kernel shows them to root only.
func addMapped(pid int, found contexts.Nameless) (hidden bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false // it has ended
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// start-end permissions offset device inode path
		line := lines.Text()
		if !strings.HasSuffix(line, " (deleted)") || !strings.Contains(line, " "+home+"/") {
			continue
		}
		fields := strings.Fields(line)
		start, end, _ := strings.Cut(fields[0], "-")
		link := fmt.Sprintf("/proc/%d/map_files/%s-%s", pid, strings.TrimLeft(start, "0"), strings.TrimLeft(end, "0"))
		if _, err := os.Stat(link); os.IsPermission(err) {
			hidden = hidden || !found.HasNumber(fields[4])
			continue
		}
		found.AddLink(link, home)
	}
	return hidden
}

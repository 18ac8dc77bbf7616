package fairness

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Hostile is the command of an attack. It runs until it is killed.
func Hostile(name string) error {
	do, ok := programs[name]
	if !ok {
		return fmt.Errorf("no attack is called %q", name)
	}
	do()
	select {}
}

var programs = map[string]func(){
	"quota":    func() { write("full", false) },
	"unlinked": func() { write("unlinked", true) },
	"output":   output,
	"names":    names,
	"epoll":    epoll,
	"inotify":  func() { take(func() error { _, err := unix.InotifyInit1(0); return err }) },
	"terminals": func() {
		take(func() error { _, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0); return err })
	},
	"programs": others,
}

// take takes things until there are none left, and again what others give back.
func take(one func() error) {
	for {
		if one() != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// write writes files without an end.
func write(name string, unlink bool) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for i := 0; ; i++ {
		f, err := os.Create(fmt.Sprint(name, i))
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if unlink {
			_ = os.Remove(f.Name())
		}
		for range 512 {
			if _, err := f.Write(chunk); err != nil {
				break
			}
		}
	}
}

// output ends after 16 MiB of output, so that the next command can begin.
func output() {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range 16 {
		_, _ = os.Stdout.Write(chunk)
	}
	os.Exit(0)
}

// names asks the proxy for names that it refuses.
func names() {
	proxy, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil {
		return
	}
	for i := 0; ; i++ {
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", proxy.Host)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		_, _ = fmt.Fprintf(conn, "CONNECT %d.%s:443 HTTP/1.1\r\nHost: x\r\n\r\n", i, strings.Repeat("long.", 3<<10))
		_, _ = conn.Read(make([]byte, 512))
		_ = conn.Close()
	}
}

// epoll watches as many descriptors by as many instances as it may have.
func epoll() {
	var instances, events []int
	for {
		fd, err := unix.Eventfd(0, 0)
		if err != nil {
			break
		}
		if events = append(events, fd); len(events)%2 == 0 {
			continue
		}
		if fd, err = unix.EpollCreate1(0); err != nil {
			break
		}
		instances = append(instances, fd)
	}
	for _, instance := range instances {
		for _, event := range events {
			for unix.EpollCtl(instance, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{}) == unix.ENOSPC {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// others changes the programs and the memory of all processes that it sees.
func others() {
	for {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			_ = os.Chmod(dir+"/exe", 0)
			for _, name := range []string{"/exe", "/mem"} {
				if f, err := os.OpenFile(dir+name, os.O_WRONLY, 0); err == nil {
					_ = f.Close()
				}
			}
		}
	}
}

package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Describe says in a line on what was measured. dir is where the files lay.
func Describe(dir string) string {
	parts := []string{fmt.Sprintf("%d CPUs", runtime.NumCPU())}
	if cpu := field("/proc/cpuinfo", "model name"); cpu != "" {
		parts = append(parts, cpu)
	}
	system := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		system += " " + strings.TrimSpace(string(release))
	}
	parts = append(parts, system)
	if fs := fileSystem(dir); fs != "" {
		parts = append(parts, fs)
	}
	parts = append(parts, runtime.Version())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		one, _, _ := strings.Cut(string(load), " ")
		parts = append(parts, "load "+one+" before")
	}
	return strings.Join(parts, ", ")
}

// field is the value of the first line "key : value" of a file of /proc.
func field(path, key string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// fileSystem is the type of the mount that holds dir: the longest that is a prefix.
func fileSystem(dir string) string {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return ""
	}
	defer f.Close()
	var at, kind string
	for s := bufio.NewScanner(f); s.Scan(); {
		m := strings.Fields(s.Text())
		if len(m) > 2 && len(m[1]) >= len(at) && strings.HasPrefix(dir+"/", strings.TrimSuffix(m[1], "/")+"/") {
			at, kind = m[1], m[2]
		}
	}
	return kind
}

// Package cgroups reads the limits of control groups.
package cgroups

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Lowest returns the lowest number in the files of that name of a control group and of those above it, up to root; math.MaxInt64 if none of them has
// one. group is a path below root.
func Lowest(root, group, file string) int64 {
	lowest := int64(math.MaxInt64)
	for group = path.Join("/", group); ; group = path.Dir(group) {
		text, err := os.ReadFile(filepath.Join(root, group, file))
		if n, e := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && e == nil && n > 0 {
			lowest = min(lowest, n)
		}
		if group == "/" {
			return lowest
		}
	}
}

package server

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestLimitOfControlGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		groups string
		files  map[string]string
		want   int64
	}{
		"none":                         {"0::/\n", nil, math.MaxInt64},
		"no limit":                     {"0::/a.slice/b.service\n", map[string]string{"a.slice/b.service/memory.max": "max\n"}, math.MaxInt64},
		"its own":                      {"0::/a.slice/b.service\n", map[string]string{"a.slice/b.service/memory.max": "4096\n", "a.slice/memory.max": "8192\n"}, 4096},
		"one above":                    {"0::/a.slice/b.service\n", map[string]string{"a.slice/b.service/memory.max": "max\n", "a.slice/memory.max": "8192\n"}, 8192},
		"version 1":                    {"4:cpu:/x\n3:memory:/a/b\n", map[string]string{"memory/a/b/memory.limit_in_bytes": "4096\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4096},
		"version 1, with another":      {"3:cpu,memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "4096\n"}, 4096},
		"mounted in a container":       {"0::/docker/0123\n", map[string]string{"memory.max": "4096\n"}, 4096},
		"version 1 in a container":     {"3:memory:/docker/0123\n", map[string]string{"memory/memory.limit_in_bytes": "4096\n"}, 4096},
		"outside of the own namespace": {"0::/../../x\n", map[string]string{"memory.max": "4096\n", "../../x/memory.max": "1024\n"}, 4096},
		"a line that is none":          {"memory\n\n", map[string]string{"memory.max": "4096\n"}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "sys", "cgroup")
			for file, text := range c.files {
				at := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := cgroupMemory(dir, c.groups); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
		})
	}
}

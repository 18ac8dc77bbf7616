package exec

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/exec/entry"
)

// explain adds what the options of the sandbox say.
func (s *sandboxes) explain(e *Explanation, plan *plan, root rootfs.Root) (err error) {
	if e.User, err = s.runAs(); err != nil {
		return err
	}
	dir, err := rootfs.Descriptor(root)
	if err != nil {
		return err
	}
	b, err := assemble(dir, e.Directory, plan.env, e.User, plan.limits.TmpBytes, plan.additions()...)
	if err != nil {
		return err
	}
	defer b.close()
	if plan.asked.ReadOnly {
		b.add("--remount-ro", home)
	}
	e.Mounts, e.Variables = b.describe()
	e.Landlock = entry.Version()
	return nil
}

// describe reads the options for what they mount, sorted by path, and returns the names of the variables. An option that mounts nothing is
// passed over.
func (b *bundle) describe() (mounts []Mount, variables []string) {
	byPath := map[string]Mount{}
	var size int64
	for i := 0; i < len(b.args); {
		option, values := b.args[i], b.args[i+1:]
		for n, v := range values {
			if strings.HasPrefix(v, "--") {
				values = values[:n]
				break
			}
		}
		i += 1 + len(values)
		if option == "--size" {
			size, _ = strconv.ParseInt(values[0], 10, 64) // assemble wrote it
			continue
		}
		if option == "--remount-ro" {
			m := byPath[values[0]]
			m.Writable = false
			byPath[values[0]] = m
		}
		if m, ok := mountOf(option, values); ok {
			if m.Kind == "memory" {
				m.Size = size
			}
			byPath[m.Path] = m
		}
	}
	delete(byPath, "/") // which no option mounts
	for _, m := range byPath {
		mounts = append(mounts, m)
	}
	slices.SortFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	for _, v := range b.env {
		name, _, _ := strings.Cut(v, "=")
		variables = append(variables, name)
	}
	slices.Sort(variables)
	return mounts, variables
}

// mountOf is what an option mounts. Its last value is the path.
func mountOf(option string, values []string) (m Mount, ok bool) {
	if len(values) == 0 {
		return m, false
	}
	m.Path = values[len(values)-1]
	switch option {
	case "--ro-bind-try":
		if _, err := os.Lstat(values[0]); err != nil {
			return m, false
		}
		m.Kind = "system"
	case "--ro-bind":
		m.Kind = "system"
	case "--ro-bind-data":
		m.Kind = "data"
	case "--symlink":
		m.Kind = "link"
	case "--proc", "--dev":
		m.Kind = strings.TrimPrefix(option, "--")
	case "--tmpfs":
		m.Kind, m.Writable = "memory", true
	case "--ro-bind-fd":
		m.Kind = "folder"
	case "--bind-fd":
		m.Kind, m.Writable = "folder", true
		if m.Path == home {
			m.Kind = "context"
		}
	default:
		return m, false
	}
	return m, true
}

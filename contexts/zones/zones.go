// Package zones owns the zones of a context: top directories with a meaning, such as /workspace for work and /cache for downloads. It knows
// what a layout means and what is wrong with it.
package zones

import "time"

// Mode says how zones are kept.
type Mode string

// The modes. "" means no zones: the context is one folder.
const (
	// Sandboxed zones are directories in the context's own folder.
	Sandboxed Mode = "sandboxed"
	// Direct zones are real directories of the workspace, or below --zone-dir.
	Direct Mode = "direct"
)

// Repositories as the only element of Zone.From means all repositories of the workspace.
const Repositories = "repositories"

// Layout has the zones of a context. The zero Layout has none. It does not change after the context was seeded.
type Layout struct {
	Mode  Mode   `json:"mode,omitempty"`
	Zones []Zone `json:"zones,omitempty"`
}

// Zone is one zone.
type Zone struct {
	// Path is one name with a slash before it: "/workspace".
	Path string `json:"path"`
	// From, in a sandboxed layout, is what the zone is seeded from: Repositories, or folders of the workspace. At most one zone has it.
	From []string `json:"from,omitempty"`
	// Dir, in a direct layout, is the directory: relative to the workspace, or absolute and below --zone-dir.
	Dir string `json:"dir,omitempty"`
	// ReadOnly refuses mutations with EROFS.
	ReadOnly bool `json:"read_only,omitempty"`
	// NeverCommit keeps its files out of changes.
	NeverCommit bool `json:"never_commit,omitempty"`
	// MaxBytes bounds a sandboxed zone; 0 means no limit but the context's.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Keep is after how long a collection of garbage removes files of a zone with NeverCommit; 0 means never.
	Keep time.Duration `json:"keep,omitempty"`
}

// Into returns the name of the zone that seeding fills, which is a directory of the context; "" means the context's root. Changes, commits
// and reviews are of what is below it.
func (l Layout) Into() string {
	for _, z := range l.Zones {
		if len(z.From) > 0 {
			return z.Path[1:]
		}
	}
	return ""
}

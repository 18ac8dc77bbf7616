package contexts

import (
	"context"

	"github.com/ctxfs/ctxfs/contexts/batch"
)

// bigBatch does every kind of step to a context that was seeded with app. It has directories of the layer, which overlays move in their own way.
func bigBatch() []batch.Step {
	return []batch.Step{
		{Kind: batch.Rename, Path: "app/d1", Dest: "app/moved"},
		{Kind: batch.Write, Path: "app/moved/f1.txt", Data: []byte("new"), Mode: 0o644},
		{Kind: batch.Remove, Path: "app/d2", Recursive: true},
		{Kind: batch.Mkdir, Path: "app/d2/deep", Mode: 0o755, Recursive: true},
		{Kind: batch.Copy, Path: "app/d3/f3.txt", Dest: "app/d2/deep/copy"},
		{Kind: batch.Rename, Path: "app/d4/f4.txt", Dest: "app/d5/f5.txt"},
		{Kind: batch.Symlink, Path: "app/d4/l", Target: "../d5"},
		{Kind: batch.Chmod, Path: "app/d6/f6.txt", Mode: 0o700},
		{Kind: batch.Edit, Path: "app/d4/l/f5.txt", Edit: func(old []byte) ([]byte, error) { return append(old, "edited"...), nil }},
	}
}

func runBatch(m *Manager, id ID) error {
	_, err := m.Batch(context.Background(), id, BatchOptions{Steps: func(*Access) ([]batch.Step, error) { return bigBatch(), nil }})
	return err
}

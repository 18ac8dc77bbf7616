package rootfs

import (
	"context"
	"sync"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// linkedFile is a file that is moved: overlayfs may show it with either identity, the layer's or its own.
type linkedFile [2]fileID

// linkTree makes the directories below src again in dst, both being trails at their tops, with links to the same files.
func linkTree(root Nodes, src, dst *trail, workers int) (map[string]linkedFile, error) {
	ctx, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	from, err := src.top().lstat("")
	if err != nil {
		return nil, err
	}
	to, err := dst.top().lstat("")
	if err != nil {
		return nil, err
	}
	opts := CopyOptions{PreserveTimestamps: true, PreserveXattrs: true, Workers: workers}
	linked := &linker{files: map[string]linkedFile{}}
	c := &copier{
		ctx: ctx, abort: abort, from: root, opts: opts, tally: newTally(opts),
		guard: to.id(), srcTrail: src, dstTrail: dst, linker: linked,
	}
	c.workers.SetLimit(workers)
	err = c.copyDirs(from, true)
	return linked.files, err
}

// linker has a copier make links to files instead of copies, and remembers which.
type linker struct {
	mu sync.Mutex
	// files are by their path in both trees.
	files map[string]linkedFile
}

// linkFile makes job's source appear in the new tree as well. One that is gone is passed over.
func (c *copier) linkFile(job *fileJob) error {
	return namespaces.WithCapabilities(func() error {
		if err := job.src.dir.link(job.src.name, job.dst.dir.dirNode, job.dst.name); err != nil {
			return ignoring(err, fserr.ENOENT)
		}
		own, err := job.dst.dir.lstat(job.dst.name)
		if err != nil {
			return err
		}
		c.linker.mu.Lock()
		defer c.linker.mu.Unlock()
		c.linker.files[job.rel] = linkedFile{job.stat.id(), own.id()}
		return nil
	})
}

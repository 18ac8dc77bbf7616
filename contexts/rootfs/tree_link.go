package rootfs

import (
	"sync"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/internal/namespaces"
)

// linkedFile is a file that is moved: overlayfs may show it with either identity, the layer's or its own.
type linkedFile [2]fileID

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

package peers

import (
	"context"
	"errors"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// DirectReader reads a small file in this process, by open, fstat, read and close.
type DirectReader interface {
	ReadDirect(name string, buf []byte) (int, error)
}

// Confined is the package that confines paths, called in this process, beside the system
// calls that it stands for: what confinement costs.
type Confined struct{}

// Name implements Family.
func (*Confined) Name() string { return "confinement" }

// Close implements Family.
func (*Confined) Close() error { return nil }

// Start implements Family.
func (*Confined) Start(_ context.Context, env Env) ([]*Peer, error) {
	return append([]*Peer{{
		Name: "rootfs", What: "contexts/rootfs called in this process", Role: Limit,
		Dial: func(context.Context, int) (Conn, error) {
			root, err := rootfs.Open(env.Root, rootfs.Options{})
			return confinedConn{root}, err
		},
	}}, plainPeers(env.Root)...), nil
}

type confinedConn struct{ rootfs.Root }

// ReadDirect implements DirectReader. The attributes come with the open, as in ReadFile.
func (c confinedConn) ReadDirect(name string, buf []byte) (int, error) {
	f, _, err := c.OpenStat(name, rootfs.O_RDONLY)
	if err != nil {
		return 0, err
	}
	n, err := f.Read(buf)
	return n, errors.Join(err, f.Close())
}

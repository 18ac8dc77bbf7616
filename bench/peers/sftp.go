package peers

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"github.com/pkg/sftp"
)

// sftpPacket is the largest payload of a packet: more than the 32 KiB that every server must take, since both ends are ours, and the most
// that pkg/sftp's server takes.
const sftpPacket = 128 << 10

// startSFTP is pkg/sftp, server and client, with all that makes it fast: concurrent reads and writes within a file, large packets, the
// server's allocator.
func startSFTP(ctx context.Context, e *Env) ([]*Peer, error) {
	s, err := e.goServer(ctx, "sftp")
	if err != nil {
		return nil, err
	}
	var out []*Peer
	for _, p := range []struct {
		name, what string
		conns      int
	}{{"sftp", "pkg/sftp without ssh, one connection, unix socket", 1}, {"sftp-x4", "pkg/sftp without ssh, four connections, unix socket", 4}} {
		out = append(out, &Peer{Name: p.name, What: p.what, Role: Rival, PIDs: s.pids, Dial: func(ctx context.Context, workers int) (*Conn, error) {
			c := &sftpConn{buffers: make([][]byte, workers)}
			for i := range c.buffers {
				c.buffers[i] = make([]byte, 32<<10)
			}
			for range min(p.conns, workers) {
				under, err := dial(ctx, "unix", s.socket)
				if err != nil {
					return nil, errors.Join(err, c.close())
				}
				client, err := sftp.NewClientPipe(under, under, sftp.UseConcurrentReads(true), sftp.UseConcurrentWrites(true), sftp.MaxPacketUnchecked(sftpPacket))
				if err != nil {
					return nil, errors.Join(err, under.Close(), c.close())
				}
				c.links = append(c.links, sftpLink{client, under})
			}
			return c.conn(), nil
		}})
	}
	return out, nil
}

// sftpLink is a client and the connection below it, which the client does not close.
type sftpLink struct {
	client *sftp.Client
	under  net.Conn
}

type sftpConn struct {
	links   []sftpLink
	buffers [][]byte
}

// close closes the connections first. The clients' own Close then fails, and that error is of no use.
func (c *sftpConn) close() (err error) {
	for _, l := range c.links {
		err = errors.Join(err, l.under.Close())
		_ = l.client.Close()
	}
	return err
}

func (c *sftpConn) conn() *Conn {
	client := func(worker int) *sftp.Client { return c.links[worker%len(c.links)].client }
	write := func(worker int, name string, write func(*sftp.File) error) error {
		f, err := client(worker).OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	return &Conn{
		Close: c.close,
		Stat:  func(worker int, name string) error { return only(client(worker).Stat(name)) },
		Read: func(worker int, name string) ([]byte, error) {
			f, err := client(worker).Open(name)
			if err != nil {
				return nil, err
			}
			buf := c.buffers[worker]
			n, err := f.ReadAt(buf, 0) // short of the buffer's size is the end: one read is enough for a small file
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return buf[:n], errors.Join(err, f.Close())
		},
		Write: func(worker int, name string, data []byte) error {
			return write(worker, name, func(f *sftp.File) error { return only(f.Write(data)) })
		},
		Remove: func(worker int, name string) error { return client(worker).Remove(name) },
		List:   func(worker int, dir string) (int, []string, error) { return listed(client(worker).ReadDir(dir)) },
		ReadLarge: func(name string) (int64, error) {
			f, err := client(0).Open(name)
			if err != nil {
				return 0, err
			}
			var s sink
			_, err = f.WriteTo(&s) // asks for many parts at a time
			return s.n, errors.Join(err, f.Close())
		},
		WriteLarge: func(name string, size int64) error {
			return write(0, name, func(f *sftp.File) error { return only(f.ReadFrom(source(size))) }) // has many parts under way
		},
	}
}

// serveSFTP serves each connection until its client leaves.
func serveSFTP(ls []net.Listener, root string) error {
	var running sync.WaitGroup
	defer running.Wait()
	return serveAll(ls, func(l net.Listener) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			running.Go(func() {
				defer c.Close()
				if s, err := sftp.NewServer(c, sftp.WithServerWorkingDirectory(root), sftp.WithAllocator(), sftp.WithMaxTxPacket(sftpPacket)); err == nil {
					_ = s.Serve() // its error is the client's leaving
				}
			})
		}
	})
}

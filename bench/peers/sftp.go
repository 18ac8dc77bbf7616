package peers

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// sftpConns is how many connections the variant with several has.
const sftpConns = 4

// SFTP is pkg/sftp, server and client, with all that makes it fast: concurrent reads and
// writes within a file, large packets, the server's allocator.
type SFTP struct{ goServer }

// Name implements Family.
func (*SFTP) Name() string { return "sftp" }

// Start implements Family.
func (s *SFTP) Start(ctx context.Context, env Env) ([]*Peer, error) {
	if err := s.start(ctx, env, "sftp"); err != nil {
		return nil, err
	}
	return []*Peer{
		{Name: "sftp", What: "pkg/sftp without ssh, one connection, unix socket", PIDs: s.pids(), Dial: func(ctx context.Context, n int) (Conn, error) {
			return dialSFTP(n, 1, func() (sftpLink, error) { return s.bare(ctx) })
		}},
		{Name: "sftp-x4", What: "pkg/sftp without ssh, four connections, unix socket", PIDs: s.pids(), Dial: func(ctx context.Context, n int) (Conn, error) {
			return dialSFTP(n, sftpConns, func() (sftpLink, error) { return s.bare(ctx) })
		}},
		{Name: "sftp-ssh", What: "pkg/sftp within ssh, TCP", PIDs: s.pids(), Dial: func(ctx context.Context, n int) (Conn, error) {
			return dialSFTP(n, 1, func() (sftpLink, error) { return s.secure(ctx) })
		}},
	}, nil
}

func sftpOptions() []sftp.ClientOption {
	return []sftp.ClientOption{sftp.UseConcurrentReads(true), sftp.UseConcurrentWrites(true), sftp.MaxPacketUnchecked(sftpPacket)}
}

// sftpLink is a client and the connection below it, which the client does not close.
type sftpLink struct {
	client *sftp.Client
	under  net.Conn
}

func (s *SFTP) bare(ctx context.Context) (sftpLink, error) {
	c, err := s.dial(ctx, "unix")
	if err != nil {
		return sftpLink{}, err
	}
	cl, err := sftp.NewClientPipe(c, c, sftpOptions()...)
	return sftpLink{client: cl, under: c}, err
}

func (s *SFTP) secure(ctx context.Context) (sftpLink, error) {
	c, err := s.dial(ctx, "tcp")
	if err != nil {
		return sftpLink{}, err
	}
	conn, channels, requests, err := ssh.NewClientConn(c, s.tcp, &ssh.ClientConfig{
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // the server was started by this program, on loopback
	})
	if err != nil {
		return sftpLink{}, errors.Join(err, c.Close())
	}
	cl, err := sftp.NewClient(ssh.NewClient(conn, channels, requests), sftpOptions()...)
	if err != nil {
		return sftpLink{}, errors.Join(err, c.Close())
	}
	return sftpLink{client: cl, under: c}, nil
}

type sftpConn struct {
	links   []sftpLink
	buffers [][]byte
}

func dialSFTP(workers, conns int, dial func() (sftpLink, error)) (Conn, error) {
	c := &sftpConn{buffers: make([][]byte, workers)}
	for i := range c.buffers {
		c.buffers[i] = make([]byte, 32<<10)
	}
	for range min(conns, workers) {
		link, err := dial()
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.links = append(c.links, link)
	}
	return c, nil
}

func (c *sftpConn) client(worker int) *sftp.Client { return c.links[worker%len(c.links)].client }

// Close implements Conn.
func (c *sftpConn) Close() error {
	var errs []error
	for _, l := range c.links {
		// Close the connection first: within ssh a client waits for the server to end the channel,
		// which pkg/sftp's server never does. The client's own Close then fails, and that error is of no use.
		errs = append(errs, l.under.Close())
		_ = l.client.Close()
	}
	return errors.Join(errs...)
}

// Stat implements Stater.
func (c *sftpConn) Stat(worker int, name string) error {
	_, err := c.client(worker).Stat(name)
	return err
}

// ReadFile implements FileReader. Short of the buffer's size is the end: one read is enough
// for a small file.
func (c *sftpConn) ReadFile(worker int, name string) ([]byte, error) {
	f, err := c.client(worker).Open(name)
	if err != nil {
		return nil, err
	}
	buf := c.buffers[worker]
	n, err := f.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:n], errors.Join(err, f.Close())
}

// WriteFile implements FileWriter.
func (c *sftpConn) WriteFile(worker int, name string, data []byte) error {
	f, err := c.client(worker).OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Remove implements Remover.
func (c *sftpConn) Remove(worker int, name string) error { return c.client(worker).Remove(name) }

// List implements Lister.
func (c *sftpConn) List(worker int, dir string) (int, []string, error) {
	entries, err := c.client(worker).ReadDir(dir)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return len(entries), dirs, err
}

// ReadStream implements StreamReader: WriteTo asks for many parts at a time.
func (c *sftpConn) ReadStream(name string) (int64, error) {
	f, err := c.client(0).Open(name)
	if err != nil {
		return 0, err
	}
	var s sink
	_, err = f.WriteTo(&s)
	return s.n, errors.Join(err, f.Close())
}

// WriteStream implements StreamWriter: ReadFrom has many parts under way.
func (c *sftpConn) WriteStream(name string, size int64) error {
	f, err := c.client(0).OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.ReadFrom(source(size))
	return errors.Join(err, f.Close())
}

package peers

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// sftpPacket is the largest payload of a packet: more than the 32 KiB that every server must
// take, since both ends are ours, and the most that pkg/sftp's server takes.
const sftpPacket = 128 << 10

// serveSFTP speaks sftp bare on the unix socket, and within ssh on TCP.
func serveSFTP(ls []net.Listener, root string) error {
	config, err := sshServerConfig()
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error {
		return acceptAll(ls[0], func(c net.Conn) { serveSFTPOn(c, root) })
	})
	g.Go(func() error {
		return acceptAll(ls[1], func(c net.Conn) { serveSSH(c, config, root) })
	})
	return g.Wait()
}

// acceptAll serves each connection until its client leaves.
func acceptAll(l net.Listener, serve func(net.Conn)) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		running.Go(func() {
			defer c.Close()
			serve(c)
		})
	}
}

type readWriteCloser interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
	Close() error
}

func serveSFTPOn(c readWriteCloser, root string) {
	s, err := sftp.NewServer(c, sftp.WithServerWorkingDirectory(root), sftp.WithAllocator(), sftp.WithMaxTxPacket(sftpPacket))
	if err != nil {
		return
	}
	_ = s.Serve() // its error is the client's leaving
}

func sshServerConfig() (*ssh.ServerConfig, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	return config, nil
}

// serveSSH gives the sftp subsystem to every session that asks for one.
func serveSSH(c net.Conn, config *ssh.ServerConfig, root string) {
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	defer conn.Close()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { ssh.DiscardRequests(requests) })
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			for r := range requests {
				_ = r.Reply(r.Type == "subsystem", nil)
			}
		})
		running.Go(func() { serveSFTPOn(channel, root) })
	}
}

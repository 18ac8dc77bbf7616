package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Replies of SOCKS5 (RFC 1928, section 6).
const (
	socksVersion     = 5
	socksGranted     = 0
	socksFailed      = 1
	socksForbidden   = 2
	socksNoCommand   = 7
	socksNoAddress   = 8
	socksNoMethod    = 0xff
	socksConnect     = 1
	socksByName      = 3
	socksNoPassword  = 0
	socksReplyLength = 10
)

func (p *Proxy) serveSOCKS() {
	for {
		client, err := p.socks.Accept()
		if err != nil {
			return // the proxy ends
		}
		if !p.enter() {
			_ = client.Close() // it was not served
			return
		}
		go func() {
			defer p.leave()
			p.serveSOCKSClient(client)
		}()
	}
}

func (p *Proxy) serveSOCKSClient(client net.Conn) {
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(p.cfg.headerTime)); err != nil {
		return
	}
	name, code, err := readSOCKS(client)
	if err != nil {
		_ = answerSOCKS(client, code) // it is refused
		return
	}
	target, err := p.open(p.ended, name)
	if err != nil {
		code = socksFailed
		if r := (*refused)(nil); errors.As(err, &r) {
			code = socksForbidden
		}
		_ = answerSOCKS(client, code) // it is refused
		return
	}
	if answerSOCKS(client, socksGranted) != nil || client.SetDeadline(time.Time{}) != nil {
		_ = target.Close() // the client left
		return
	}
	p.tunnel(client, target, strings.NewReader(""))
}

// answerSOCKS sends a reply; code 0xff is one to the first message of a client.
func answerSOCKS(client io.Writer, code byte) error {
	reply := make([]byte, socksReplyLength)
	reply[0], reply[1], reply[3] = socksVersion, code, 1 // the address is 0.0.0.0:0
	if code == socksNoMethod {
		reply = reply[:2]
	}
	_, err := client.Write(reply)
	return err
}

var errSOCKS = errors.New("no request to connect to a name by SOCKS5")

// readSOCKS reads the request of a client, and returns its target as NAME:PORT. If it fails, code is the reply.
func readSOCKS(client io.ReadWriter) (target string, code byte, err error) {
	buf := make([]byte, 2+255)
	if _, err := io.ReadFull(client, buf[:2]); err != nil || buf[0] != socksVersion {
		return "", socksNoMethod, errSOCKS
	}
	methods := buf[2 : 2+int(buf[1])]
	if _, err := io.ReadFull(client, methods); err != nil || !slices.Contains(methods, socksNoPassword) {
		return "", socksNoMethod, errSOCKS
	}
	if _, err := client.Write([]byte{socksVersion, socksNoPassword}); err != nil {
		return "", socksFailed, err
	}
	if _, err := io.ReadFull(client, buf[:4]); err != nil || buf[0] != socksVersion {
		return "", socksFailed, errSOCKS
	}
	switch {
	case buf[1] != socksConnect:
		return "", socksNoCommand, errSOCKS
	case buf[3] != socksByName:
		return "", socksNoAddress, errSOCKS
	}
	if _, err := io.ReadFull(client, buf[:1]); err != nil {
		return "", socksFailed, err
	}
	name := make([]byte, int(buf[0])+2)
	if _, err := io.ReadFull(client, name); err != nil {
		return "", socksFailed, err
	}
	end := len(name) - 2
	return net.JoinHostPort(string(name[:end]), strconv.Itoa(int(binary.BigEndian.Uint16(name[end:])))), 0, nil
}

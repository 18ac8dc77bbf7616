package peers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ctxfs/ctxfs/bench/child"
)

// Nginx is nginx as its package installs it: static files, WebDAV's PUT and DELETE, listings
// by autoindex.
type Nginx struct {
	// Listing is the format of listings; "" means json.
	Listing string
	process *child.Process
	address string
}

// Name implements Family.
func (*Nginx) Name() string { return "nginx" }

// nginxConfig runs as whoever runs it; the logs are off, as all other peers' are. Temporary
// files of PUT lie on the disk of the files, so that they are renamed into place.
const nginxConfig = `
daemon off;
worker_processes auto;
%[1]s
pid %[2]s/nginx.pid;
error_log stderr error;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_requests 100000000;
  keepalive_timeout 600s;
  client_max_body_size 0;
  client_body_buffer_size 1m;
  default_type application/octet-stream;
  client_body_temp_path %[2]s/body;
  proxy_temp_path %[2]s/proxy;
  fastcgi_temp_path %[2]s/fastcgi;
  uwsgi_temp_path %[2]s/uwsgi;
  scgi_temp_path %[2]s/scgi;
  server {
    listen %[3]s;
    root %[4]s;
    dav_methods PUT DELETE;
    create_full_put_path off;
    dav_access user:rw group:r all:r;
    autoindex on;
    autoindex_format %[5]s;
  }
}
`

// Start implements Family.
func (n *Nginx) Start(ctx context.Context, env Env) ([]*Peer, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return nil, &MissingError{What: "nginx (Debian: nginx-light)"}
	}
	if strings.ContainsAny(env.Root+env.Scratch, " ;{}\"'") {
		return nil, &MissingError{What: "nginx: its settings cannot hold the path " + env.Root}
	}
	address, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(env.Scratch, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;"
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, user, dir, address, env.Root, cmp.Or(n.Listing, "json")), 0o644); err != nil {
		return nil, err
	}
	n.address = address
	if n.process, err = child.Start(dir, program, "-p", dir, "-c", config, "-e", "stderr"); err != nil {
		return nil, err
	}
	if err := n.process.Await(ctx, func() error { return answers(ctx, address) }); err != nil {
		return nil, err
	}
	return []*Peer{{
		Name: "nginx", What: "nginx with WebDAV and autoindex, TCP", PIDs: []int{n.process.PID()},
		Dial: func(_ context.Context, workers int) (Conn, error) {
			return newHTTPConn("http://"+address+"/", "/", workers), nil
		},
	}}, nil
}

// Address returns where it listens.
func (n *Nginx) Address() string { return n.address }

// Close implements Family.
func (n *Nginx) Close() error {
	if n.process == nil {
		return nil
	}
	return n.process.Stop()
}

// freePort asks the system for a port that is free now: nginx cannot listen on port 0.
func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func answers(ctx context.Context, address string) error {
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

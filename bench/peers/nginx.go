package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

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

// StartNginx is nginx as its package installs it: static files, WebDAV's PUT and DELETE, listings by autoindex in a format.
func StartNginx(listing string) func(context.Context, *Env) ([]*Peer, error) {
	return func(ctx context.Context, e *Env) ([]*Peer, error) {
		program, err := exec.LookPath("nginx")
		if err != nil {
			return nil, &MissingError{What: "nginx (Debian: nginx-light)"}
		}
		if strings.ContainsAny(e.Root+e.Scratch, " ;{}\"'") {
			return nil, &MissingError{What: "nginx: its settings cannot hold the path " + e.Root}
		}
		// nginx cannot listen on port 0: the system knows one that is free now.
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		address, user, dir := l.Addr().String(), "", filepath.Join(e.Scratch, "nginx")
		if os.Geteuid() == 0 {
			user = "user root;"
		}
		config := filepath.Join(dir, "nginx.conf")
		if err := errors.Join(l.Close(), os.MkdirAll(dir, 0o755), os.WriteFile(config, fmt.Appendf(nil, nginxConfig, user, dir, address, e.Root, listing), 0o644)); err != nil {
			return nil, err
		}
		p, err := e.Start(dir, program, "-p", dir, "-c", config, "-e", "stderr")
		if err != nil {
			return nil, err
		}
		err = p.Await(ctx, func() error {
			c, err := dial(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return c.Close()
		})
		return []*Peer{{
			Name: "nginx", What: "nginx with WebDAV and autoindex, TCP", Role: Rival, Address: address, PIDs: []int{p.PID()},
			Dial: func(_ context.Context, workers int) (*Conn, error) {
				return httpConn("http://"+address+"/", workers), nil
			},
		}}, err
	}
}

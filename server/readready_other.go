//go:build !linux

package server

import "net"

// pooled returns conn as gRPC should have it.
func pooled(conn *sharedConn) net.Conn { return conn }

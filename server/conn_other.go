//go:build !linux

package server

import "net"

func inUserNamespace() bool { return false }

// pooled returns the connection that gRPC reads.
func pooled(conn *sharedConn) net.Conn { return conn }

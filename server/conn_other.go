//go:build !linux

package server

import (
	"net"
)

func inUserNamespace() bool { return false }

// pooled returns conn as gRPC should have it.
func pooled(conn *sharedConn) net.Conn { return conn }

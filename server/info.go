package server

import (
	"github.com/ctxfs/ctxfs/contexts"
)

// Info is what a person wants to know of a running server.
type Info struct {
	Version string
	PID     int
	// Workspace and ContextsDir are absolute paths.
	Workspace   string
	ContextsDir string
	// Repositories are the workspace's, relative to it.
	Repositories []string
	// Plan says what a seeding would copy; nil with PlanError when that could not be
	// told within the time that a start may take.
	Plan      *contexts.Plan
	PlanError string
	// Driver is a line such as "copy (overlay: no CAP_SYS_ADMIN)".
	Driver    string
	Addresses Addresses
	// Warnings are sentences about what an operator should mend, such as a full disk at the start.
	Warnings []string
}

// Addresses are where a server listens.
type Addresses struct {
	// Socket is the path of the unix socket.
	Socket string
	// TCP and HTTP are the actual addresses, with the ports that the system chose for :0.
	TCP  []string
	HTTP string
	// TLS says that TCP and HTTP speak it.
	TLS bool
	// TokenFile holds the host token.
	TokenFile string
}

// Target returns the address of the unix socket as grpcurl and grpc.NewClient take it.
func (a Addresses) Target() string { return "unix://" + a.Socket }

// All returns the gRPC addresses, the unix socket's first.
func (a Addresses) All() []string { return append([]string{a.Target()}, a.TCP...) }

//go:build !linux

package peers

// plainPeers is empty: the comparison is of Linux's system calls.
func plainPeers(string) []*Peer { return nil }

//go:build !linux

package server

func inUserNamespace() bool { return false }

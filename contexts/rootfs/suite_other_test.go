//go:build !linux

package rootfs

var systemBehaviours []behaviour

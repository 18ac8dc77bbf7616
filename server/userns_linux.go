package server

import "github.com/moby/sys/userns"

func inUserNamespace() bool { return userns.RunningInUserNS() }

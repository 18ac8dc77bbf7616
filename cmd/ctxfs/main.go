// Command ctxfs gives panels real folders, filled with the workspace's repositories, over gRPC.
package main

import (
	"context"
	"os"

	"github.com/ctxfs/ctxfs/cli"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/server/command"
)

// version is set by the linker: -X main.version=0.1.0.
var version = "0.1.0-dev"

func main() {
	if code, is := exec.Init(os.Args); is {
		os.Exit(code)
	}
	ctx, stop := command.UntilSignal(context.Background())
	env := command.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Args: os.Args[1:], Version: version}
	root := cli.Root(cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: version, PlanSeed: env.PlanSeed}, command.Commands(env)...)
	code := cli.Run(ctx, root, os.Args[1:])
	stop()
	os.Exit(code)
}

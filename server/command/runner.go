package command

import (
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/internal/ring"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/runner"
	"github.com/ctxfs/ctxfs/server"
	"github.com/ctxfs/ctxfs/server/services"
)

// runnerName is the command that a server starts its runner with.
const runnerName = "runner"

// runnerCommand is for servers, not for people: a runner gets its sockets and settings from the server that starts it.
func (e Env) runnerCommand() *cobra.Command {
	return &cobra.Command{
		Use: runnerName, Short: "Own the commands of a contexts directory; a server starts it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := server.NewLogger(server.DefaultConfig(), bounded(e.Stderr))
			if err != nil {
				return err
			}
			return runner.Serve(cmd.Context(), e.Stdin, log, func(registry grpc.ServiceRegistrar, processes *exec.Processes) {
				ctxfsv1.RegisterExecServiceServer(registry, &services.Exec{Processes: processes})
			})
		},
	}
}

// bounded bounds the size of a log if it is a file.
func bounded(log io.Writer) io.Writer {
	if file, ok := log.(*os.File); ok {
		if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
			return &ring.File{File: file, Most: ring.Size}
		}
	}
	return log
}

// runner returns the command line of a runner: this program, also when its file was replaced by another version. nil if there is none.
func (e Env) runner() []string {
	if runtime.GOOS != "linux" || e.Args == nil {
		return nil
	}
	return []string{"/proc/self/exe", runnerName}
}

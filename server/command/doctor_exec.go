package command

import (
	"errors"

	"github.com/ctxfs/ctxfs/server"
)

// exec runs a command as 'ctxfs exec' would, outside of any context.
func (x *examination) exec() {
	err := server.ExecRefusal(x.ctx, x.cfg, x.layout.Workspace)
	var bad *server.ConfigError
	switch {
	case errors.As(err, &bad):
		x.say(markFail, "exec", "%v", err)
	case err != nil:
		x.say(markWarn, "exec", "%v", err)
	default:
		x.say(markOK, "exec", "commands run isolated in contexts; their memory is not limited")
	}
}

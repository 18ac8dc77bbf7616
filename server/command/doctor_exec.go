package command

import (
	"errors"
	"fmt"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/server"
)

// exec runs a command as 'ctxfs exec' would, outside of any context, and says what limits commands.
func (x *examination) exec() {
	err := server.ExecRefusal(x.ctx, x.cfg, x.layout.Workspace)
	var bad *server.ConfigError
	switch {
	case errors.As(err, &bad):
		x.say(markFail, "exec", "%v", err)
		return
	case err != nil:
		x.say(markWarn, "exec", "%v", err)
		return
	}
	isolated := fmt.Sprintf("commands run isolated in contexts (%s, with %s); ", exec.Version(x.ctx), exec.Protections())
	switch by, err := exec.LimitsMemory(x.cfg.ExecCgroup); {
	case err != nil:
		x.say(markFail, "exec", "--exec-cgroup: %v", err)
	case by != "":
		x.say(markOK, "exec", "%s%s limits their memory", isolated, by)
	default:
		x.say(markOK, "exec", "%stheir memory is limited only if systemd delegates a cgroup to the server, as ctxfs-exec@.service does, or if --exec-cgroup names one with the controller memory", isolated)
	}
}

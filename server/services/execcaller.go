package services

import (
	"context"
	"fmt"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// execTarget returns the context that a caller names for commands. A panel, or a host that acts for one, names its own or none.
func execTarget(caller panels.Identity, named string) (contexts.ID, error) {
	switch {
	case caller.Panel == "" && named == "":
		return "", &fserr.Error{Code: fserr.EINVAL, Detail: "no context", Hint: "name an explicit context_id"}
	case caller.Panel == "":
		return parseID(named)
	case named != "" && contexts.ID(named) != caller.Context:
		return "", &fserr.Error{Code: fserr.EACCES, Kind: fserr.KindContext, Detail: "the context is another panel's", Hint: "leave context_id empty"}
	}
	return caller.Context, nil
}

// process returns a process that the caller may see and, for a call with an effect on it, may change. A panel sees those of its context,
// and a read-only panel changes only those that cannot write there.
func (s *Exec) process(ctx context.Context, id string, change bool) (*exec.Process, error) {
	p, err := s.Processes.Get(id)
	if err != nil {
		return nil, err
	}
	caller := panels.IdentityFrom(ctx)
	switch cmd := p.Command(); {
	case caller.Panel != "" && cmd.Context != caller.Context:
		return nil, exec.NoProcess(id)
	case change && caller.ReadOnly && !cmd.ReadOnly:
		return nil, &fserr.Error{Code: fserr.EROFS, Detail: fmt.Sprintf("process %s may write, and this panel was opened read-only", id), Hint: "use a process that this panel started"}
	}
	return p, nil
}

// listTarget returns the context whose processes a caller lists; "" for those of all.
func listTarget(ctx context.Context, req *ctxfsv1.ListProcessesRequest) (contexts.ID, error) {
	caller := panels.IdentityFrom(ctx)
	if caller.Panel == "" && req.GetContextId() == "" {
		return "", nil
	}
	return execTarget(caller, req.GetContextId())
}

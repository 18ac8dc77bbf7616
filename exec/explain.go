package exec

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec/egress"
)

// Mount is what a command finds at a path.
type Mount struct {
	Path string
	// Kind is a kind of ExecMount in the proto.
	Kind     string
	Writable bool
	// Size bounds memory, in bytes.
	Size int64
}

// Explanation says what a command, or each command of a profile, gets.
type Explanation struct {
	Profile, Description string
	// User and Directory are those of a command.
	User      User
	Directory string
	Mounts    []Mount
	// Variables are their names.
	Variables []string
	Limits    []Enforced
	Mode      NetworkMode
	// Rules are for NetworkAllowed.
	Rules egress.Rules
	// Landlock is the version that also restricts a command to the mounts; 0 if the kernel has none.
	Landlock int
}

// Explain reports how a command would run. It fails as Start would.
func (t *Processes) Explain(ctx context.Context, cmd Command) (*Explanation, error) {
	if err := cmd.check(); err != nil {
		return nil, err
	}
	plan, err := t.plan(&cmd)
	if err != nil {
		return nil, err
	}
	done, err := t.work()
	if err != nil {
		return nil, err
	}
	defer done()
	if err := t.sandbox.probe(ctx, t.starter); err != nil {
		return nil, err
	}
	access, err := t.cfg.Gate.Acquire(ctx, cmd.Context, contexts.Read)
	if err != nil {
		return nil, err
	}
	defer access.Release()
	limits, err := t.limitsIn(&cmd, plan)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Profile: plan.profile.Name, Limits: t.limitsOf(limits, plan.mode, plan.profile, cmd.Sandbox != ""), Mode: plan.mode, Rules: plan.rules}
	if e.Directory, err = workingDirectory(access.Root, cmd.Cwd); err != nil {
		return nil, err
	}
	return e, t.sandbox.explain(e, plan, access.Root)
}

// Profiles describes the profiles, sorted by name.
func (t *Processes) Profiles() []Explanation {
	var list []Explanation
	for _, p := range t.cfg.Profiles.list() {
		e := Explanation{Profile: p.Name, Description: p.Description, Variables: slices.Sorted(maps.Keys(p.Env)), Mode: p.Network.Mode}
		if e.Mode == NetworkAllowed {
			e.Rules = egress.Rules{Names: p.Network.Names, Ports: p.Ports}
		}
		for _, f := range p.Folders {
			e.Mounts = append(e.Mounts, Mount{Path: f.To, Kind: "folder", Writable: f.Writable})
		}
		e.Limits = t.limitsOf(p.Limits, e.Mode, p, false)
		list = append(list, e)
	}
	return list
}

// limitsOf lists limits, and that of the network.
func (t *Processes) limitsOf(l Limits, mode NetworkMode, p *Profile, shared bool) []Enforced {
	list := t.enforced(l, shared)
	if mode == NetworkAllowed {
		list = append(list, Enforced{"network_bytes", cmp.Or(p.Bytes, egress.DefaultBytes), byProxy})
	}
	return list
}

// Enforcers returns what enforces the limits of each controller, by its name: memory, pids, cpu. A controller without a cgroup is not in it.
func (t *Processes) Enforcers() map[string]string { return t.cgroups.by() }

package exec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/fserr"
)

// plan is what a command gets: its own wishes, within what its profile and the operator permit.
type plan struct {
	profile *Profile
	mode    NetworkMode
	rules   egress.Rules
	// env has the variables besides those of every command.
	env    map[string]string
	limits Limits
	// asked is the command as the caller gave it. A process does not keep the input.
	asked Command
}

// plan applies the profile to a command, and sets its limits and its profile's name.
func (t *Processes) plan(cmd *Command) (*plan, error) {
	var most Limits
	if cmd.OfPanel {
		most = t.cfg.PanelMaxima
	}
	asked := *cmd
	out, err := t.cfg.Profiles.plan(cmd, most)
	if err != nil {
		return nil, err
	}
	out.limits.MemoryBytes = min(out.limits.MemoryBytes, t.memoryFor(cmd, out.profile))
	out.asked, cmd.Limits, cmd.Profile = asked, out.limits, out.profile.Name
	return out, nil
}

// memoryFor bounds the memory of a command by what the cgroups above its own have: half of that leaves room for the server, and for others, and the
// command ends at its own limit. An operator, and a host, may give it all.
func (t *Processes) memoryFor(cmd *Command, profile *Profile) int64 {
	above := t.cgroups.memoryAbove()
	if !cmd.OfPanel && cmd.Limits.MemoryBytes > 0 || profile.Limits.MemoryBytes > 0 || t.cfg.Profiles.Maxima.MemoryBytes > 0 {
		return above
	}
	return max(above/2, leastMemory)
}

// maxNames bounds the names that a command permits.
const maxNames = 256

// plan applies the profile. most bounds the limits besides the operator's maxima. It fails with EINVAL or EACCES if the command asks for what
// there is not, or for what it may not have.
func (p *Profiles) plan(cmd *Command, most Limits) (*plan, error) {
	profile, err := p.get(cmd.Profile)
	if err != nil {
		return nil, err
	}
	if cmd.Sandbox != "" && !names.MatchString(cmd.Sandbox) {
		return nil, fserr.Invalid("sandbox %q: use up to 64 of the characters a-z, A-Z, 0-9, '-', '_' and '.'", cmd.Sandbox)
	}
	out := &plan{profile: profile}
	if err := p.network(out, cmd.Network); err != nil {
		return nil, err
	}
	if out.mode == NetworkHost && cmd.OfPanel {
		return nil, &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("profile %q gives the network of the machine, which panels do not get", profile.Name), Hint: "use another profile"}
	}
	if out.limits, err = p.limits(cmd, profile, most); err != nil {
		return nil, err
	}
	out.env = map[string]string{}
	if out.mode == NetworkAllowed {
		maps.Copy(out.env, proxySettings())
	}
	maps.Copy(out.env, profile.Env)
	maps.Copy(out.env, cmd.Env)
	return out, nil
}

func (p *Profiles) network(out *plan, want Network) error {
	have := out.profile.Network
	out.mode = have.Mode
	switch {
	case want.Mode != NetworkUnset:
		out.mode = want.Mode
	case len(want.Names) > 0:
		out.mode = NetworkAllowed
	}
	switch {
	case out.mode < NetworkNone || out.mode > NetworkHost:
		return fserr.Invalid("no network mode %d", out.mode)
	case out.mode == NetworkHost && have.Mode != NetworkHost:
		return &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("profile %q does not give the network of the machine", out.profile.Name), Hint: "use a profile of the operator's file that has it"}
	case len(want.Names) > maxNames:
		return fserr.Invalid("%d names; at most %d are permitted", len(want.Names), maxNames)
	case out.mode != NetworkAllowed && len(want.Names) > 0:
		return fserr.Invalid("names are for the network mode ALLOWED only")
	}
	for _, name := range want.Names {
		if err := egress.CheckName(name); err != nil {
			return fserr.Invalid("%s", err)
		}
		if !slices.ContainsFunc(p.CommandNames, func(pattern string) bool { return egress.Covers(pattern, name) }) {
			return &fserr.Error{Code: fserr.EACCES, Detail: fmt.Sprintf("a command may not add the name %q", name), Hint: "use a profile that has it"}
		}
	}
	if out.mode == NetworkAllowed {
		out.rules = egress.Rules{Names: slices.Concat(have.Names, want.Names), Ports: out.profile.Ports}
		slices.Sort(out.rules.Names)
		out.rules.Names = slices.Compact(out.rules.Names)
	}
	return nil
}

// limits returns the command's limits, or those of the profile. What the command sets must be within the operator's maxima; what it leaves
// to others is lowered to them.
func (p *Profiles) limits(cmd *Command, profile *Profile, also Limits) (Limits, error) {
	own, most := cmd.Limits, p.maxima(cmd, profile, also)
	for _, l := range []struct {
		name      string
		value, at int64
	}{
		{"wall_ms", own.Wall.Milliseconds(), most.Wall.Milliseconds()}, {"cpu_ms", own.CPU.Milliseconds(), most.CPU.Milliseconds()},
		{"processes", int64(own.Processes), int64(most.Processes)}, {"open_files", int64(own.Files), int64(most.Files)}, {"file_bytes", own.FileBytes, most.FileBytes},
		{"memory_bytes", own.MemoryBytes, most.MemoryBytes}, {"cpu_percent", int64(own.CPUPercent), int64(most.CPUPercent)},
		{"output_bytes", own.OutputBytes, most.OutputBytes}, {"tmp_bytes", own.TmpBytes, most.TmpBytes},
	} {
		if l.at > 0 && l.value > l.at {
			return own, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("limit %s is %d", l.name, l.value), Hint: fmt.Sprintf("at most %d is permitted, by the operator's setting %s", l.at, p.setting(l.name, most))}
		}
	}
	own.Wall = lower(cmp.Or(own.Wall, profile.Limits.Wall, cmd.DefaultWall), most.Wall)
	own.CPU = lower(cmp.Or(own.CPU, profile.Limits.CPU), most.CPU)
	own.Processes = lower(cmp.Or(own.Processes, profile.Limits.Processes, defaultProcesses), most.Processes)
	own.Files = lower(cmp.Or(own.Files, profile.Limits.Files, defaultFiles), most.Files)
	own.FileBytes = lower(cmp.Or(own.FileBytes, profile.Limits.FileBytes, defaultFileBytes), most.FileBytes)
	own.MemoryBytes = lower(cmp.Or(own.MemoryBytes, profile.Limits.MemoryBytes, defaultMemory), most.MemoryBytes)
	own.CPUPercent = lower(cmp.Or(own.CPUPercent, profile.Limits.CPUPercent), most.CPUPercent)
	own.OutputBytes = lower(cmp.Or(own.OutputBytes, profile.Limits.OutputBytes), most.OutputBytes)
	own.TmpBytes = lower(cmp.Or(own.TmpBytes, profile.Limits.TmpBytes, tmpBytes), most.TmpBytes)
	return own, nil
}

// maxima bounds the limits of a command. What a panel may ask for is bounded also where the operator's file does not say it: by what the
// panel gets without asking.
func (p *Profiles) maxima(cmd *Command, profile *Profile, also Limits) Limits {
	most := p.Maxima
	most.Wall, most.Processes = lower(most.Wall, also.Wall), lower(most.Processes, also.Processes)
	if cmd.OfPanel {
		most.MemoryBytes = cmp.Or(most.MemoryBytes, max(profile.Limits.MemoryBytes, defaultMemory))
		most.TmpBytes = cmp.Or(most.TmpBytes, max(profile.Limits.TmpBytes, tmpBytes))
	}
	return most
}

// setting names what an operator sets to permit more of a limit.
func (p *Profiles) setting(limit string, most Limits) string {
	switch {
	case limit == "wall_ms" && most.Wall != p.Maxima.Wall:
		return "--exec-max-time"
	case limit == "processes" && most.Processes != p.Maxima.Processes:
		return "--exec-max-processes"
	}
	return fmt.Sprintf("maxima: {%s} in the file of --exec-profiles", strings.TrimSuffix(limit, "_ms"))
}

// lower returns the lower of two limits; 0 is none.
func lower[T int | int64 | time.Duration](limit, most T) T {
	if limit == 0 || most > 0 && most < limit {
		return most
	}
	return limit
}

// The addresses of the proxy in a sandbox.
const (
	proxyPort = 3128
	socksPort = 1080
)

// environment returns all variables of a command as NAME=VALUE, sorted.
func environment(env map[string]string) []string {
	set := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": agentHome, "USER": "agent", "LANG": "C.UTF-8", "TMPDIR": "/tmp",
	}
	maps.Copy(set, env)
	list := make([]string, 0, len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, name+"="+set[name])
	}
	return list
}

// proxySettings have programs use the proxy, and keep package managers from asking hosts that are no registries.
func proxySettings() map[string]string {
	web, local := "http://127.0.0.1:"+strconv.Itoa(proxyPort), "localhost,127.0.0.1,::1"
	set := map[string]string{
		"ALL_PROXY": "socks5h://127.0.0.1:" + strconv.Itoa(socksPort), "NO_PROXY": local, "HTTP_PROXY": web, "HTTPS_PROXY": web,
		"NODE_USE_ENV_PROXY": "1", "npm_config_proxy": web, "npm_config_https_proxy": web, "npm_config_noproxy": local,
		"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
		"PIP_PROXY": web, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CARGO_HTTP_PROXY": web, "CARGO_NET_GIT_FETCH_WITH_CLI": "true",
	}
	for _, name := range []string{"ALL_PROXY", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY"} {
		set[strings.ToLower(name)] = set[name]
	}
	return set
}

func checkVariable(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
		return fserr.Invalid("bad environment variable %q", name)
	}
	return nil
}

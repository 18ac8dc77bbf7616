package services

import (
	"context"

	"github.com/ctxfs/ctxfs/exec"
	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// ExplainExec implements ExecService.
func (s *Exec) ExplainExec(ctx context.Context, req *ctxfsv1.ExplainExecRequest) (*ctxfsv1.ExplainExecResponse, error) {
	cmd, err := commandFromPB(ctx, req.GetCommand(), 0)
	if err != nil {
		return nil, execStatus(err)
	}
	e, err := s.Processes.Explain(ctx, cmd)
	if err != nil {
		return nil, execStatus(err)
	}
	resp := &ctxfsv1.ExplainExecResponse{
		Profile: e.Profile, Uid: int32(e.User.UID), Gid: int32(e.User.GID), Mounts: mountsToPB(e.Mounts), Variables: e.Variables,
		Limits: limitsToPB(e.Limits), Network: rulesToPB(e.Mode, e.Rules), Landlock: int32(e.Landlock),
	}
	resp.Directory, resp.RawDirectory = twin(e.Directory)
	return resp, nil
}

// ListProfiles implements ExecService.
func (s *Exec) ListProfiles(context.Context, *ctxfsv1.ListProfilesRequest) (*ctxfsv1.ListProfilesResponse, error) {
	resp := &ctxfsv1.ListProfilesResponse{}
	for _, p := range s.Processes.Profiles() {
		resp.Profiles = append(resp.Profiles, &ctxfsv1.ExecProfile{
			Name: p.Profile, Description: p.Description, Network: rulesToPB(p.Mode, p.Rules), Variables: p.Variables, Folders: mountsToPB(p.Mounts),
			Limits: limitsToPB(p.Limits),
		})
	}
	return resp, nil
}

// networkFromPB converts the network that a command asks for. A panel's is that of its profile.
func networkFromPB(ctx context.Context, n *ctxfsv1.Network) (exec.Network, error) {
	if len(n.GetNames()) > 0 && !mayWiden(panels.IdentityFrom(ctx)) {
		return exec.Network{}, &fserr.Error{Code: fserr.EACCES, Detail: "only a host may add names to the network of a command", Hint: "use a profile that has them"}
	}
	return exec.Network{Mode: exec.NetworkMode(n.GetMode()), Names: n.GetNames()}, nil
}

// mayWiden reports whether a caller may give a command more network than its profile has.
func mayWiden(caller panels.Identity) bool { return caller.Role == panels.RoleHost && !caller.Console }

func rulesToPB(mode exec.NetworkMode, r egress.Rules) *ctxfsv1.NetworkRules {
	pb := &ctxfsv1.NetworkRules{Mode: ctxfsv1.NetworkMode(mode), Names: r.Names}
	for _, port := range r.Ports {
		pb.Ports = append(pb.Ports, int32(port))
	}
	return pb
}

func mountsToPB(list []exec.Mount) (pb []*ctxfsv1.ExecMount) {
	for _, m := range list {
		pb = append(pb, &ctxfsv1.ExecMount{Path: m.Path, Kind: m.Kind, Writable: m.Writable, SizeBytes: m.Size})
	}
	return pb
}

func limitsToPB(list []exec.Enforced) (pb []*ctxfsv1.EnforcedLimit) {
	for _, l := range list {
		pb = append(pb, &ctxfsv1.EnforcedLimit{Name: l.Name, Value: l.Value, EnforcedBy: l.By})
	}
	return pb
}

func refusalsToPB(list []exec.Refusal) (pb []*ctxfsv1.NetworkRefusal) {
	for _, r := range list {
		pb = append(pb, &ctxfsv1.NetworkRefusal{Name: r.Name, Port: int32(r.Port), Reason: r.Reason, Count: r.Count})
	}
	return pb
}

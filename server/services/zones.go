package services

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/zones"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// Zones implements ZoneService.
type Zones struct {
	ctxfsv1.UnimplementedZoneServiceServer
	Contexts *contexts.Manager
	// Private reports whether only the server sees the files of contexts that a driver made.
	Private func(driver string) bool
}

// ExplainZones implements ZoneService.
func (s *Zones) ExplainZones(_ context.Context, req *ctxfsv1.ExplainZonesRequest) (*ctxfsv1.ExplainZonesResponse, error) {
	l, err := s.asked(req)
	if err == nil {
		err = s.Contexts.ExplainZones(l)
	}
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	resp := &ctxfsv1.ExplainZonesResponse{Mode: zoneModeToPB(l.Mode), Notes: l.Notes()}
	if req.GetLayout() == nil {
		if err := s.Contexts.CheckZoneFile(req.GetFolder(), l); err != nil {
			_, text, hint := fserr.Parts(err)
			resp.Notes = append(resp.Notes, text+": "+hint)
		}
	}
	for _, z := range l.Zones {
		pb := zoneToPB(z)
		if l.Mode == zones.Direct {
			if pb.Dir, err = s.Contexts.ZoneDir(z); err != nil {
				return nil, fserrpb.ToStatus(err)
			}
		}
		resp.Zones = append(resp.Zones, pb)
	}
	return resp, nil
}

// asked is the layout of a request, or the one in its folder.
func (s *Zones) asked(req *ctxfsv1.ExplainZonesRequest) (zones.Layout, error) {
	if req.GetLayout() != nil {
		spec, err := specOf(nil, req.GetLayout())
		return spec.Zones, err
	}
	if req.GetFolder() == "" {
		return zones.Layout{}, &fserr.Error{Code: fserr.EINVAL, Detail: "no zones to explain", Hint: "give a layout, or a folder of the workspace with a " + zones.FileName}
	}
	l, found, err := s.Contexts.FindZones(req.GetFolder())
	if err == nil && !found {
		err = &fserr.Error{Code: fserr.ENOENT, Path: req.GetFolder(), Detail: "there is no " + zones.FileName + " in this folder of the workspace"}
	}
	return l, err
}

// ListZones implements ZoneService. A panel does not see where a zone is on the server.
func (s *Zones) ListZones(ctx context.Context, req *ctxfsv1.ListZonesRequest) (*ctxfsv1.ListZonesResponse, error) {
	resp, err := s.list(ctx, req)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return resp, nil
}

func (s *Zones) list(ctx context.Context, req *ctxfsv1.ListZonesRequest) (*ctxfsv1.ListZonesResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := infoTarget(caller, req.GetContextId())
	if err != nil {
		return nil, err
	}
	spec, err := s.Contexts.Spec(ctx, id)
	if err != nil {
		return nil, err
	}
	l := spec.Zones
	host := caller.Role == panels.RoleHost
	if host { // a panel gets no error about the host's directories
		if err := s.Contexts.ExplainZones(l); err != nil {
			return nil, err
		}
	}
	resp := &ctxfsv1.ListZonesResponse{Mode: zoneModeToPB(l.Mode)}
	if l.Mode == "" {
		l.Zones = []zones.Zone{{Path: "/", From: spec.From}}
	}
	for _, z := range slices.SortedFunc(slices.Values(l.Zones), func(a, b zones.Zone) int { return strings.Compare(a.Path, b.Path) }) {
		pb := zoneToPB(z)
		if req.GetMeasure() {
			if pb.Bytes, err = s.Contexts.MeasureZone(ctx, id, z.Path); err != nil {
				return nil, err
			}
		}
		if host && l.Mode == zones.Direct {
			pb.Dir, err = s.Contexts.ZoneDir(z)
		} else if host {
			pb.Dir, err = s.folder(ctx, id, z.Path)
		}
		if err != nil {
			return nil, err
		}
		resp.Zones = append(resp.Zones, pb)
	}
	return resp, nil
}

// folder returns where a directory of a context's own folder is; "" if only the server sees it.
func (s *Zones) folder(ctx context.Context, id contexts.ID, path string) (string, error) {
	info, err := s.Contexts.Get(ctx, id)
	if err != nil || s.Private(info.Driver) {
		return "", err
	}
	return s.Contexts.HostPath(ctx, id, path)
}

// ResolvePath implements ZoneService.
func (s *Zones) ResolvePath(ctx context.Context, req *ctxfsv1.ResolvePathRequest) (*ctxfsv1.ResolvePathResponse, error) {
	dir, err := s.resolve(ctx, req)
	if err != nil {
		return nil, fserrpb.ToStatus(fserr.Wrap(err, "realpath", req.GetPath()+string(req.GetRawPath()), ""))
	}
	resp := &ctxfsv1.ResolvePathResponse{}
	resp.Dir, resp.RawDir = twin(dir)
	return resp, nil
}

func (s *Zones) resolve(ctx context.Context, req *ctxfsv1.ResolvePathRequest) (string, error) {
	id, err := infoTarget(panels.IdentityFrom(ctx), req.GetContextId())
	if err != nil {
		return "", err
	}
	spec, err := s.Contexts.Spec(ctx, id)
	if err != nil {
		return "", err
	}
	info, err := s.Contexts.Get(ctx, id)
	if err == nil && spec.Zones.Mode != zones.Direct && s.Private(info.Driver) {
		err = &fserr.Error{
			Code: fserr.EOPNOTSUPP, Detail: "only the server sees the files of contexts of the driver " + info.Driver,
			Hint: "read the file through ctxfs, or make contexts with the driver copy or overlay",
		}
	}
	if err != nil {
		return "", err
	}
	return s.Contexts.HostPath(ctx, id, cmp.Or(string(req.GetRawPath()), req.GetPath()))
}

// ClearZone implements ZoneService.
func (s *Zones) ClearZone(ctx context.Context, req *ctxfsv1.ClearZoneRequest) (*ctxfsv1.ClearZoneResponse, error) {
	caller := panels.IdentityFrom(ctx)
	id, err := infoTarget(caller, req.GetContextId())
	if err == nil && caller.ReadOnly {
		err = &fserr.Error{Code: fserr.EROFS, Hint: "this panel was opened read-only"}
	}
	if err == nil && caller.Role != panels.RoleHost {
		err = s.mayEmpty(ctx, id)
	}
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	removed, err := s.Contexts.ClearZone(ctx, id, req.GetZone())
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.ClearZoneResponse{Removed: removed}, nil
}

// mayEmpty refuses a panel that empties direct zones: the files are the user's.
func (s *Zones) mayEmpty(ctx context.Context, id contexts.ID) error {
	spec, err := s.Contexts.Spec(ctx, id)
	if err == nil && spec.Zones.Mode == zones.Direct {
		err = &fserr.Error{Code: fserr.EACCES, Detail: "direct zones are real directories, which only a host empties", Hint: "remove what is not needed by its path"}
	}
	return err
}

func zoneModeToPB(m zones.Mode) ctxfsv1.ZoneMode {
	for pb, mode := range zoneModes {
		if mode == m {
			return pb
		}
	}
	return ctxfsv1.ZoneMode_ZONE_MODE_UNSPECIFIED
}

// zoneToPB leaves the directory out.
func zoneToPB(z zones.Zone) *ctxfsv1.Zone {
	return &ctxfsv1.Zone{
		Path: z.Path, ReadOnly: z.ReadOnly, NeverCommit: z.NeverCommit, From: z.From, Bytes: -1, MaxBytes: z.MaxBytes, KeepMs: z.Keep.Milliseconds(),
	}
}

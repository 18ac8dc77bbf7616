package services

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/panels"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

// Files is what GatewayService needs of FsService.
type Files interface {
	Stat(ctx context.Context, req *ctxfsv1.StatRequest) (*ctxfsv1.StatResponse, error)
}

// Snapshots knows the snapshots of contexts (contexts.Manager).
type Snapshots interface {
	SnapshotTaken(ctx context.Context, id contexts.ID, name string) (ns int64, err error)
}

// Gateway implements GatewayService.
type Gateway struct {
	ctxfsv1.UnimplementedGatewayServiceServer
	Sites *sites.Registry
	Files Files
	// Snapshots are what sites may show instead of a context as it is.
	Snapshots Snapshots
	// URL returns where a site is, and the origin of that; nil if the server has no address for sites.
	URL func(form sites.Form, capability string) (url, origin string)
}

var formNames = map[ctxfsv1.SiteForm]sites.Form{
	ctxfsv1.SiteForm_SITE_FORM_UNSPECIFIED: sites.FormHost, ctxfsv1.SiteForm_SITE_FORM_HOST: sites.FormHost, ctxfsv1.SiteForm_SITE_FORM_PATH: sites.FormPath,
}

var policyNames = map[ctxfsv1.SitePolicy]sites.Policy{
	ctxfsv1.SitePolicy_SITE_POLICY_UNSPECIFIED: sites.PolicyOpen, ctxfsv1.SitePolicy_SITE_POLICY_OPEN: sites.PolicyOpen,
	ctxfsv1.SitePolicy_SITE_POLICY_NO_NETWORK: sites.PolicyNoNetwork, ctxfsv1.SitePolicy_SITE_POLICY_STRICT: sites.PolicyStrict,
}

// OpenSite implements GatewayService. FsService decides whether the caller may read the context, and makes a panel's own.
func (s *Gateway) OpenSite(ctx context.Context, req *ctxfsv1.OpenSiteRequest) (*ctxfsv1.OpenSiteResponse, error) {
	o, ttl, err := s.wanted(req)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	id := panels.IdentityFrom(ctx)
	contextID := id.Context
	if req.GetContextId() != "" {
		contextID = contexts.ID(req.GetContextId())
	}
	if err := s.checkRoot(ctx, contextID, req.GetContextId(), &o); err != nil {
		return nil, err
	}
	request := sites.Request{Context: contextID, Panel: id.Panel, Options: o, TTL: ttl, Until: id.ExpiresAt}
	if id.Role == panels.RolePanel {
		request.Token = id.TokenHash
	}
	site, capability, err := s.Sites.Open(ctx, request)
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	url, origin := s.URL(site.Options.Form, capability)
	resp := &ctxfsv1.OpenSiteResponse{Site: wireSite(site), Url: url, Origin: origin}
	if site.Options.Hub {
		resp.HubUrl = url + sites.HubPath
	}
	return resp, nil
}

// checkRoot fails unless the site's root is a directory that the caller may read. It sets when the snapshot was taken that the site shows.
func (s *Gateway) checkRoot(ctx context.Context, id contexts.ID, requested string, o *sites.Options) error {
	if o.Snapshot != "" {
		if _, err := s.Files.Stat(ctx, &ctxfsv1.StatRequest{ContextId: requested, Path: "/"}); err != nil {
			return err
		}
		var err error
		if o.Taken, err = s.Snapshots.SnapshotTaken(ctx, id, o.Snapshot); err != nil {
			return fserrpb.ToStatus(err)
		}
		reader := panels.IdentityFrom(ctx)
		reader.Snapshot, reader.SnapshotTaken = o.Snapshot, o.Taken
		ctx = panels.WithIdentity(ctx, reader)
	}
	root, err := s.Files.Stat(ctx, &ctxfsv1.StatRequest{ContextId: requested, Path: "/" + o.Root})
	if err == nil && root.GetStat().GetType() != ctxfsv1.FileType_FILE_TYPE_DIRECTORY {
		err = fserrpb.ToStatus(fserr.New("opensite", o.Root, fserr.ENOTDIR))
	}
	return err
}

// wanted returns the options and the life that a request asks for.
func (s *Gateway) wanted(req *ctxfsv1.OpenSiteRequest) (o sites.Options, ttl time.Duration, err error) {
	in := req.GetOptions()
	form, knownForm := formNames[in.GetForm()]
	policy, knownPolicy := policyNames[in.GetPolicy()]
	switch {
	case s.URL == nil:
		return o, 0, &fserr.Error{Code: fserr.EOPNOTSUPP, Detail: "this server shows no sites", Hint: "start it with --gateway 127.0.0.1:7422"}
	case !knownForm:
		return o, 0, fserr.Invalid("unknown form %d of a site", in.GetForm())
	case !knownPolicy:
		return o, 0, fserr.Invalid("unknown policy %d of a site", in.GetPolicy())
	}
	ttl, err = ttlOf(req.GetTtlMs())
	return sites.Options{
		Root: in.GetRoot(), Form: form, Index: in.GetIndex(), SPA: in.GetSpa(), Listing: in.GetListing(), Hidden: in.GetHidden(),
		Base: in.GetBase(), LiveReload: in.GetLiveReload(), Policy: policy, Parents: in.GetParents(), Hub: in.GetHub(), Isolate: in.GetIsolate(),
		Snapshot: in.GetSnapshot(),
	}, ttl, err
}

// CloseSite implements GatewayService.
func (s *Gateway) CloseSite(ctx context.Context, req *ctxfsv1.CloseSiteRequest) (*ctxfsv1.CloseSiteResponse, error) {
	site, err := s.Sites.Get(req.GetSiteId(), panels.IdentityFrom(ctx).Panel)
	if err == nil {
		err = s.Sites.Close(ctx, site)
	}
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.CloseSiteResponse{}, nil
}

// ListSites implements GatewayService.
func (s *Gateway) ListSites(ctx context.Context, req *ctxfsv1.ListSitesRequest) (*ctxfsv1.ListSitesResponse, error) {
	panel := panels.IdentityFrom(ctx).Panel
	resp := &ctxfsv1.ListSitesResponse{}
	for _, site := range s.Sites.List() {
		if (panel == "" || site.Panel == panel) && (req.GetContextId() == "" || string(site.Context) == req.GetContextId()) {
			resp.Sites = append(resp.Sites, wireSite(site))
		}
	}
	return resp, nil
}

// RenewSite implements GatewayService.
func (s *Gateway) RenewSite(ctx context.Context, req *ctxfsv1.RenewSiteRequest) (*ctxfsv1.RenewSiteResponse, error) {
	id := panels.IdentityFrom(ctx)
	ttl, err := ttlOf(req.GetTtlMs())
	var site sites.Site
	if err == nil {
		site, err = s.Sites.Get(req.GetSiteId(), id.Panel)
	}
	if err == nil {
		site, err = s.Sites.Renew(ctx, site, ttl, id.ExpiresAt)
	}
	if err != nil {
		return nil, fserrpb.ToStatus(err)
	}
	return &ctxfsv1.RenewSiteResponse{Site: wireSite(site)}, nil
}

func wireSite(s sites.Site) *ctxfsv1.Site {
	o := s.Options
	options := &ctxfsv1.SiteOptions{
		Root: o.Root, Index: o.Index, Spa: o.SPA, Listing: o.Listing, Hidden: o.Hidden, Base: o.Base, LiveReload: o.LiveReload, Parents: o.Parents, Hub: o.Hub, Isolate: o.Isolate,
		Snapshot: o.Snapshot,
	}
	for form, name := range formNames {
		if name == o.Form && form != ctxfsv1.SiteForm_SITE_FORM_UNSPECIFIED {
			options.Form = form
		}
	}
	for policy, name := range policyNames {
		if name == o.Policy && policy != ctxfsv1.SitePolicy_SITE_POLICY_UNSPECIFIED {
			options.Policy = policy
		}
	}
	return &ctxfsv1.Site{
		SiteId: s.ID, ContextId: string(s.Context), PanelId: s.Panel, Options: options, OpenedNs: ns(s.OpenedAt), ExpiresNs: ns(s.ExpiresAt),
	}
}

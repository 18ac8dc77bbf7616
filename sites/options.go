package sites

import (
	"net/url"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
)

// Form is how a site's URL is made.
type Form string

// The forms of a URL. See SiteForm in gateway.proto.
const (
	FormHost Form = "host"
	FormPath Form = "path"
)

// Policy is what the pages of a site may load.
type Policy string

// The policies. See SitePolicy in gateway.proto.
const (
	PolicyOpen      Policy = "open"
	PolicyNoNetwork Policy = "no-network"
	PolicyStrict    Policy = "strict"
)

// HubPath is where the hub of a site is, relative to the site.
const HubPath = "__ctxfs/hub.html"

// maxParents bounds Options.Parents.
const maxParents = 16

// Options is what a site serves, and how. See SiteOptions in gateway.proto.
type Options struct {
	// Root is a virtual path without a slash at the end; "" is the context's root.
	Root       string   `json:"root,omitempty"`
	Form       Form     `json:"form"`
	Index      string   `json:"index"`
	SPA        bool     `json:"spa,omitempty"`
	Listing    bool     `json:"listing,omitempty"`
	Hidden     bool     `json:"hidden,omitempty"`
	Base       bool     `json:"base,omitempty"`
	LiveReload bool     `json:"live_reload,omitempty"`
	Policy     Policy   `json:"policy"`
	Parents    []string `json:"parents,omitempty"`
	Hub        bool     `json:"hub,omitempty"`
	Isolate    bool     `json:"isolate,omitempty"`
	// Snapshot names the snapshot of the context that the site shows, and Taken is when it was taken, ns since the epoch; "" for the
	// context as it is.
	Snapshot string `json:"snapshot,omitempty"`
	Taken    int64  `json:"taken,omitempty"`
}

// normalize fills in the defaults. It fails with EINVAL.
func (o *Options) normalize() error {
	if o.Index == "" {
		o.Index = "index.html"
	}
	root := strings.Trim(o.Root, "/")
	if o.Root = ""; root != "" {
		o.Root = "/" + root
	}
	for _, name := range strings.Split(root, "/") {
		if root != "" && (name == "" || name == "." || name == "..") || strings.Contains(name, "\x00") || len(root) > rootfs.MaxPath/2 {
			return fserr.Invalid("a site's root %.80q must be a path without empty names, . and .., of at most %d bytes", root, rootfs.MaxPath/2)
		}
	}
	if strings.ContainsAny(o.Index, "/\x00") || o.Index == "." || o.Index == ".." || len(o.Index) > rootfs.MaxName {
		return fserr.Invalid("a site's index %.80q must be the name of a file", o.Index)
	}
	if o.Snapshot != "" && o.LiveReload {
		return fserr.Invalid("a site of a snapshot has no live_reload: a snapshot does not change")
	}
	if o.Hub && o.Form != FormHost {
		return fserr.Invalid("a site with a hub has the host form: browsers give pages of the path form no service worker")
	}
	if len(o.Parents) > maxParents {
		return fserr.Invalid("a site has at most %d parents", maxParents)
	}
	for _, parent := range o.Parents {
		if !isOrigin(parent) {
			return fserr.Invalid("a site's parent %.80q must be an origin such as http://localhost:5173", parent)
		}
	}
	return nil
}

// isOrigin accepts only characters that mean nothing else in a Content-Security-Policy.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Scheme+"://"+u.Host == text &&
		strings.Trim(u.Host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]") == ""
}

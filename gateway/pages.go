package gateway

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	"github.com/ctxfs/ctxfs/fsservice"
	"github.com/ctxfs/ctxfs/git"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

// ownFolder is the folder of a site that the gateway fills itself.
const ownFolder = "__ctxfs"

// SiteURL returns where a site is, with a slash at the end, and the origin of that URL.
func (g *Gateway) SiteURL(form sites.Form, capability string) (location, origin string) {
	at := g.cfg.PagesAt
	if form == sites.FormPath {
		origin = at.scheme() + "files" + at.suffix()
		return origin + "/" + capability + "/", origin
	}
	origin = at.scheme() + capability + at.suffix()
	return origin + "/", origin
}

// visit is a request to a site.
type visit struct {
	g    *Gateway
	w    http.ResponseWriter
	r    *http.Request
	site sites.Site
	// base is the URL of the site, and prefix its path: "" for a site with a host of its own.
	base, prefix string
	// names are the decoded segments of the path below the site; dir says that it ended with a slash.
	names []string
	dir   bool
}

// servePage answers a request to the address of sites.
func (g *Gateway) servePage(w http.ResponseWriter, r *http.Request) {
	if !g.requests.enter() {
		say(w, http.StatusServiceUnavailable, "the server is stopping")
		return
	}
	defer g.requests.leave()
	bodied := r.ContentLength != 0
	if bodied {
		// Browsers send none. A proxy may disagree about where it ends, and take the next request for a part of it.
		w.Header().Set("Connection", "close")
	}
	form, capability, rest, ok := g.locate(r)
	if !ok {
		plainHeaders(w.Header())
		say(w, http.StatusMisdirectedRequest, "no site has this host name")
		return
	}
	site, ok := g.cfg.Sites.Find(capability)
	if !ok || site.Options.Form != form {
		g.gone(w, form)
		return
	}
	v := &visit{g: g, w: w, r: r, site: site}
	v.base, _ = g.SiteURL(form, capability)
	if form == sites.FormPath {
		v.prefix = "/" + capability
	}
	v.policyHeaders(w.Header())
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if bodied {
			say(w, http.StatusBadRequest, "a request to a site has no body")
			return
		}
	case http.MethodOptions:
		v.options()
		return
	default:
		w.Header().Set("Allow", allowedMethods)
		say(w, http.StatusMethodNotAllowed, "a site takes "+allowedMethods)
		return
	}
	if r.Header.Get("Service-Worker") != "" && (!site.Options.Hub || rest != "/"+ownFolder+"/"+hubWorker) {
		// The page's own worker would outlive the files that it was made from.
		say(w, http.StatusForbidden, "a site's pages cannot register service workers")
		return
	}
	if rest == "" {
		v.redirect(v.prefix + "/")
		return
	}
	var problem string
	if v.names, v.dir, problem = splitPath(rest); problem != "" {
		say(w, http.StatusBadRequest, problem)
		return
	}
	v.answer()
}

// locate returns the form and the capability that a request names, and the rest of its escaped path. The port is compared as well, so
// that no other name than those of SiteURL is served: a page could point a name of its own at this machine (DNS rebinding). What a proxy
// says in X-Forwarded-Host is not looked at, since a client could say it, too.
func (g *Gateway) locate(r *http.Request) (form sites.Form, capability, rest string, ok bool) {
	host, escaped, suffix := strings.ToLower(r.Host), r.URL.EscapedPath(), g.cfg.PagesAt.suffix()
	if host == "files"+suffix {
		capability, _, _ = strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
		return sites.FormPath, capability, strings.TrimPrefix(escaped, "/"+capability), true
	}
	label, ok := strings.CutSuffix(host, suffix)
	return sites.FormHost, label, escaped, ok && sites.IsCapability(label)
}

// gone answers for a site that does not exist, that has expired or that was closed, and does not show which. A browser that has
// something of a closed site drops it.
func (g *Gateway) gone(w http.ResponseWriter, form sites.Form) {
	plainHeaders(w.Header())
	if form == sites.FormHost {
		w.Header().Set("Clear-Site-Data", `"storage", "cache"`)
	}
	say(w, http.StatusNotFound, "no such site, or it is closed")
}

// splitPath decodes an escaped path, by segment. It returns a problem for a path that a file cannot have. Browsers resolve dots
// themselves.
func splitPath(escaped string) (names []string, dir bool, problem string) {
	escaped, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return nil, false, "the path must begin with a slash"
	}
	if len(escaped) > 3*rootfs.MaxPath {
		return nil, false, "the path is too long"
	}
	if escaped == "" {
		return nil, true, ""
	}
	length := 0
	segments := strings.Split(escaped, "/")
	for i, segment := range segments {
		name, err := url.PathUnescape(segment)
		length += len(name) + 1
		switch {
		case name == "" && err == nil && i == len(segments)-1:
			return names, true, ""
		case err != nil, strings.ContainsAny(name, "/\x00"):
			return nil, false, "the path has an encoded slash or NUL"
		case name == "", name == ".", name == "..":
			return nil, false, "the path has an empty segment, . or .."
		case len(name) > rootfs.MaxName, length > rootfs.MaxPath/2:
			return nil, false, "the path is too long"
		}
		names = append(names, name)
	}
	return names, false, ""
}

// hides reports whether a site does not show a name. No site shows a .git, in any spelling.
func hides(o sites.Options, name string) bool {
	return git.IsDotGit(name) || !o.Hidden && strings.HasPrefix(name, ".") && name != ".well-known"
}

func (v *visit) hidden(name string) bool { return hides(v.site.Options, name) }

// answer serves the path.
func (v *visit) answer() {
	if len(v.names) > 0 && v.names[0] == ownFolder {
		v.own()
		return
	}
	if slices.ContainsFunc(v.names, v.hidden) {
		v.fail(fserr.ENOENT)
		return
	}
	v.call(ctxfsv1.FsService_ReadStream_FullMethodName, v.read(v.path()), v.show)
}

// call runs do as a call of an RPC by a visitor of the site.
func (v *visit) call(rpc string, query any, do func(context.Context, *transfer) error) {
	g := v.g
	t := &transfer{ResponseWriter: v.w, control: http.NewResponseController(v.w), keepalive: g.cfg.Keepalive}
	conn, done := g.cfg.Calls.Conn(v.r.Context(), false)
	defer done()
	ctx := g.cfg.Calls.AsVisitor(callContext(v.r.Context(), v.r, nil, conn), v.site)
	err := g.run(ctx, rpc, query, t, do)
	t.users.end()
	switch {
	case err == nil:
	case t.begun:
		panic(http.ErrAbortHandler) // the closed connection shows the client that content is missing
	default:
		_ = t.extend(v.r.Context(), t.control.SetWriteDeadline) // it may have passed
		v.fail(err)
	}
}

// path returns the virtual path of what the request names.
func (v *visit) path() string { return v.site.Options.Root + "/" + strings.Join(v.names, "/") }

func (v *visit) read(name string) *ctxfsv1.ReadStreamRequest {
	if !utf8.ValidString(name) {
		return &ctxfsv1.ReadStreamRequest{RawPath: []byte(name)}
	}
	return &ctxfsv1.ReadStreamRequest{Path: name}
}

// show sends the file or directory of the path, or the page that stands for it.
func (v *visit) show(ctx context.Context, t *transfer) error {
	name, at := v.path(), time.Now()
	if v.dir {
		name = path.Join(name, v.site.Options.Index)
	}
	content, err := v.open(ctx, name)
	code := codeOf(err)
	switch {
	case code == fserr.EISDIR && !v.dir:
		v.redirect(v.r.URL.EscapedPath() + "/")
		return nil
	case code == fserr.ENOENT && v.dir && v.site.Options.Listing:
		return v.list(ctx, t)
	case code == fserr.ENOENT && v.site.Options.SPA && v.navigates() && !strings.Contains(path.Base(v.path()), "."):
		name = v.site.Options.Root + "/" + v.site.Options.Index
		content, err = v.open(ctx, name)
	}
	if err != nil {
		return err
	}
	return v.send(ctx, t, content, name, at)
}

// open opens a file, unless a link leads from its name to one that the site does not show.
func (v *visit) open(ctx context.Context, name string) (*fsservice.Content, error) {
	return v.g.cfg.Files.OpenContent(ctx, v.read(name), v.shows)
}

// shows reports whether a site shows what is at a path without links. It shows nothing of a .git. Its root may be a hidden
// directory, which was chosen when the site was opened, so only the names below the root count.
func (v *visit) shows(real string, realpath func(path string) (string, error)) bool {
	names := strings.Split(real, "/")
	if slices.ContainsFunc(names, git.IsDotGit) {
		return false
	}
	if !slices.ContainsFunc(names, v.hidden) {
		return true
	}
	root, err := realpath(cmp.Or(v.site.Options.Root, "/"))
	below, inside := strings.CutPrefix(real+"/", strings.TrimSuffix(root, "/")+"/")
	return err == nil && inside && !slices.ContainsFunc(strings.Split(below, "/"), v.hidden)
}

// showsDirectory is shows for a directory that links may be on the way to.
func (v *visit) showsDirectory(ctx context.Context, dir string) bool {
	realpath := func(path string) (string, error) {
		read := v.read(path)
		real, err := v.g.cfg.Files.Realpath(ctx, &ctxfsv1.RealpathRequest{Path: read.GetPath(), RawPath: read.GetRawPath()})
		return cmp.Or(string(real.GetRawPath()), real.GetPath()), err
	}
	real, err := realpath(dir)
	return err != nil || v.shows(real, realpath) // errors show when the directory is read
}

// navigates reports whether a request is for a document that the user will see.
func (v *visit) navigates() bool {
	if mode := v.r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(v.r.Header.Get("Accept"), "text/html")
}

// redirect sends the browser to another path of the site. location begins with one slash, since no segment is empty.
func (v *visit) redirect(location string) {
	if v.r.URL.RawQuery != "" {
		location += "?" + v.r.URL.RawQuery
	}
	v.w.Header().Set("Location", location)
	say(v.w, http.StatusPermanentRedirect, "a directory's path ends with a slash")
}

// codeOf returns the errno of an operation's error.
func codeOf(err error) fserr.Code {
	if e, ok := fserrpb.FromStatus(err); ok {
		return e.Code
	}
	return fserr.CodeOf(err)
}

// aCapability finds what has the form of a capability.
var aCapability = regexp.MustCompile(`(?i)\b[a-z2-7]{26}\b`)

// withoutCapability returns origins as a log may have them: that of a site has its capability.
func withoutCapability(origins string) string { return aCapability.ReplaceAllString(origins, "(site)") }

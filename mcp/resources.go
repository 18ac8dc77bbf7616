package mcp

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"net/url"
	"path"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ctxfs/ctxfs/fserr"
	"github.com/ctxfs/ctxfs/fserr/fserrpb"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

const (
	// scheme is that of the resources: ctxfs://CONTEXT/app/README.md.
	scheme = "ctxfs"
	// directoryType is the MIME type of directories.
	directoryType = "inode/directory"
	// maxResource bounds the files that resources/read returns, in bytes.
	maxResource = 1 << 20
	// maxListed bounds the resources of resources/list.
	maxListed = 500
)

func (s *Server) uriOf(name string) string {
	return (&url.URL{Scheme: scheme, Host: s.context, Path: path.Join("/", name)}).String()
}

// fileOf returns the path that a URI names. A URI of another context names none.
func (s *Server) fileOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme || u.Host != s.context || !utf8.ValidString(u.Path) {
		return "", sdk.ResourceNotFoundError(uri)
	}
	return cmp.Or(u.Path, "/"), nil
}

func (s *Server) addResources() {
	s.SDK.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "file", Title: "File", Description: "A file or directory of the context. Subscribe to it to learn of its changes.", URITemplate: scheme + "://" + s.context + "/{+path}",
	}, s.readResource)
	s.SDK.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "resources/list" {
				return next(ctx, method, req)
			}
			return s.listResources(ctx)
		}
	})
}

// listResources lists the entries of the root. Models find the others by tools.
func (s *Server) listResources(ctx context.Context) (*sdk.ListResourcesResult, error) {
	entries, _, err := s.entries(ctx, "/", true)
	if err != nil {
		return nil, explained(err)
	}
	out := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, Cacheable: sdk.Cacheable{CacheScope: private}}
	for _, e := range entries[:min(len(entries), maxListed)] {
		if len(e.GetRawName()) > 0 {
			continue // no path of a request names it
		}
		r := &sdk.Resource{Name: e.GetName(), URI: s.uriOf(e.GetName()), MIMEType: directoryType}
		if !isDir(e) {
			r.MIMEType, r.Size = typeOf(e.GetName()), e.GetStat().GetSize()
		}
		out.Resources = append(out.Resources, r)
	}
	return out, nil
}

// typeOf returns the MIME type of a file by its name; "" if it is not known.
func typeOf(name string) string { return mime.TypeByExtension(path.Ext(name)) }

func (s *Server) readResource(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	name, err := s.fileOf(uri)
	if err != nil {
		return nil, err
	}
	c := &sdk.ResourceContents{URI: uri, MIMEType: typeOf(name)}
	r, err := s.fs.ReadFile(ctx, &ctxfsv1.ReadFileRequest{ContextId: s.context, Path: name})
	switch code := codeOf(err); {
	case code == fserr.EISDIR:
		c.MIMEType = directoryType
		c.Text, err = s.list(ctx, pathArgs{name})
	case code == fserr.ENOENT:
		return nil, sdk.ResourceNotFoundError(uri)
	case code == fserr.EFBIG, len(r.GetData()) > maxResource:
		return nil, fmt.Errorf("%s has more than 1 MiB; read a part of it with read_text_file", name)
	case err == nil && isText(r.GetData()):
		c.Text = string(r.GetData())
	case err == nil:
		c.Blob = r.GetData()
	}
	if err != nil {
		return nil, explained(err)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

// codeOf returns the errno of a failed call; 0 if there is none.
func codeOf(err error) fserr.Code {
	if e, ok := fserrpb.FromStatus(err); ok {
		return e.Code
	}
	return 0
}

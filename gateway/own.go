package gateway

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
	"github.com/ctxfs/ctxfs/sites"
)

// The names in ownFolder.
const (
	reloadScript = "reload.js"
	reloadEvents = "events"
	hubScript    = "hub.js"
	hubWorker    = "sw.js"
)

// The scripts of the hub are made from client/ts/hub by 'npm run hub' in client/ts.
var (
	//go:embed hub/hub.js
	hubSource string
	//go:embed hub/sw.js
	workerSource string
)

// own serves the folder that the gateway fills itself.
func (v *visit) own() {
	name, o := strings.Join(v.names[1:], "/"), v.site.Options
	switch {
	case v.dir:
		v.fail(fserr.ENOENT)
	case o.LiveReload && name == reloadScript:
		v.page(http.StatusOK, mimeType(name), reloadSource)
	case o.LiveReload && name == reloadEvents && v.r.Method == http.MethodGet:
		v.call(ctxfsv1.FsService_Watch_FullMethodName, nil, v.events)
	case o.Hub && ownFolder+"/"+name == sites.HubPath:
		v.hub()
	case o.Hub && name == hubScript:
		v.page(http.StatusOK, mimeType(name), hubSource)
	case o.Hub && name == hubWorker:
		v.worker()
	default:
		v.fail(fserr.ENOENT)
	}
}

// hubSandbox keeps the frame of a hub from what frames of pages cannot do: pages of the site have its origin, and can run scripts in it.
const hubSandbox = "; sandbox allow-scripts allow-same-origin"

// hubConfig is what the hub and the worker know from the server. hub.html and sw.js have it, and no page of the site can change it there.
type hubConfig struct {
	// Site is the site's ID, which messages repeat as their sessionId.
	Site string `json:"site"`
	// Parents are the origins from which the hub takes messages.
	Parents []string `json:"parents"`
	Index   string   `json:"index"`
	SPA     bool     `json:"spa"`
	// Headers are on each response that the worker makes itself, and Types are the types of files by extension.
	Headers map[string]string `json:"headers"`
	Types   map[string]string `json:"types"`
}

// hubConfig returns the configuration as JSON, which escapes what ends a script. Its headers are those that every response has.
func (v *visit) hubConfig() string {
	config := hubConfig{Site: v.site.ID, Parents: v.site.Options.Parents, Index: v.site.Options.Index, SPA: v.site.Options.SPA, Headers: map[string]string{}, Types: mimeTypes}
	for name := range v.w.Header() {
		config.Headers[name] = v.w.Header().Get(name)
	}
	data, err := json.Marshal(config)
	if err != nil {
		panic(err) // texts and booleans have no errors
	}
	return string(data)
}

// hub sends the page that a parent shows in a frame.
func (v *visit) hub() {
	config := v.hubConfig()
	v.w.Header().Set("Content-Security-Policy", v.policy()+hubSandbox)
	v.page(http.StatusOK, "text/html; charset=utf-8", "<!doctype html><meta charset=utf-8><title>ctxfs</title>"+
		`<script type="application/json" id="config">`+config+`</script><script src="`+hubScript+`"></script>`+"\n")
}

// worker sends the script of the hub's worker. The worker takes its headers from the script, since pages can change what the browser stores.
func (v *visit) worker() {
	config := v.hubConfig()
	v.w.Header().Set("Service-Worker-Allowed", "/")
	v.page(http.StatusOK, mimeType(hubWorker), "self.ctxfs = "+config+";\n"+workerSource)
}

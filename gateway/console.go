package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/console"
	"github.com/ctxfs/ctxfs/fserr"
)

// maxExchange bounds the body of an exchange, in bytes.
const maxExchange = 1 << 10

// ConsoleToken is what a console gets for its code, as JSON has it.
type ConsoleToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
	// IdleSeconds is how long the token lives without a call or an open stream.
	IdleSeconds int `json:"idle_seconds"`
	// Version is the server's.
	Version string `json:"version"`
	// Rights are what the console may do, in the words of OpenPanel.
	Rights []string `json:"rights"`
	// Gateway has the URLs of sites, with * for the capability; "" means that the server shows none.
	Gateway string `json:"gateway,omitempty"`
}

// serveConsole answers with a file of the console.
func (g *Gateway) serveConsole(w http.ResponseWriter, r *http.Request) {
	if !g.enter(w, r) {
		return
	}
	defer g.requests.leave()
	g.cfg.Console.ServeHTTP(w, r)
}

// exchangeConsole answers POST /v1/console/exchange, whose body is {"code": CODE}, with a console's token. Only the server's own page may
// ask: a browser sends its origin with every POST.
func (g *Gateway) exchangeConsole(w http.ResponseWriter, r *http.Request) {
	if !g.requests.enter() {
		say(w, http.StatusServiceUnavailable, "the server is stopping")
		return
	}
	defer g.requests.leave()
	origins := r.Header.Values("Origin")
	switch {
	case len(origins) != 1 || !g.isOwn(plainOrigin(origins[0]), r) || !fromSameOrigin(r):
		refuseRPC(w, http.StatusForbidden, &fserr.Error{Code: fserr.EACCES, Detail: "only the console of this server may exchange its code", Hint: "open the link that 'ctxfs console' prints"})
		return
	case !isJSON(r):
		refuseRPC(w, http.StatusUnsupportedMediaType, &fserr.Error{Code: fserr.EINVAL, Detail: "the body is not declared as JSON", Hint: "send Content-Type: application/json"})
		return
	}
	var body struct {
		Code string `json:"code"`
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxExchange))
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		refuseRPC(w, http.StatusBadRequest, &fserr.Error{Code: fserr.EINVAL, Detail: "the body is no code", Hint: `send {"code": CODE}, and nothing else`})
		return
	}
	given, err := g.cfg.Calls.ExchangeConsole(r.Context(), body.Code, r.RemoteAddr)
	switch {
	case errors.Is(err, console.ErrUsed):
		refuseRPC(w, http.StatusGone, err)
	case err != nil:
		refuseRPC(w, 0, err)
	default:
		answer, err := json.Marshal(given)
		if err != nil {
			panic(err) // texts and a time of this century have no errors
		}
		jsonHeaders(w.Header(), "application/json")
		_, _ = w.Write(append(answer, '\n')) // the client may be gone
	}
}

// checkConsole refuses a request that has the token of a console and is from another page than the server's own, even from one that
// --origin lists. A request without an Origin is a GET of the own page, or from no browser.
func (g *Gateway) checkConsole(r *http.Request) error {
	isToken := func(authorization string) bool { return strings.Contains(authorization, console.TokenPrefix) }
	if !slices.ContainsFunc(r.Header.Values("Authorization"), isToken) {
		return nil
	}
	origin := r.Header.Get("Origin")
	if origin == "" && fromSameOrigin(r) || origin != "" && g.isOwn(plainOrigin(origin), r) && fromSameOrigin(r) {
		return nil
	}
	return &fserr.Error{Code: fserr.EACCES, Detail: "a console's token works from the console of this server alone", Hint: "use a panel's token"}
}

// fromSameOrigin reports whether a browser does not say that a request is of a page of another origin. Other clients say nothing.
func fromSameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin"
}

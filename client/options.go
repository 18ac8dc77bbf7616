package client

import (
	"crypto/tls"
	"os"
)

// Option of Dial.
type Option func(*config)

type config struct {
	address string
	token   string
	panel   string
	dir     string
	// trustDirs are contexts directories that may belong to another user.
	trustDirs []string
	tls       *tls.Config
	getenv    func(string) string
	// unary says that no sessions are wanted.
	unary bool
}

func newConfig(opts []Option) config {
	c := config{getenv: os.Getenv}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithAddress names the server: "unix:///absolute/path.sock", an absolute path of a
// socket, or "host:port". It goes before CTXFS_ADDRESS.
func WithAddress(address string) Option { return func(c *config) { c.address = address } }

// WithToken presents a bearer token: a panel's or the host's. It goes before CTXFS_TOKEN.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithPanel acts for a panel, which the server opens if need be; for hosts.
func WithPanel(id string) Option { return func(c *config) { c.panel = id } }

// WithoutSession makes each operation an RPC of its own, as other tools make them: for
// debugging, and for programs that make one call. Handles are then of no client instance:
// they close after being idle, not when this program is gone.
func WithoutSession() Option { return func(c *config) { c.unary = true } }

// WithTLS encrypts; a client certificate (mTLS) goes into the configuration.
func WithTLS(t *tls.Config) Option { return func(c *config) { c.tls = t } }

// WithDir looks for the server from dir upwards instead of from the working directory.
func WithDir(dir string) Option { return func(c *config) { c.dir = dir } }

// WithTrustDir believes what is in a contexts directory, WORKSPACE/.contexts, although another user owns it. That user decides which server
// the caller talks to. CTXFS_TRUST_DIR is a list of such directories, with commas.
func WithTrustDir(contexts ...string) Option {
	return func(c *config) { c.trustDirs = append(c.trustDirs, contexts...) }
}

// WithGetenv reads CTXFS_ADDRESS, CTXFS_TOKEN and CTXFS_TRUST_DIR by getenv instead of os.Getenv.
func WithGetenv(getenv func(string) string) Option { return func(c *config) { c.getenv = getenv } }

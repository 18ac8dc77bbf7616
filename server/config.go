package server

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/panels"
)

// Config holds every setting of a server. The koanf tag is the key in the YAML
// file; the environment variable is CTXFS_ and the key in capitals; the flag is
// the key with "-" for "_".
type Config struct {
	// Workspace is the folder whose repositories contexts are seeded from.
	Workspace string `koanf:"workspace"`
	// ContextsDir is where contexts are kept; "" means <workspace>/.contexts.
	ContextsDir string `koanf:"contexts_dir"`
	// Driver makes new contexts: "copy", "overlay" (Linux, root), "overlay-userns" (Linux, in namespaces of its own) or "auto", which takes overlay where it works
	// and its mounts are seen by everyone. Contexts that are there keep theirs.
	Driver string `koanf:"driver"`
	// Listen are TCP addresses for gRPC; none by default. Beyond loopback they need TLS.
	Listen []string `koanf:"listen"`
	// HTTP is the address of /livez, /readyz, /metrics and /v1/session (WebSocket); "" means none.
	HTTP string `koanf:"http"`
	// Origins are the pages that may open a WebSocket on HTTP, as "https://host:port"; none by default.
	Origins []string `koanf:"origin"`
	// TLSCert and TLSKey are PEM files for Listen and HTTP.
	TLSCert string `koanf:"tls_cert"`
	TLSKey  string `koanf:"tls_key"`
	// ClientCA is a PEM file of authorities; clients on TCP must then show a certificate of theirs.
	ClientCA string `koanf:"client_ca"`
	// HostAuth says who is host on the unix socket: "peer" the server's own user and root, "token" whoever has the host token.
	HostAuth string `koanf:"host_auth"`
	// IdleTimeout closes a handle that was not used for so long.
	IdleTimeout time.Duration `koanf:"idle_timeout"`
	// HandlesPerPanel and HandlesTotal bound the open handles.
	HandlesPerPanel int `koanf:"handles_per_panel"`
	HandlesTotal    int `koanf:"handles_total"`
	// ContextMaxBytes and ContextMaxEntries bound, about, what one context takes by itself; 0 means no bound.
	ContextMaxBytes   Size  `koanf:"context_max_bytes"`
	ContextMaxEntries int64 `koanf:"context_max_entries"`
	// InFlightPerPanel bounds the operations that one panel has under way, SessionsPerPanel its sessions and holds,
	// WatchesPerPanel its watches; OperationsPerSecond those that it may begin. 0 means no bound.
	InFlightPerPanel    int `koanf:"in_flight_per_panel"`
	SessionsPerPanel    int `koanf:"sessions_per_panel"`
	WatchesPerPanel     int `koanf:"watches_per_panel"`
	OperationsPerSecond int `koanf:"operations_per_second"`
	// MemoryPerConnection bounds what one panel's requests hold of the memory by one connection, which is a WebSocket session
	// or all calls of a gRPC connection; its replies may hold as much. MemoryPerPanel bounds it by all its connections. 0 means no bound.
	// MemoryTotal bounds that of all panels; 0 means a quarter of the memory, at most 1 GiB.
	MemoryPerConnection Size `koanf:"memory_per_connection"`
	MemoryPerPanel      Size `koanf:"memory_per_panel"`
	MemoryTotal         Size `koanf:"memory_total"`
	// MaxRequest bounds the content of one request, minMaxRequest to maxMaxRequest; what is larger goes by a stream.
	MaxRequest Size `koanf:"max_request"`
	// LeaseGrace is how long the handles of a client instance outlive its last session or hold.
	LeaseGrace time.Duration `koanf:"lease_grace"`
	// Keepalive is how often a silent connection is asked whether it lives; it has a third of that to answer.
	Keepalive time.Duration `koanf:"keepalive"`
	// TokenTTL is the life of a panel's token when its host names none.
	TokenTTL time.Duration `koanf:"token_ttl"`
	// SeedExclude are further gitignore patterns of what is not copied.
	SeedExclude []string `koanf:"seed_exclude"`
	// SeedSelect is "all", "unignored" or "tracked".
	SeedSelect string `koanf:"seed_select"`
	// SeedRoot is a folder that is copied though it is no repository; "." is the workspace.
	SeedRoot string `koanf:"seed_root"`
	// SeedMaxFiles and SeedMaxBytes are the size guard.
	SeedMaxFiles int64 `koanf:"seed_max_files"`
	SeedMaxBytes Size  `koanf:"seed_max_bytes"`
	// GitBase is a URL (file, http, https, ssh) below which templates' repositories are looked for that the workspace does not have; "" means none.
	GitBase string `koanf:"git_base"`
	// GitTimeout bounds one question to a repository, GitFetchTimeout one fetch.
	GitTimeout      time.Duration `koanf:"git_timeout"`
	GitFetchTimeout time.Duration `koanf:"git_fetch_timeout"`
	// Pool is how many ready copies of the workspace are kept for new contexts of the copy driver; 0 means none.
	Pool int `koanf:"pool"`
	// DiskReserve is what seeding leaves free on the disk; below it the server is not ready.
	DiskReserve Size `koanf:"disk_reserve"`
	// AuditLog is a file that gets a line of JSON for every call that may change something; "" means none.
	AuditLog string `koanf:"audit_log"`
	// AuditMaxSize is how large it becomes before a new one is begun; AuditKeep is how many older ones are kept.
	AuditMaxSize Size `koanf:"audit_max_size"`
	AuditKeep    int  `koanf:"audit_keep"`
	// LogLevel is debug, info, warn or error; LogFormat auto, json or text.
	LogLevel  string `koanf:"log_level"`
	LogFormat string `koanf:"log_format"`
	// Metrics serves /metrics on the HTTP listener, to callers with the host token or the metrics token.
	Metrics bool `koanf:"metrics"`
	// MetricsTokenFile has the token that reads /metrics and nothing else; "" means metrics.token in the state directory.
	// The server creates a file that is missing.
	MetricsTokenFile string `koanf:"metrics_token_file"`
	// OTLPEndpoint is a URL that traces are sent to by OTLP over gRPC; "" means none.
	OTLPEndpoint string `koanf:"otlp_endpoint"`
	// ReadyFile is written with the address once the server accepts calls.
	ReadyFile string `koanf:"ready_file"`
	// ExitOnStdinClose stops the server when its standard input ends, so that it dies with its parent.
	ExitOnStdinClose bool `koanf:"exit_on_stdin_close"`
	// AllowChown lets panels give files to other users and groups.
	AllowChown bool `koanf:"allow_chown"`
}

// DefaultConfig returns the settings that apply when nothing is said.
func DefaultConfig() Config {
	return Config{
		Workspace: ".", Driver: DriverCopy, HostAuth: HostAuthPeer, IdleTimeout: 5 * time.Minute,
		LeaseGrace: panels.DefaultGrace, Keepalive: 30 * time.Second,
		HandlesPerPanel: 1024, HandlesTotal: 8192, TokenTTL: 24 * time.Hour,
		SeedSelect: string(seed.SelectAll), SeedMaxFiles: seed.DefaultMaxFiles, SeedMaxBytes: seed.DefaultMaxBytes,
		GitTimeout: time.Minute, GitFetchTimeout: 10 * time.Minute,
		ContextMaxBytes: 20 << 30, ContextMaxEntries: 2_000_000, InFlightPerPanel: 1024, SessionsPerPanel: 64, WatchesPerPanel: 1024, MaxRequest: 16 << 20,
		MemoryPerConnection: 8 << 20, MemoryPerPanel: 64 << 20,
		AuditMaxSize: 64 << 20, AuditKeep: 8,
		Pool: 2, DiskReserve: 1 << 30, LogLevel: "info", LogFormat: "auto", Metrics: true,
	}
}

// The range of Config.MaxRequest.
const minMaxRequest, maxMaxRequest Size = 1 << 20, 64 << 20

// minMemoryTotal is the least Config.MemoryTotal: a request and its content, decoded, and a few replies.
const minMemoryTotal Size = 16 << 20

// The values of Config.HostAuth.
const (
	HostAuthPeer  = "peer"
	HostAuthToken = "token"
)

// Flags adds a flag for every setting. LoadConfig reads those that were given.
func Flags(fs *pflag.FlagSet) {
	d := DefaultConfig()
	fs.String("workspace", d.Workspace, "folder whose repositories are copied into contexts")
	fs.String("contexts-dir", d.ContextsDir, "where contexts are kept (default WORKSPACE/.contexts)")
	fs.String("driver", d.Driver, "how new contexts are made: copy, overlay (Linux, root), overlay-userns (Linux, any user; only the server sees the files) or auto (overlay where everybody sees its mounts)")
	fs.StringSlice("listen", nil, "TCP address for gRPC, such as 127.0.0.1:7420; tokens always, TLS beyond loopback; repeatable")
	fs.String("http", d.HTTP, "address for /livez, /readyz, /metrics and browsers' sessions, such as 127.0.0.1:7421")
	fs.StringSlice("origin", nil, "page that may open a WebSocket on --http, such as http://localhost:5173; repeatable")
	fs.String("tls-cert", d.TLSCert, "PEM file with the certificate for --listen and --http")
	fs.String("tls-key", d.TLSKey, "PEM file with the certificate's key")
	fs.String("client-ca", d.ClientCA, "PEM file of authorities; clients on TCP must show a certificate of theirs")
	fs.String("host-auth", d.HostAuth, "who is host on the unix socket: peer (this user and root) or token")
	fs.Duration("idle-timeout", d.IdleTimeout, "close a handle that was not used for so long")
	fs.Int("handles-per-panel", d.HandlesPerPanel, "open handles that one panel may have")
	fs.Int("handles-total", d.HandlesTotal, "open handles in all")
	fs.Duration("lease-grace", d.LeaseGrace, "how long handles outlive the client that opened them, should it come back")
	fs.Duration("keepalive", d.Keepalive, "how often a silent connection is asked whether it lives")
	fs.Duration("token-ttl", d.TokenTTL, "life of a panel's token")
	limitFlags(fs, d)
	seedFlags(fs, d)
	gitFlags(fs, d)
	fs.String("audit-log", d.AuditLog, "file that gets a line of JSON for every call that may change something")
	auditMax := d.AuditMaxSize
	fs.Var(&auditMax, "audit-max-size", "begin a new audit log at this size")
	fs.Int("audit-keep", d.AuditKeep, "older audit logs to keep")
	fs.String("log-level", d.LogLevel, "debug, info, warn or error")
	fs.String("log-format", d.LogFormat, "auto (text on a terminal, else json), json or text")
	fs.Bool("metrics", d.Metrics, "serve /metrics on --http, to whoever has the host token or the metrics token")
	fs.String("metrics-token-file", d.MetricsTokenFile, "file with the token that reads /metrics and nothing else (default metrics.token in the state directory)")
	fs.String("otlp-endpoint", d.OTLPEndpoint, "URL that traces are sent to by OTLP over gRPC")
	fs.String("ready-file", d.ReadyFile, "file that is written with the address once calls are accepted")
	fs.Bool("exit-on-stdin-close", d.ExitOnStdinClose, "stop when standard input ends")
	fs.Bool("allow-chown", d.AllowChown, "let panels give files to other users and groups")
}

func limitFlags(fs *pflag.FlagSet, d Config) {
	maxBytes, maxRequest := d.ContextMaxBytes, d.MaxRequest
	fs.Var(&maxBytes, "context-max-bytes", "what one context may take on disk by itself, about; 0 for no bound")
	fs.Int64("context-max-entries", d.ContextMaxEntries, "files, directories and links that one context may have by itself, about; 0 for no bound")
	fs.Int("in-flight-per-panel", d.InFlightPerPanel, "operations that one panel may have under way; 0 for no bound")
	fs.Int("sessions-per-panel", d.SessionsPerPanel, "sessions that one panel may have; 0 for no bound")
	fs.Int("watches-per-panel", d.WatchesPerPanel, "watches that one panel may have; 0 for no bound")
	fs.Var(&maxRequest, "max-request", "content that one request may carry, 1MiB to 64MiB; what is larger goes by a stream")
	perConnection, perPanel, total := d.MemoryPerConnection, d.MemoryPerPanel, d.MemoryTotal
	fs.Var(&perConnection, "memory-per-connection", "memory that a panel's requests and unread replies may take by one connection; 0 for no bound")
	fs.Var(&perPanel, "memory-per-panel", "memory that a panel's requests and unread replies may take; 0 for no bound")
	fs.Var(&total, "memory-total", "memory that requests and unread replies of all panels may take; 0 for a quarter of the memory, at most 1GiB")
	fs.Int("operations-per-second", d.OperationsPerSecond, "operations that one panel may begin in a second; 0 for no bound")
}

func seedFlags(fs *pflag.FlagSet, d Config) {
	fs.StringSlice("seed-exclude", nil, "gitignore pattern of what is not copied; repeatable")
	fs.String("seed-select", d.SeedSelect, "all, unignored (what git does not ignore) or tracked")
	fs.String("seed-root", d.SeedRoot, "folder that is copied though it is no repository; . is the workspace")
	fs.Int64("seed-max-files", d.SeedMaxFiles, "refuse to copy more files than this")
	maxBytes, reserve := d.SeedMaxBytes, d.DiskReserve
	fs.Var(&maxBytes, "seed-max-bytes", "refuse to copy more than this")
	fs.Int("pool", d.Pool, "keep so many copies of the workspace ready for new contexts (driver copy); 0 keeps none")
	fs.Var(&reserve, "disk-reserve", "leave so much free on the disk")
}

func gitFlags(fs *pflag.FlagSet, d Config) {
	fs.String("git-base", d.GitBase, "URL below which templates' repositories are looked for that the workspace does not have")
	fs.Duration("git-timeout", d.GitTimeout, "give up asking a repository after this long")
	fs.Duration("git-fetch-timeout", d.GitFetchTimeout, "give up fetching a repository after this long")
}

// TemplateOptions returns what Config says of templates.
func (c Config) TemplateOptions() contexts.TemplateOptions {
	return contexts.TemplateOptions{GitBase: c.GitBase, Timeout: c.GitTimeout, FetchTimeout: c.GitFetchTimeout}
}

// flagOf returns the flag of a key, envOf its environment variable.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }
func envOf(key string) string  { return "CTXFS_" + strings.ToUpper(key) }

// SeedOptions returns what Config says of seeding.
func (c Config) SeedOptions() seed.Options {
	return seed.Options{
		Exclude: c.SeedExclude, Select: seed.Selection(c.SeedSelect), Root: c.SeedRoot,
		MaxFiles: c.SeedMaxFiles, MaxBytes: int64(c.SeedMaxBytes),
	}
}

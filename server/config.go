package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/template"
	"github.com/ctxfs/ctxfs/gateway"
	"github.com/ctxfs/ctxfs/git"
	"github.com/ctxfs/ctxfs/internal/bytesize"
	"github.com/ctxfs/ctxfs/internal/statedir"
	"github.com/ctxfs/ctxfs/metadata/labels"
	"github.com/ctxfs/ctxfs/metadata/postgres"
	"github.com/ctxfs/ctxfs/panels"
)

// Config has every setting of a server. The koanf tag is the key in the YAML file. The environment variable is CTXFS_ and the key in
// capitals. The flag is the key with "-" for "_".
type Config struct {
	// Workspace is the folder whose repositories contexts are seeded from.
	Workspace string `koanf:"workspace"`
	// ContextsDir is where contexts are kept; "" means <workspace>/.contexts.
	ContextsDir string `koanf:"contexts_dir"`
	// TrustDirs are contexts directories that may belong to another user, who could then put links there that the server would follow.
	TrustDirs []string `koanf:"trust_dir"`
	// Metadata is where the records of contexts and panels are: "" means SQLite in the state directory, else it is the URL of a PostgreSQL
	// database, postgres://user@host/database. Show it with Redact alone, since it may hold a password.
	Metadata string `koanf:"metadata"`
	// Driver makes new contexts: "copy", "overlay" (Linux, root), "overlay-userns" (Linux, in namespaces of its own) or "auto", which is
	// overlay where that works and everyone sees its mounts. Existing contexts keep their driver.
	Driver string `koanf:"driver"`
	// Listen are TCP addresses for gRPC; none by default. Beyond loopback they need TLS.
	Listen []string `koanf:"listen"`
	// HTTP is the address of /livez, /readyz, /metrics and /v1/session (WebSocket); "" means none.
	HTTP string `koanf:"http"`
	// Gateway is the address of sites; "" means none. Beyond loopback it needs GatewayDomain and TLS.
	Gateway string `koanf:"gateway"`
	// GatewayDomain is the NAME or NAME:PORT below which browsers find sites, by https; "" means localhost, by http.
	GatewayDomain string `koanf:"gateway_domain"`
	// GatewayTLSCert and GatewayTLSKey are PEM files for Gateway. Without them a proxy must speak TLS.
	GatewayTLSCert string `koanf:"gateway_tls_cert"`
	GatewayTLSKey  string `koanf:"gateway_tls_key"`
	// Origins are the pages that may open a WebSocket on HTTP, as "https://host:port"; none by default.
	Origins []string `koanf:"origin"`
	// TLSCert and TLSKey are PEM files for Listen and HTTP.
	TLSCert string `koanf:"tls_cert"`
	TLSKey  string `koanf:"tls_key"`
	// ClientCA is a PEM file of authorities; clients on TCP must then show a certificate of theirs.
	ClientCA string `koanf:"client_ca"`
	// HostAuth says which callers are host on the unix socket: "peer" the server's own user and root, "token" those with the host token.
	HostAuth string `koanf:"host_auth"`
	// IdleTimeout is after how long an unused handle is closed.
	IdleTimeout time.Duration `koanf:"idle_timeout"`
	// HandlesPerPanel and HandlesTotal bound the open handles.
	HandlesPerPanel int `koanf:"handles_per_panel"`
	HandlesTotal    int `koanf:"handles_total"`
	// ContextMaxBytes and ContextMaxEntries bound, approximately, what one context adds to its layer; 0 means no bound.
	ContextMaxBytes   Size  `koanf:"context_max_bytes"`
	ContextMaxEntries int64 `koanf:"context_max_entries"`
	// InFlightPerPanel bounds the operations that one panel has under way, SessionsPerPanel its sessions and holds, WatchesPerPanel its
	// watches, OperationsPerSecond the operations that it begins. 0 means no bound.
	InFlightPerPanel    int `koanf:"in_flight_per_panel"`
	SessionsPerPanel    int `koanf:"sessions_per_panel"`
	WatchesPerPanel     int `koanf:"watches_per_panel"`
	OperationsPerSecond int `koanf:"operations_per_second"`
	// MemoryPerConnection bounds the memory that one panel's requests hold on one connection, which is a WebSocket session or a gRPC
	// connection; its replies may hold as much. MemoryPerPanel bounds the memory on all its connections. 0 means no bound. MemoryTotal
	// bounds the memory of all panels; 0 means a quarter of the memory, at most 1 GiB.
	MemoryPerConnection Size `koanf:"memory_per_connection"`
	MemoryPerPanel      Size `koanf:"memory_per_panel"`
	MemoryTotal         Size `koanf:"memory_total"`
	// MaxRequest bounds the content of one request, minMaxRequest to maxMaxRequest. Larger content needs a stream.
	MaxRequest Size `koanf:"max_request"`
	// LeaseGrace is how long the handles of a client instance outlive its last session or hold.
	LeaseGrace time.Duration `koanf:"lease_grace"`
	// Keepalive is after how long a silent connection is asked for a sign of life. It has a third of that to answer.
	Keepalive time.Duration `koanf:"keepalive"`
	// TokenTTL is the lifetime of a panel's token unless its host asks for another.
	TokenTTL time.Duration `koanf:"token_ttl"`
	// SeedExclude has further gitignore patterns of files that are not copied.
	SeedExclude []string `koanf:"seed_exclude"`
	// SeedSelect is "all", "unignored" or "tracked".
	SeedSelect string `koanf:"seed_select"`
	// SeedRoot is a folder that is copied although it is no repository; "." is the workspace.
	SeedRoot string `koanf:"seed_root"`
	// SeedMaxFiles and SeedMaxBytes bound what a seeding copies.
	SeedMaxFiles int64 `koanf:"seed_max_files"`
	SeedMaxBytes Size  `koanf:"seed_max_bytes"`
	// GitBase is a URL (file, http, https, ssh) of templates' repositories that the workspace does not have; "" means none.
	GitBase string `koanf:"git_base"`
	// GitRemote has prefixes of the addresses of remotes that may be pulled from and pushed to. Without any, hosts may use those that a
	// repository's own configuration names with http, https or ssh, and panels none.
	GitRemote []string `koanf:"git_remote"`
	// GitTimeout bounds one query of a repository, GitFetchTimeout one fetch.
	GitTimeout      time.Duration `koanf:"git_timeout"`
	GitFetchTimeout time.Duration `koanf:"git_fetch_timeout"`
	// Pool is how many ready copies of the workspace are kept for new contexts of the copy driver; 0 means none.
	Pool int `koanf:"pool"`
	// GCInterval is the time between two collections of garbage by the server itself; 0 means none. A collection removes contexts that were made
	// more than ContextTTL ago, those not used for ContextIdleTTL, and then those not used for the longest until all take at most
	// ContextsMaxBytes on disk. 0 means that no context is removed for that reason. GCLabel selects among the contexts; all terms must match.
	GCInterval       time.Duration `koanf:"gc_interval"`
	ContextTTL       time.Duration `koanf:"context_ttl"`
	ContextIdleTTL   time.Duration `koanf:"context_idle_ttl"`
	ContextsMaxBytes Size          `koanf:"contexts_max_bytes"`
	GCLabel          []string      `koanf:"gc_label"`
	// DiskReserve is what seeding leaves free on the disk; below it the server is not ready.
	DiskReserve Size `koanf:"disk_reserve"`
	// AuditLog is a file that gets a line of JSON for every call that may change something; "" means none.
	AuditLog string `koanf:"audit_log"`
	// AuditMaxSize is the size at which a new audit log is begun; AuditKeep is how many older ones are kept.
	AuditMaxSize Size `koanf:"audit_max_size"`
	AuditKeep    int  `koanf:"audit_keep"`
	// FeedMaxBytes bounds the feed of changes that a context keeps on disk, once a caller has asked for it.
	FeedMaxBytes Size `koanf:"feed_max_bytes"`
	// LogLevel is debug, info, warn or error; LogFormat auto, json or text.
	LogLevel  string `koanf:"log_level"`
	LogFormat string `koanf:"log_format"`
	// Metrics serves /metrics on the HTTP listener, to callers with the host token or the metrics token.
	Metrics bool `koanf:"metrics"`
	// MetricsTokenFile has the token that reads /metrics and nothing else; "" means metrics.token in the state directory.
	// The server creates a file that is missing.
	MetricsTokenFile string `koanf:"metrics_token_file"`
	// OTLPEndpoint is a URL that receives traces by OTLP over gRPC; "" means none.
	OTLPEndpoint string `koanf:"otlp_endpoint"`
	// ReadyFile is written with the address once the server accepts calls.
	ReadyFile string `koanf:"ready_file"`
	// ExitOnStdinClose stops the server when its standard input ends, and so with its parent.
	ExitOnStdinClose bool `koanf:"exit_on_stdin_close"`
	// ZoneDirs are directories outside of the workspace whose subdirectories may be direct zones.
	ZoneDirs []string `koanf:"zone_dir"`
	// TrustZoneFiles lets a context-zones.yml of the workspace give a panel direct zones.
	TrustZoneFiles bool `koanf:"trust_zone_files"`
	// AllowChown lets panels give files to other users and groups.
	AllowChown bool `koanf:"allow_chown"`
	// ExecUser is the user of commands of a server that runs as root: a name or UID:GID. "" means the workspace's owner. Files in contexts
	// belong to it.
	ExecUser string `koanf:"exec_user"`
	// ExecCgroup are directories of cgroups below which commands get their own: one of cgroup v2, and those of controllers of cgroup v1.
	// None means the server's own cgroup v2, if systemd has delegated it.
	ExecCgroup []string `koanf:"exec_cgroup"`
	// ExecProfiles is a YAML file with profiles of commands, and the operator's maxima; "" means the builtin profiles alone.
	ExecProfiles string `koanf:"exec_profiles"`
	// ExecMaxTime and ExecMaxProcesses bound the limits of panels' commands; 0 means no bound but that of all commands.
	ExecMaxTime      time.Duration `koanf:"exec_max_time"`
	ExecMaxProcesses int           `koanf:"exec_max_processes"`
}

// DefaultConfig returns the settings that apply unless others are given.
func DefaultConfig() Config {
	return Config{
		Workspace: ".", Driver: DriverCopy, HostAuth: HostAuthPeer, IdleTimeout: 5 * time.Minute,
		LeaseGrace: panels.DefaultGrace, Keepalive: 30 * time.Second,
		HandlesPerPanel: 1024, HandlesTotal: 8192, TokenTTL: 24 * time.Hour,
		SeedSelect: string(seed.SelectAll), SeedMaxFiles: seed.DefaultMaxFiles, SeedMaxBytes: seed.DefaultMaxBytes,
		GitTimeout: time.Minute, GitFetchTimeout: 10 * time.Minute,
		ContextMaxBytes: 20 << 30, ContextMaxEntries: 2_000_000, InFlightPerPanel: 1024, SessionsPerPanel: 64, WatchesPerPanel: 1024, MaxRequest: 16 << 20,
		MemoryPerConnection: 8 << 20, MemoryPerPanel: 64 << 20,
		AuditMaxSize: 64 << 20, AuditKeep: 8, FeedMaxBytes: 16 << 20,
		ExecMaxTime: 24 * time.Hour, ExecMaxProcesses: 1024,
		Pool: 2, DiskReserve: 1 << 30, LogLevel: "info", LogFormat: "auto", Metrics: true,
	}
}

// The range of Config.MaxRequest.
const minMaxRequest, maxMaxRequest Size = 1 << 20, 64 << 20

// minMemoryTotal is the least Config.MemoryTotal. It has room for a request, its decoded content and a few replies.
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
	fs.String("metadata", d.Metadata, "keep the records in PostgreSQL, such as postgres://ctxfs@db.example.com/ctxfs?sslmode=verify-full; the password in the file that PGPASSFILE names (default: SQLite in the contexts directory)")
	fs.String("driver", d.Driver, "how new contexts are made: copy, overlay (Linux, root), overlay-userns (Linux, any user; only the server sees the files) or auto (overlay where everybody sees its mounts)")
	fs.StringSlice("listen", nil, "TCP address for gRPC, such as 127.0.0.1:7420; tokens always, TLS beyond loopback; repeatable")
	fs.String("http", d.HTTP, "address for /livez, /readyz, /metrics and browsers' sessions, such as 127.0.0.1:7421")
	fs.String("gateway", d.Gateway, "address that shows contexts' files to browsers as sites, such as 127.0.0.1:7422; beyond loopback with --gateway-domain and TLS")
	fs.String("gateway-domain", d.GatewayDomain, "domain of sites, such as apps.example.com: they are at https://CAPABILITY.apps.example.com; NAME:PORT if browsers use another port than the address has (default: http and localhost)")
	fs.String("gateway-tls-cert", d.GatewayTLSCert, "PEM file with the certificate for --gateway, of *.NAME; without one, --gateway is on loopback, behind a proxy that speaks TLS")
	fs.String("gateway-tls-key", d.GatewayTLSKey, "PEM file with that certificate's key")
	fs.StringSlice("origin", nil, "page that may open a WebSocket on --http, such as http://localhost:5173; repeatable")
	fs.String("tls-cert", d.TLSCert, "PEM file with the certificate for --listen and --http")
	fs.String("tls-key", d.TLSKey, "PEM file with the certificate's key")
	fs.String("client-ca", d.ClientCA, "PEM file of authorities; clients on TCP must show a certificate of theirs")
	fs.String("host-auth", d.HostAuth, "callers that are host on the unix socket: peer (this user and root) or token")
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
	feedMax := d.FeedMaxBytes
	fs.Var(&feedMax, "feed-max-bytes", "newest changes that the feed of a context keeps, once someone reads it (at least 2MiB)")
	fs.String("log-level", d.LogLevel, "debug, info, warn or error")
	fs.String("log-format", d.LogFormat, "auto (text on a terminal, else json), json or text")
	fs.Bool("metrics", d.Metrics, "serve /metrics on --http, to whoever has the host token or the metrics token")
	fs.String("metrics-token-file", d.MetricsTokenFile, "file with the token that reads /metrics and nothing else (default metrics.token in the state directory)")
	fs.String("otlp-endpoint", d.OTLPEndpoint, "URL that traces are sent to by OTLP over gRPC")
	fs.String("ready-file", d.ReadyFile, "file that is written with the address once calls are accepted")
	fs.Bool("exit-on-stdin-close", d.ExitOnStdinClose, "stop when standard input ends")
	fs.StringSlice("zone-dir", nil, "directory outside of the workspace that panels may have zones in (direct zones); repeatable")
	fs.StringSlice("trust-dir", nil, "contexts directory that may belong to another user, who then decides what the server writes, and where; repeatable")
	fs.Bool("trust-zone-files", d.TrustZoneFiles, "let a context-zones.yml of the workspace give a panel direct zones; whoever can change that file then decides which directories the panel writes, unreviewed")
	fs.Bool("allow-chown", d.AllowChown, "let panels give files to other users and groups")
	fs.String("exec-user", d.ExecUser, "user that runs commands in contexts, and owns their files, if the server runs as root: NAME or UID:GID (default: the workspace's owner)")
	fs.StringSlice("exec-cgroup", nil, "cgroup directory below which commands get cgroups of their own, v2 or of one v1 controller; repeatable (default: the server's own, if systemd delegates it)")
	fs.String("exec-profiles", d.ExecProfiles, "YAML file with profiles of commands: their network, variables, folders and limits, and the maxima of all")
	fs.Duration("exec-max-time", d.ExecMaxTime, "longest time limit of a panel's command, and the limit of those that have none; 0 for no bound")
	fs.Int("exec-max-processes", d.ExecMaxProcesses, "processes and threads that a panel's command may ask for; 0 for no bound")
}

func limitFlags(fs *pflag.FlagSet, d Config) {
	maxBytes, maxRequest := d.ContextMaxBytes, d.MaxRequest
	fs.Var(&maxBytes, "context-max-bytes", "what one context may add to its layer on disk, approximately; 0 for no bound")
	fs.Int64("context-max-entries", d.ContextMaxEntries, "files, directories and links that one context may add to its layer, approximately; 0 for no bound")
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
	fs.Duration("gc-interval", d.GCInterval, "collect garbage so often, such as 1h, as 'ctxfs gc' does; 0 for never")
	fs.Duration("context-ttl", d.ContextTTL, "with --gc-interval: delete contexts made longer ago, such as 720h, that nothing keeps; 0 deletes none")
	fs.Duration("context-idle-ttl", d.ContextIdleTTL, "with --gc-interval: delete contexts not used for so long, such as 168h, that nothing keeps; 0 deletes none")
	contextsMax := d.ContextsMaxBytes
	fs.Var(&contextsMax, "contexts-max-bytes", "with --gc-interval: while all contexts take more on disk, delete those unused for the longest that nothing keeps; 0 deletes none")
	fs.StringSlice("gc-label", nil, "with --gc-interval: delete only contexts with the label, KEY or KEY=VALUE, or without it, such as !keep; repeatable: all must match")
}

func gitFlags(fs *pflag.FlagSet, d Config) {
	fs.String("git-base", d.GitBase, "URL below which templates' repositories are looked for that the workspace does not have")
	fs.StringSlice("git-remote", nil, "address, or what addresses begin with, of remotes that may be pulled from and pushed to, by panels too; repeatable (default: hosts may use the http, https and ssh remotes of repositories)")
	fs.Duration("git-timeout", d.GitTimeout, "give up asking a repository after this long")
	fs.Duration("git-fetch-timeout", d.GitFetchTimeout, "give up fetching a repository after this long")
}

// templateOptions returns the settings of templates.
func (c Config) templateOptions() contexts.TemplateOptions {
	return contexts.TemplateOptions{GitBase: c.GitBase, Timeout: c.GitTimeout, FetchTimeout: c.GitFetchTimeout}
}

// remotes returns the prefixes of GitRemote.
func (c Config) remotes() (prefixes []git.Address, err error) {
	for i, raw := range c.GitRemote {
		a, err := git.ParseAddress(raw)
		if err == nil && a.HasPassword() {
			err = errors.New("it has a password: git's credential helpers keep those")
		}
		if err != nil {
			return nil, fmt.Errorf("prefix %d: %w", i+1, err) // it may hold a password
		}
		prefixes = append(prefixes, a)
	}
	return prefixes, nil
}

// database returns where the records are; nil means SQLite in the state directory.
func (c Config) database() (*postgres.Address, error) {
	switch {
	case c.Metadata == "":
		return nil, nil
	case !postgres.IsURL(c.Metadata):
		return nil, errors.New("it is not a URL such as postgres://user@host/database; leave it out for SQLite in the contexts directory")
	}
	return postgres.Parse(c.Metadata)
}

// flagOf returns the flag of a key, envOf its environment variable.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }
func envOf(key string) string  { return "CTXFS_" + strings.ToUpper(key) }

// SeedOptions returns the settings of seeding.
func (c Config) SeedOptions() seed.Options {
	return seed.Options{
		Exclude: c.SeedExclude, Select: seed.Selection(c.SeedSelect), Root: c.SeedRoot,
		MaxFiles: c.SeedMaxFiles, MaxBytes: int64(c.SeedMaxBytes),
	}
}

// Origins has for every key of Config where its value came from: "default", "file PATH", "env NAME" or "flag --NAME".
type Origins map[string]string

// Setting is one line of `ctxfs config`.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Settings lists all keys in the order of Config, with their values and origins. It hides a password in a URL.
func (c Config) Settings(origins Origins) []Setting {
	var list []Setting
	if u, err := url.Parse(c.GitBase); err == nil {
		c.GitBase = u.Redacted()
	}
	c.Metadata = postgres.Redact(c.Metadata)
	v := reflect.ValueOf(c)
	for i, key := range configKeys() {
		list = append(list, Setting{Key: key, Value: v.Field(i).Interface(), Origin: origins[key]})
	}
	return list
}

func configKeys() []string {
	t := reflect.TypeFor[Config]()
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = t.Field(i).Tag.Get("koanf")
	}
	return keys
}

// LoadConfig merges the settings: flags that were given, before environ (as of os.Environ), before the YAML file ("" for none), before
// the defaults. For an unknown key in the file, or a value that cannot be read, it returns a *ConfigError with the origin. flags may
// be nil.
func LoadConfig(flags *pflag.FlagSet, environ []string, path string) (Config, Origins, error) {
	origins := Origins{}
	for _, key := range configKeys() {
		origins[key] = "default"
	}
	k := koanf.New(".")
	for _, load := range []func(*koanf.Koanf, Origins) error{
		func(k *koanf.Koanf, o Origins) error { return loadFile(k, o, path) },
		func(k *koanf.Koanf, o Origins) error { return loadEnv(k, o, environ) },
		func(k *koanf.Koanf, o Origins) error { return loadFlags(k, o, flags) },
	} {
		if err := load(k, origins); err != nil {
			return Config{}, nil, err
		}
	}
	cfg, err := decode(k, origins)
	if err != nil {
		return Config{}, nil, err
	}
	return cfg, origins, cfg.Validate(origins)
}

func loadFile(k *koanf.Koanf, origins Origins, path string) error {
	if path == "" {
		return nil
	}
	read := koanf.New(".")
	if err := read.Load(file.Provider(path), yaml.Parser()); err != nil {
		return &ConfigError{Origin: "file " + path, Problem: err.Error()}
	}
	known := configKeys()
	for key := range read.Raw() {
		if !slices.Contains(known, key) {
			return &ConfigError{Origin: "file " + path, Key: key, Problem: "unknown key; known are " + strings.Join(known, ", ")}
		}
		origins[key] = "file " + path
	}
	return k.Merge(read)
}

// Layout returns the layout of the workspace. It fails with a *statedir.ForeignError if its contexts belong to another user.
func (c Config) Layout() (contexts.Layout, error) {
	l, err := contexts.NewLayout(c.Workspace, c.ContextsDir)
	if err != nil {
		return l, err
	}
	foreign, _ := errors.AsType[*statedir.ForeignError](statedir.Check(l.Dir, c.TrustDirs))
	if foreign != nil {
		return l, foreign
	}
	return l, nil // Make says what else is wrong
}

// loadEnv reads known names only: CTXFS_ADDRESS, CTXFS_TOKEN and others are for clients.
func loadEnv(k *koanf.Koanf, origins Origins, environ []string) error {
	values := map[string]any{}
	for _, key := range configKeys() {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, envOf(key)+"="); ok {
				values[key], origins[key] = value, "env "+envOf(key)
			}
		}
	}
	return k.Load(confmap.Provider(values, ""), nil)
}

func loadFlags(k *koanf.Koanf, origins Origins, flags *pflag.FlagSet) error {
	if flags == nil {
		return nil
	}
	values := map[string]any{}
	for _, key := range configKeys() {
		f := flags.Lookup(flagOf(key))
		if f == nil || !f.Changed {
			continue
		}
		origins[key] = "flag --" + f.Name
		values[key] = f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values[key] = list.GetSlice()
		}
	}
	return k.Load(confmap.Provider(values, ""), nil)
}

// decode reads key by key, so that an error has the origin of a bad value.
func decode(k *koanf.Koanf, origins Origins) (Config, error) {
	cfg := DefaultConfig()
	v := reflect.ValueOf(&cfg).Elem()
	for i, key := range configKeys() {
		if !k.Exists(key) {
			continue
		}
		d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result: v.Field(i).Addr().Interface(), WeaklyTypedInput: true,
			DecodeHook: mapstructure.ComposeDecodeHookFunc(
				mapstructure.StringToTimeDurationHookFunc(), splitList, mapstructure.TextUnmarshallerHookFunc()),
		})
		if err == nil {
			err = d.Decode(k.Get(key))
		}
		if err != nil && key == "metadata" {
			return Config{}, &ConfigError{Origin: origins[key], Key: key, Problem: "it is not text"} // it may hold a password
		}
		if err != nil {
			return Config{}, &ConfigError{Origin: origins[key], Key: key, Problem: fmt.Sprintf("%v cannot be read: %s", k.Get(key), oneLine(err))}
		}
	}
	return cfg, nil
}

// splitList reads "a, b" as a list; "" is an empty one.
func splitList(from, to reflect.Type, data any) (any, error) {
	text, ok := data.(string)
	if !ok || from.Kind() != reflect.String || to.Kind() != reflect.Slice {
		return data, nil
	}
	list := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Choices are the values of the flags that take one of a few.
func Choices() map[string][]string {
	return map[string][]string{
		"driver": {DriverAuto, DriverCopy, DriverOverlay, DriverUserNS}, "host-auth": {HostAuthPeer, HostAuthToken},
		"seed-select": {"all", "unignored", "tracked"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"auto", "json", "text"},
	}
}

// Validate checks that the settings go together. The error is a *ConfigError.
func (c Config) Validate(origins Origins) error {
	bad := func(key, format string, args ...any) error {
		return &ConfigError{Origin: origins[key], Key: key, Problem: fmt.Sprintf(format, args...)}
	}
	for _, choice := range []struct{ key, value string }{
		{"driver", c.Driver}, {"host_auth", c.HostAuth}, {"seed_select", c.SeedSelect}, {"log_level", c.LogLevel}, {"log_format", c.LogFormat},
	} {
		if of := Choices()[strings.ReplaceAll(choice.key, "_", "-")]; !slices.Contains(of, choice.value) {
			return bad(choice.key, "%q is not one of %s", choice.value, strings.Join(of, ", "))
		}
	}
	for _, number := range []struct {
		key   string
		value int64
	}{
		{"idle_timeout", int64(c.IdleTimeout)}, {"token_ttl", int64(c.TokenTTL)}, {"lease_grace", int64(c.LeaseGrace)},
		{"git_timeout", int64(c.GitTimeout)}, {"git_fetch_timeout", int64(c.GitFetchTimeout)},
		{"handles_per_panel", int64(c.HandlesPerPanel)}, {"handles_total", int64(c.HandlesTotal)},
		{"audit_max_size", int64(c.AuditMaxSize)}, {"feed_max_bytes", int64(c.FeedMaxBytes)}, {"seed_max_files", c.SeedMaxFiles}, {"seed_max_bytes", int64(c.SeedMaxBytes)},
	} {
		if number.value <= 0 {
			return bad(number.key, "must be more than zero")
		}
	}
	for _, number := range []struct {
		key   string
		value int64
	}{
		{"audit_keep", int64(c.AuditKeep)}, {"context_max_bytes", int64(c.ContextMaxBytes)}, {"context_max_entries", c.ContextMaxEntries},
		{"in_flight_per_panel", int64(c.InFlightPerPanel)}, {"sessions_per_panel", int64(c.SessionsPerPanel)},
		{"watches_per_panel", int64(c.WatchesPerPanel)}, {"operations_per_second", int64(c.OperationsPerSecond)},
		{"memory_per_connection", int64(c.MemoryPerConnection)}, {"memory_per_panel", int64(c.MemoryPerPanel)}, {"memory_total", int64(c.MemoryTotal)},
		{"exec_max_time", int64(c.ExecMaxTime)}, {"exec_max_processes", int64(c.ExecMaxProcesses)},
		{"gc_interval", int64(c.GCInterval)}, {"context_ttl", int64(c.ContextTTL)}, {"context_idle_ttl", int64(c.ContextIdleTTL)}, {"contexts_max_bytes", int64(c.ContextsMaxBytes)},
	} {
		if number.value < 0 {
			return bad(number.key, "must not be negative")
		}
	}
	if err := c.validateCollection(bad); err != nil {
		return err
	}
	if c.Pool < 0 {
		return bad("pool", "must not be negative")
	}
	if c.MaxRequest < minMaxRequest || c.MaxRequest > maxMaxRequest {
		return bad("max_request", "%s is not between %s and %s", c.MaxRequest, minMaxRequest, maxMaxRequest)
	}
	if c.MemoryTotal != 0 && c.MemoryTotal < minMemoryTotal {
		return bad("memory_total", "%s is less than %s; 0 takes a quarter of the memory", c.MemoryTotal, minMemoryTotal)
	}
	if c.Keepalive < time.Second {
		return bad("keepalive", "must be 1s or more")
	}
	if _, err := c.database(); err != nil {
		return bad("metadata", "%v", err)
	}
	if err := template.CheckBaseURL(c.GitBase); err != nil {
		return bad("git_base", "%v", err)
	}
	if _, err := c.remotes(); err != nil {
		return bad("git_remote", "%v", err)
	}
	return c.validateNetwork(bad)
}

// minGCInterval is the least time between two collections.
const minGCInterval = time.Second

// validateCollection refuses rules that would do nothing, or not what they say.
func (c Config) validateCollection(bad func(key, format string, args ...any) error) error {
	if c.GCInterval != 0 && c.GCInterval < minGCInterval {
		return bad("gc_interval", "%s is less than %s", c.GCInterval, minGCInterval)
	}
	for key, set := range map[string]bool{
		"context_ttl": c.ContextTTL > 0, "context_idle_ttl": c.ContextIdleTTL > 0, "contexts_max_bytes": c.ContextsMaxBytes > 0, "gc_label": len(c.GCLabel) > 0,
	} {
		if set && c.GCInterval == 0 {
			return bad(key, "has no effect without gc_interval: set that too, such as 1h")
		}
	}
	if _, err := labels.Parse(c.GCLabel); err != nil {
		return bad("gc_label", "%v", err)
	}
	for key, ttl := range map[string]time.Duration{"context_ttl": c.ContextTTL, "context_idle_ttl": c.ContextIdleTTL} {
		if ttl > 0 && ttl < contexts.MinIdle {
			return bad(key, "%s is less than %s, for which no context is deleted after its last use", ttl, contexts.MinIdle)
		}
	}
	return nil
}

func (c Config) validateNetwork(bad func(key, format string, args ...any) error) error {
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		return bad("tls_key", "is missing beside tls_cert")
	case c.TLSKey != "" && c.TLSCert == "":
		return bad("tls_cert", "is missing beside tls_key")
	case c.ClientCA != "" && c.TLSCert == "":
		return bad("client_ca", "needs tls_cert and tls_key")
	}
	for _, origin := range c.Origins {
		if err := gateway.CheckOrigin(origin); err != nil {
			return bad("origin", "%v", err)
		}
	}
	if err := c.validateGateway(bad); err != nil {
		return err
	}
	for _, addr := range c.Listen {
		if err := c.validateAddress("listen", addr, bad); err != nil {
			return err
		}
	}
	if c.HTTP == "" {
		return nil
	}
	return c.validateAddress("http", c.HTTP, bad)
}

// validateGateway refuses an address of sites that other machines reach by names that only this one resolves, or without TLS. Names of sites
// must not be names of the other addresses, or origins of pages that may open sessions: pages of sites are not trusted.
func (c Config) validateGateway(bad func(key, format string, args ...any) error) error {
	if c.Gateway == "" {
		if c.GatewayDomain != "" {
			return bad("gateway_domain", "needs an address: give --gateway as well, such as 0.0.0.0:443")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.Gateway)
	switch isLocal := gateway.IsLoopback(host); {
	case err != nil:
		return bad("gateway", "%q is no address such as 127.0.0.1:7422", c.Gateway)
	case (c.GatewayTLSCert == "") != (c.GatewayTLSKey == ""):
		return bad("gateway_tls_cert", "give both --gateway-tls-cert and --gateway-tls-key, or none of them")
	case c.GatewayDomain == "" && c.GatewayTLSCert != "":
		return bad("gateway_domain", "is missing: a certificate is for the names of a domain")
	case c.GatewayDomain == "" && !isLocal:
		return bad("gateway", "%s is reachable from other machines, and without --gateway-domain sites have names that only this machine resolves: give --gateway-domain, --gateway-tls-cert and --gateway-tls-key, or listen on 127.0.0.1", c.Gateway)
	case c.GatewayTLSCert == "" && !isLocal:
		return bad("gateway", "%s is reachable from other machines and needs TLS: give --gateway-tls-cert and --gateway-tls-key, or listen on 127.0.0.1 behind a proxy that speaks TLS", c.Gateway)
	}
	place, err := c.sitesPlace(0)
	if err != nil {
		return bad("gateway_domain", "%v", err)
	}
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if err == nil && place.Has(u.Host) && (c.GatewayDomain != "" || u.Port() == port) {
			return bad("origin", "%s is the origin of a site, whose pages must not open sessions", origin)
		}
	}
	for _, addr := range append([]string{c.HTTP}, c.Listen...) {
		if c.GatewayDomain != "" && place.Has(addr) {
			return bad("gateway_domain", "%s is the domain of sites, and so names no address of --http or --listen: take another name than %s", place.Domain, addr)
		}
	}
	return nil
}

// sitesPlace returns where browsers find sites, if the address of sites has a port.
func (c Config) sitesPlace(port int) (gateway.Place, error) {
	if c.GatewayDomain == "" {
		return gateway.LocalPlace(port), nil
	}
	place, err := gateway.ParsePlace(c.GatewayDomain)
	if place.Port == 0 {
		if place.Port = port; c.GatewayTLSCert == "" {
			place.Port = 443 // the proxy's
		}
	}
	return place, err
}

func (c Config) validateAddress(key, addr string, bad func(key, format string, args ...any) error) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return bad(key, "%q is no address such as 127.0.0.1:7420", addr)
	}
	if !gateway.IsLoopback(host) && c.TLSCert == "" {
		return bad(key, "%s is reachable from other machines and needs TLS: give --tls-cert and --tls-key, or listen on 127.0.0.1", addr)
	}
	return nil
}

// Size is a number of bytes, written as "512MiB"; see bytesize.Size.
type Size = bytesize.Size

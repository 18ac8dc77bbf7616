package server

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
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
	"github.com/ctxfs/ctxfs/panels"
)

// Config has every setting of a server. The koanf tag is the key in the YAML file. The environment variable is CTXFS_ and the key in
// capitals. The flag is the key with "-" for "_".
type Config struct {
	// Workspace is the folder whose repositories contexts are seeded from.
	Workspace string `koanf:"workspace"`
	// ContextsDir is where contexts are kept; "" means <workspace>/.contexts.
	ContextsDir string `koanf:"contexts_dir"`
	// Driver makes new contexts: "copy", "overlay" (Linux, root), "overlay-userns" (Linux, in namespaces of its own) or "auto", which is
	// overlay where that works and everyone sees its mounts. Existing contexts keep their driver.
	Driver string `koanf:"driver"`
	// Listen are TCP addresses for gRPC; none by default. Beyond loopback they need TLS.
	Listen []string `koanf:"listen"`
	// HTTP is the address of /livez, /readyz, /metrics and /v1/session (WebSocket); "" means none.
	HTTP string `koanf:"http"`
	// Gateway is the address of sites, on loopback; "" means none.
	Gateway string `koanf:"gateway"`
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
	// GitTimeout bounds one query of a repository, GitFetchTimeout one fetch.
	GitTimeout      time.Duration `koanf:"git_timeout"`
	GitFetchTimeout time.Duration `koanf:"git_fetch_timeout"`
	// Pool is how many ready copies of the workspace are kept for new contexts of the copy driver; 0 means none.
	Pool int `koanf:"pool"`
	// DiskReserve is what seeding leaves free on the disk; below it the server is not ready.
	DiskReserve Size `koanf:"disk_reserve"`
	// AuditLog is a file that gets a line of JSON for every call that may change something; "" means none.
	AuditLog string `koanf:"audit_log"`
	// AuditMaxSize is the size at which a new audit log is begun; AuditKeep is how many older ones are kept.
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
	// OTLPEndpoint is a URL that receives traces by OTLP over gRPC; "" means none.
	OTLPEndpoint string `koanf:"otlp_endpoint"`
	// ReadyFile is written with the address once the server accepts calls.
	ReadyFile string `koanf:"ready_file"`
	// ExitOnStdinClose stops the server when its standard input ends, and so with its parent.
	ExitOnStdinClose bool `koanf:"exit_on_stdin_close"`
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
		AuditMaxSize: 64 << 20, AuditKeep: 8,
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
	fs.String("driver", d.Driver, "how new contexts are made: copy, overlay (Linux, root), overlay-userns (Linux, any user; only the server sees the files) or auto (overlay where everybody sees its mounts)")
	fs.StringSlice("listen", nil, "TCP address for gRPC, such as 127.0.0.1:7420; tokens always, TLS beyond loopback; repeatable")
	fs.String("http", d.HTTP, "address for /livez, /readyz, /metrics and browsers' sessions, such as 127.0.0.1:7421")
	fs.String("gateway", d.Gateway, "address on loopback that shows contexts' files to browsers as sites, such as 127.0.0.1:7422")
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
	fs.String("log-level", d.LogLevel, "debug, info, warn or error")
	fs.String("log-format", d.LogFormat, "auto (text on a terminal, else json), json or text")
	fs.Bool("metrics", d.Metrics, "serve /metrics on --http, to whoever has the host token or the metrics token")
	fs.String("metrics-token-file", d.MetricsTokenFile, "file with the token that reads /metrics and nothing else (default metrics.token in the state directory)")
	fs.String("otlp-endpoint", d.OTLPEndpoint, "URL that traces are sent to by OTLP over gRPC")
	fs.String("ready-file", d.ReadyFile, "file that is written with the address once calls are accepted")
	fs.Bool("exit-on-stdin-close", d.ExitOnStdinClose, "stop when standard input ends")
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
}

func gitFlags(fs *pflag.FlagSet, d Config) {
	fs.String("git-base", d.GitBase, "URL below which templates' repositories are looked for that the workspace does not have")
	fs.Duration("git-timeout", d.GitTimeout, "give up asking a repository after this long")
	fs.Duration("git-fetch-timeout", d.GitFetchTimeout, "give up fetching a repository after this long")
}

// templateOptions returns the settings of templates.
func (c Config) templateOptions() contexts.TemplateOptions {
	return contexts.TemplateOptions{GitBase: c.GitBase, Timeout: c.GitTimeout, FetchTimeout: c.GitFetchTimeout}
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
		{"audit_max_size", int64(c.AuditMaxSize)}, {"seed_max_files", c.SeedMaxFiles}, {"seed_max_bytes", int64(c.SeedMaxBytes)},
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
	} {
		if number.value < 0 {
			return bad(number.key, "must not be negative")
		}
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
	if err := template.CheckBaseURL(c.GitBase); err != nil {
		return bad("git_base", "%v", err)
	}
	return c.validateNetwork(bad)
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

// validateGateway refuses an address of sites that other machines reach, and an origin that is a site's: its pages are not trusted.
func (c Config) validateGateway(bad func(key, format string, args ...any) error) error {
	if c.Gateway == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Gateway)
	if err != nil {
		return bad("gateway", "%q is no address such as 127.0.0.1:7422", c.Gateway)
	}
	if !gateway.IsLoopback(host) {
		return bad("gateway", "%s is reachable from other machines; sites have names that only this machine resolves: listen on 127.0.0.1", c.Gateway)
	}
	for _, origin := range c.Origins {
		if u, err := url.Parse(origin); err == nil && strings.HasSuffix(strings.ToLower(u.Hostname()), ".localhost") && u.Port() == port {
			return bad("origin", "%s is the origin of a site, whose pages must not open sessions", origin)
		}
	}
	return nil
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

// Size is a number of bytes, written as "512MiB", "5G" or "1073741824". K, M, G and T are powers of 1024, with or without "iB" or "B".
// It is never negative.
type Size int64

var sizeUnits = []struct {
	letter string
	factor int64
	name   string
}{{"T", 1 << 40, "TiB"}, {"G", 1 << 30, "GiB"}, {"M", 1 << 20, "MiB"}, {"K", 1 << 10, "KiB"}}

// Set parses a size (pflag.Value).
func (s *Size) Set(text string) error {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B"), "I")
	factor := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.letter); ok {
			number, factor = rest, u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	// Negated, the comparison refuses NaN as well.
	if !(err == nil && n >= 0 && n*float64(factor) < 1<<62) {
		return fmt.Errorf("%q is no size; write it as 512MiB, 5GiB or a number of bytes", text)
	}
	*s = Size(n * float64(factor))
	return nil
}

// UnmarshalText parses a size.
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// MarshalText formats the size as Set parses it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Type names the flag's argument in a usage text.
func (s *Size) Type() string { return "size" }

// String returns the shortest exact form: "1GiB", "1536MiB", "1000".
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

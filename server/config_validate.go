package server

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/ctxfs/ctxfs/contexts/template"
)

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
		if err := checkOrigin(origin); err != nil {
			return bad("origin", "%v", err)
		}
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

func (c Config) validateAddress(key, addr string, bad func(key, format string, args ...any) error) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return bad(key, "%q is no address such as 127.0.0.1:7420", addr)
	}
	if !isLoopback(host) && c.TLSCert == "" {
		return bad(key, "%s is reachable from other machines and needs TLS: give --tls-cert and --tls-key, or listen on 127.0.0.1", addr)
	}
	return nil
}

// isLoopback tells whether only this machine reaches host; "" means every interface.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

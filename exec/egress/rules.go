package egress

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Rules say where a client may connect to.
type Rules struct {
	// Names are exact, such as "example.com", stand for all names below one, as "*.example.com", or for all names, as "*".
	Names []string
	// Ports are those of TCP.
	Ports []uint16
}

// check returns *refused unless the rules permit a name and port.
func (r Rules) check(name string, port uint16) error {
	if _, err := netip.ParseAddr(name); err == nil || !wellFormed(name) {
		return &refused{"addresses are not permitted, only names"}
	}
	if !slices.ContainsFunc(r.Names, func(pattern string) bool { return Covers(pattern, name) }) {
		return &refused{"the name is not permitted"}
	}
	if !slices.Contains(r.Ports, port) {
		return &refused{fmt.Sprintf("port %d is not permitted", port)}
	}
	return nil
}

// Covers reports whether a pattern permits a name, or all names that another pattern permits.
func Covers(pattern, name string) bool {
	if below, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(name, below)
	}
	return name == pattern
}

// CheckName fails if a pattern of Rules is malformed. Names are in lower case, and have a dot.
func CheckName(pattern string) error {
	if pattern == "*" || wellFormed(strings.TrimPrefix(pattern, "*.")) {
		return nil
	}
	return fmt.Errorf("%q is no name: use \"example.com\", or \"*.example.com\" for all names below it, in lower case; addresses and ports do not belong into it", pattern)
}

// wellFormed reports whether a name is one of DNS with a dot in it, in lower case, and not a number that a resolver may take for an
// address, such as 127.1 or 0x7f.0.0.1.
func wellFormed(name string) bool {
	labels := strings.Split(name, ".")
	if len(name) > maxName || len(labels) < 2 {
		return false
	}
	for _, label := range labels {
		if len(label) == 0 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || label[0] == '-' {
			return false
		}
	}
	last := labels[len(labels)-1]
	return last[0] < '0' || last[0] > '9'
}

// split takes a target apart, as CONNECT has it, and normalizes the name.
func split(target string) (name string, port uint16, err error) {
	name, service, err := net.SplitHostPort(target)
	if err != nil {
		return target, 0, &refused{"this is not NAME:PORT"}
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	number, err := strconv.ParseUint(service, 10, 16)
	if err != nil || number == 0 {
		return name, 0, &refused{"this is not a port"}
	}
	return name, uint16(number), nil
}

// special has the ranges that are not the public internet's, or lead to addresses that are not: the registries of IANA for special-purpose
// addresses, and addresses of cloud providers that answer their own machines only.
var special = []struct {
	reason string
	ranges []netip.Prefix
}{
	{"loopback", prefixes("127.0.0.0/8", "::1/128")},
	{"private", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")},
	{"link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"multicast", prefixes("224.0.0.0/4", "ff00::/8")},
	{"that of a metadata service", prefixes("168.63.129.16/32")},
	{"reserved", prefixes("0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4")},
	// 6to4, Teredo, ORCHID, benchmarking, documentation.
	{"reserved", prefixes("2002::/16", "2001::/23", "2001:db8::/32", "3fff::/20", "2620:4f:8000::/48")},
}

// global is the part of IPv6 that is assigned to the internet. NAT64 (64:ff9b::/96), IPv4 within IPv6 and the rest are outside.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// notPublic says what kind of address this is; "" for one of the public internet.
func notPublic(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	for _, s := range special {
		if slices.ContainsFunc(s.ranges, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return s.reason
		}
	}
	if !a.IsValid() || a.Is6() && !global.Contains(a) {
		return "reserved"
	}
	return ""
}

func isOwn(own []net.Addr, a netip.Addr) bool {
	return slices.ContainsFunc(own, func(o net.Addr) bool {
		p, err := netip.ParsePrefix(o.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// silent drops what net/http logs of clients.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }

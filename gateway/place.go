package gateway

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// localDomain is what browsers resolve to this machine without a query (RFC 6761).
const localDomain = "localhost"

// maxDomain is the length of the longest domain below which a site's name is a name of DNS, in bytes.
const maxDomain = 253 - 1 - 26

// Place is where browsers find sites: at SCHEME://CAPABILITY.DOMAIN:PORT and SCHEME://files.DOMAIN:PORT/CAPABILITY. The zero value is
// nowhere.
type Place struct {
	// Domain is in lower case. Names below localhost have http, all others https.
	Domain string
	Port   int
}

// LocalPlace returns where sites are that only this machine's browsers find.
func LocalPlace(port int) Place { return Place{Domain: localDomain, Port: port} }

// ParsePlace reads NAME or NAME:PORT; without a port it is 0.
func ParsePlace(text string) (Place, error) {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		name, port = text, "0"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Place{}, fmt.Errorf("%q has no port such as :443", text)
	}
	p := Place{Domain: strings.ToLower(name), Port: int(number)}
	return p, p.check()
}

// check reports what is wrong with the domain.
func (p Place) check() error {
	labels := strings.Split(p.Domain, ".")
	last := labels[len(labels)-1]
	switch {
	case last == localDomain:
		return errors.New("sites are below localhost if no domain is given")
	case len(labels) < 2, len(p.Domain) > maxDomain, strings.Trim(last, "0123456789") == "":
		return fmt.Errorf("%q is no domain such as apps.example.com", p.Domain)
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(label, "-") != label {
			return fmt.Errorf("%q is no domain such as apps.example.com; sites get names below it", p.Domain)
		}
	}
	return nil
}

// Has reports whether a host, with or without a port, is a name below the domain, or the domain itself unless that is localhost.
func (p Place) Has(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return p.Domain != "" && (host == p.Domain && host != localDomain || strings.HasSuffix(host, "."+p.Domain))
}

// String returns the URLs of sites in the host form, with * for the capability.
func (p Place) String() string { return p.scheme() + "*" + p.suffix() }

func (p Place) scheme() string {
	if p.Domain == localDomain {
		return "http://"
	}
	return "https://"
}

// suffix returns what follows the first label of a site's host in a Host header.
func (p Place) suffix() string {
	usual := 443
	if p.Domain == localDomain {
		usual = 80
	}
	if p.Port == usual {
		return "." + p.Domain
	}
	return "." + p.Domain + ":" + strconv.Itoa(p.Port)
}

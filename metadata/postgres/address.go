package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The bounds of the pool, which the URL's pool_max_conns may set, and of one attempt to connect.
const (
	defaultConns, maxConns = 8, 64
	defaultConnect         = 5 * time.Second
	maxConnect             = 30 * time.Second
)

// defaultSchema is the schema of a URL without a search_path.
const defaultSchema = "public"

// Address is where the records are: a database, and a schema in it.
type Address struct {
	pool   *pgxpool.Config
	schema string
	// secrets never appear in a text: passwords as they are and as the URL has them.
	secrets []string
}

// IsURL reports whether a setting names a PostgreSQL database, and not a file.
func IsURL(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// errUnreadable does not quote the URL: any part of a malformed one may be of the password.
var errUnreadable = errors.New("the URL cannot be read: it is postgres://USER@HOST:PORT/DATABASE?search_path=SCHEMA; " +
	"keep the password in PGPASSFILE, or write its special characters as %40 and the like")

// Parse reads a URL such as postgres://user@host:5432/database?sslmode=verify-full&search_path=schema. What it lacks comes from
// the environment and the files that libpq reads, such as PGPASSFILE. The errors do not quote it.
func Parse(raw string) (*Address, error) {
	u, err := url.Parse(raw)
	if err != nil || !IsURL(raw) {
		return nil, errUnreadable
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errUnreadable
	}
	schema, err := schemaOf(query)
	if err != nil {
		return nil, err
	}
	conns, err := connsOf(query)
	if err != nil {
		return nil, err
	}
	for _, ours := range []string{"search_path", "pool_max_conns"} {
		query.Del(ours)
	}
	u.RawQuery = query.Encode()
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, unreadable(u, query)
	}
	a := &Address{pool: cfg, schema: schema, secrets: secretsOf(u, query, cfg)}
	a.bound(conns)
	return a, nil
}

// unreadable says which setting of a well-formed URL is wrong, as far as that needs no value of it.
func unreadable(u *url.URL, query url.Values) error {
	for key := range query {
		if key == "password" || key == "sslpassword" {
			continue
		}
		without := url.Values{}
		for k, v := range query {
			if k != key {
				without[k] = v
			}
		}
		rest := *u
		rest.RawQuery = without.Encode()
		if _, err := pgxpool.ParseConfig(rest.String()); err == nil {
			return fmt.Errorf("the URL's %s cannot be used: see its meaning in PostgreSQL's manual (libpq, connection strings)", key)
		}
	}
	return errUnreadable
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func schemaOf(query url.Values) (string, error) {
	schema := query.Get("search_path")
	switch {
	case schema == "":
		return defaultSchema, nil
	case !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_"):
		return "", errors.New("the URL's search_path must be one schema, whose name has only a-z, 0-9 and _ and does not begin with a digit or pg_")
	}
	return schema, nil
}

func connsOf(query url.Values) (int32, error) {
	text := query.Get("pool_max_conns")
	if text == "" {
		return defaultConns, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxConns {
		return 0, fmt.Errorf("the URL's pool_max_conns must be a number from 1 to %d", maxConns)
	}
	return int32(n), nil
}

// bound sets what does not depend on the URL.
func (a *Address) bound(conns int32) {
	a.pool.MaxConns = conns
	a.pool.MinConns, a.pool.MinIdleConns = 0, 0
	c := a.pool.ConnConfig
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = defaultConnect
	}
	c.ConnectTimeout = min(c.ConnectTimeout, maxConnect)
	// A pooler in transaction mode gives each transaction another connection: nothing is prepared on one.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	c.ValidateConnect = isPrimary
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "ctxfs"
	}
	c.RuntimeParams["client_encoding"] = "UTF8"
	delete(c.RuntimeParams, "search_path")
}

// minSecret is the least length of a password that is looked for in texts. A shorter one would be found in words.
const minSecret = 4

// secretsOf lists the passwords, longest first: replacing one must not leave a part of another. One that is also the user's name, or
// that of another part which texts show, is not replaced: that would point it out.
func secretsOf(u *url.URL, query url.Values, cfg *pgxpool.Config) []string {
	found := []string{cfg.ConnConfig.Password, query.Get("password"), query.Get("sslpassword")}
	if u.User != nil {
		password, _ := u.User.Password()
		found = append(found, password)
		_, encoded, _ := strings.Cut(u.User.String(), ":")
		found = append(found, encoded)
	}
	for _, secret := range slices.Clone(found) {
		found = append(found, url.QueryEscape(secret), url.PathEscape(secret))
	}
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	c := cfg.ConnConfig
	return slices.DeleteFunc(slices.Compact(found), func(s string) bool {
		return len(s) < minSecret || s == c.User || s == c.Database || s == c.Host
	})
}

// String is the address without a password: postgres://user@host:port/database?search_path=schema.
func (a *Address) String() string {
	c := a.pool.ConnConfig
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Path: "/" + c.Database}
	query := url.Values{}
	if strings.HasPrefix(c.Host, "/") {
		query.Set("host", c.Host)
	} else {
		u.Host = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	if a.schema != defaultSchema {
		query.Set("search_path", a.schema)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "%2F", "/")
	return u.String()
}

// Redact returns a setting as it may be shown: a URL without its password, and anything else as it is.
func Redact(setting string) string {
	if !IsURL(setting) {
		return setting
	}
	a, err := Parse(setting)
	if err != nil {
		return "postgres://..."
	}
	return a.String()
}

// hide replaces passwords in a text.
func (a *Address) hide(text string) string {
	for _, secret := range a.secrets {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}

package exec

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/fserr"
)

// internet stands for the network: names that end in .test have a public address, evil.test that of a metadata service, and all
// connections lead to one server.
func internet(t *testing.T, h http.Handler) egress.Upstream {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return egress.Upstream{
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			switch {
			case name == "evil.test":
				return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
			case strings.HasSuffix(name, ".test"):
				return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
		},
	}
}

// registry serves a git repository, and packages for npm, pip and go.
func registry(t *testing.T) http.Handler {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "work"}, {"-C", "work", "-c", "user.name=t", "-c", "user.email=t@e", "commit", "-q", "--allow-empty", "-m", "first"}, {"clone", "-q", "--bare", "work", "repo.git"}, {"-C", "repo.git", "update-server-info"}} {
		cmd := osexec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v, %s", args, err, out)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/repo.git/", http.FileServer(http.Dir(dir)))
	serve := func(path string, content []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	}
	serve("/hello", []byte("hello from outside\n"))
	serve("/left/-/left-1.0.0.tgz", npmPackage(t))
	serve("/simple/left/", []byte(`<a href="/left-1.0.0-py3-none-any.whl">left-1.0.0-py3-none-any.whl</a>`))
	serve("/left-1.0.0-py3-none-any.whl", zipped(t, map[string]string{
		"left.py": "side = 'left'\n", "left-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: left\nVersion: 1.0.0\n",
		"left-1.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "left-1.0.0.dist-info/RECORD": "",
	}))
	serve("/registry.test/left/@v/v1.0.0.info", []byte(`{"Version":"v1.0.0"}`))
	serve("/registry.test/left/@v/v1.0.0.mod", []byte("module registry.test/left\n"))
	serve("/registry.test/left/@v/v1.0.0.zip", zipped(t, map[string]string{
		"registry.test/left@v1.0.0/go.mod": "module registry.test/left\n", "registry.test/left@v1.0.0/left.go": "package left\n\nconst Side = \"left\"\n",
	}))
	return mux
}

func npmPackage(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	// The order is fixed: the lock file has the checksum.
	for _, file := range [][2]string{{"package/package.json", `{"name":"left","version":"1.0.0"}`}, {"package/index.js", "module.exports = 'left'\n"}} {
		err := w.WriteHeader(&tar.Header{Name: file[0], Size: int64(len(file[1])), Mode: 0o644})
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func lockFile(tarball []byte) string {
	sum := sha512.Sum512(tarball)
	return fmt.Sprintf(`{"name":"app","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"app","version":"1.0.0","dependencies":{"left":"1.0.0"}},
		"node_modules/left":{"version":"1.0.0","resolved":"http://registry.test/left/-/left-1.0.0.tgz","integrity":"sha512-%s"}}}`, base64.StdEncoding.EncodeToString(sum[:]))
}

// byNames permits the names of the test.
func byNames(list ...string) Network { return Network{Mode: NetworkAllowed, Names: list} }

// TestNetworkAttacks tries from the inside to reach what the rules forbid: by the proxy, and around it.
func TestNetworkAttacks(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Upstream = internet(t, registry(t)) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host := l.Addr().(*net.TCPAddr).Port
	var attempts []string
	for _, target := range []string{
		"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://evil.test/", "http://bad.test/", "http://127.0.0.1.registry.test.bad.test/",
		"http://registry.test:22/", "http://registry.test:8080/", fmt.Sprintf("http://localhost:%d/", host), "http://2852039166/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/",
	} {
		attempts = append(attempts,
			"curl -sSf -m 20 --noproxy '' --proxy $HTTP_PROXY '"+target+"'", "curl -sSf -m 20 --noproxy '' --proxytunnel --proxy $HTTP_PROXY '"+target+"'",
			"curl -sSf -m 20 --noproxy '' --proxy $ALL_PROXY '"+target+"'", "curl -sSf -m 20 --noproxy '*' '"+target+"'")
	}
	attempts = append(attempts, "curl -sSf -m 20 -H 'Host: registry.test' http://bad.test/hello", "curl -sSf -m 20 --noproxy '*' --resolve registry.test:80:93.184.216.34 http://registry.test/hello",
		fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'", host))
	script := "n=0\nperl -e 'opendir(D, \"/proc/self/fd\"); print qq(inherits a file\\n) if grep { $_ > 3 } readdir(D)'\n"
	for i, a := range attempts {
		script += fmt.Sprintf("if %s >/dev/null 2>&1; then echo 'reached by attempt %d'; fi; n=$((n+1))\n", a, i)
	}
	p := s.begin(Command{Argv: []string{"sh", "-c", script + "echo tried $n; curl -s http://registry.test/hello"}, Network: byNames("registry.test", "evil.test")})
	exit, out, stderr := s.result(p)
	if want := fmt.Sprintf("tried %d\nhello from outside\n", len(attempts)); exit.Code != 0 || out != want {
		t.Errorf("got %+v, %q, %q; want %q", exit, out, stderr, want)
		for i, a := range attempts {
			t.Logf("%d: %s", i, a)
		}
	}
	if r := p.Refusals(); !slices.ContainsFunc(r, func(r Refusal) bool {
		return r.Name == "bad.test" && r.Port == 80 && r.Count >= 3 && r.Reason == "the name is not permitted"
	}) ||
		!slices.ContainsFunc(r, func(r Refusal) bool { return r.Name == "evil.test" && r.Reason == "its address is link-local" }) {
		t.Errorf("recorded %+v", r)
	}
}

// TestResolversFailAtOnce resolves a name without a network, and with one by names, as programs do. They ask this machine if no other is named, and
// the kernel refuses that at once: none waits for an answer.
func TestResolversFailAtOnce(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Upstream = internet(t, http.NotFoundHandler()) })
	for _, network := range []Network{{}, byNames("registry.test")} {
		p := s.begin(Command{Network: network, Argv: []string{"sh", "-c", `
			getent hosts registry.test && echo getent
			perl -e 'exit(gethostbyname("registry.test") ? 0 : 1)' && echo perl
			python3 -c 'import socket; socket.getaddrinfo("registry.test", 80)' 2>/dev/null && echo python
			node -e 'require("dns").resolve("registry.test", e => process.exit(e ? 1 : 0))' && echo node
			cat /etc/resolv.conf
			perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:53", Proto => "udp"); $s->send("x"); $s->recv($x, 1); print "$!\n"'`}})
		if exit, out, _ := s.result(p); exit.Code != 0 || out != "Connection refused\n" {
			t.Errorf("got %+v, %q", exit, out)
		}
	}
}

// TestNetworkOfHost needs a profile of the operator's.
func TestNetworkOfHost(t *testing.T) {
	t.Parallel()
	profiles := BuiltinProfiles()
	profiles.ByName["open"] = &Profile{Name: "open", Network: Network{Mode: NetworkHost}}
	s := newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Profiles = profiles })
	server := httptest.NewServer(registry(t))
	defer server.Close()
	fetch := []string{"curl", "-sS", server.URL + "/hello"}
	if exit, out, stderr := s.result(s.begin(Command{Profile: "open", Argv: fetch})); out != "hello from outside\n" {
		t.Errorf("got %+v, %q, %q", exit, out, stderr)
	}
	if exit, out, _ := s.result(s.begin(Command{Profile: "open", Network: Network{Mode: NetworkNone}, Argv: fetch})); exit.Code == 0 {
		t.Errorf("without the network: %q", out)
	}
	// A value that looks like an option of the sandbox changes nothing.
	odd := map[string]string{"A": "--unshare-net", "B": "--ro-bind-data"}
	if exit, out, stderr := s.result(s.begin(Command{Profile: "open", Env: odd, Argv: []string{"sh", "-c", "echo $A $B"}})); out != "--unshare-net --ro-bind-data\n" {
		t.Errorf("with odd variables: %+v, %q, %q", exit, out, stderr)
	}
	for name, cmd := range map[string]Command{
		"host mode":       {Network: Network{Mode: NetworkHost}},
		"a panel":         {Profile: "open", OfPanel: true},
		"host by another": {Profile: "packages", Network: Network{Mode: NetworkHost}},
	} {
		cmd.Context, cmd.Argv = testContext, fetch
		if _, err := s.Start(t.Context(), cmd); fserr.CodeOf(err) != fserr.EACCES {
			t.Errorf("%s: %v", name, err)
		}
	}
}

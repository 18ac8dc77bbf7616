package exec

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/ctxfs/ctxfs/contexts"
)

// goProgram uses another module, and no package of the standard library: to compile one takes long.
const goProgram = `package main

import "registry.test/left"

func main() { println("side", left.Side) }
`

// Where the folders of the host are shown: with what package managers fetched, and what the Go compiler made.
const (
	packagesShown = "/opt/packages"
	buildsShown   = "/opt/builds"
)

// manager is a package manager, and a script that installs and uses a package.
type manager struct {
	script, out string
	env         map[string]string
}

var managers = map[string]manager{
	"curl": {"curl -sS http://registry.test/hello && curl -sS --proxy $ALL_PROXY http://registry.test/hello", "hello from outside\nhello from outside\n", nil},
	"git":  {"git clone -q http://registry.test/repo.git clone && git -C clone log --format=%s", "first\n", nil},
	"npm": {
		"npm ci --loglevel=http >&2 && node -p 'require(\"left\")'", "left\n",
		map[string]string{"npm_config_registry": "http://registry.test/", "npm_config_cache": packagesShown + "/npm"},
	},
	"pip3": {
		"pip3 install -q --break-system-packages --target lib left && PYTHONPATH=lib python3 -c 'import left; print(left.side)'", "left\n",
		map[string]string{"PIP_INDEX_URL": "http://registry.test/simple/", "PIP_TRUSTED_HOST": "registry.test"},
	},
	"go": {
		"go run . 2>run.log || cat run.log >&2; grep side run.log", "side left\n",
		map[string]string{
			"GOPROXY": "http://registry.test", "GOSUMDB": "off", "GOFLAGS": "-mod=mod -modcacherw", "CGO_ENABLED": "0",
			"GOMODCACHE": packagesShown + "/go", "GOCACHE": buildsShown,
		},
	},
}

// packageSite is a site with the profiles "names", which has a network by names and fills the folders of the operator, and "prepared", which
// has no network and cannot change the packages.
func packageSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctxfs-packages") // t.TempDir's parents admit this user only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	open := func(dir string) { // for the user of commands
		t.Helper()
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	packages, builds := filepath.Join(dir, "packages"), filepath.Join(dir, "builds")
	for _, d := range []string{dir, packages, builds} {
		open(d)
	}
	env := map[string]string{"PATH": "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"}
	profiles := BuiltinProfiles()
	profiles.ByName["names"] = &Profile{
		Name: "names", Network: Network{Mode: NetworkNone}, Ports: []uint16{80}, Env: env, Folders: []Folder{{packages, packagesShown, true}, {builds, buildsShown, true}},
	}
	profiles.ByName["prepared"] = &Profile{
		Name: "prepared", Network: Network{Mode: NetworkNone}, Env: env, Folders: []Folder{{packages, packagesShown, false}, {builds, buildsShown, true}},
	}
	s := newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Upstream, c.Profiles = internet(t, registry(t)), profiles })
	for _, id := range []contexts.ID{testContext, "ctx_b"} {
		app := filepath.Join(s.workspace, ".contexts", string(id), "app")
		open(app)
		for name, content := range map[string]string{
			"package.json": `{"name":"app","version":"1.0.0","dependencies":{"left":"1.0.0"}}`, "package-lock.json": lockFile(npmPackage(t)),
			"go.mod": "module app\n\ngo 1.20\n\nrequire registry.test/left v1.0.0\n", "app.go": goProgram,
		} {
			if err := os.WriteFile(filepath.Join(app, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// TestPackageManagersWork runs real programs against a registry, which they reach through the proxy alone. What npm and go fetched then serves
// commands without a network, in a context that has nothing but the sources.
func TestPackageManagersWork(t *testing.T) {
	t.Parallel()
	s := packageSite(t)
	for program, m := range managers {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			if exit, _, _ := s.result(s.begin(Command{Profile: "names", Argv: []string{"sh", "-c", "command -v " + program}})); exit.Code != 0 {
				t.Skip("a sandbox has no ", program)
			}
			cmd := Command{Profile: "names", Argv: []string{"sh", "-c", m.script}, Cwd: "app", Env: m.env, Network: byNames("registry.test")}
			offline := cmd
			offline.Context, offline.Profile, offline.Network, offline.Env = "ctx_b", "prepared", Network{}, maps.Clone(m.env)
			caches := program == "npm" || program == "go"
			if caches {
				maps.Copy(offline.Env, map[string]string{"npm_config_offline": "true", "GOPROXY": "off"})
				if exit, out, _ := s.result(s.begin(offline)); exit.Code == 0 {
					t.Errorf("without a network and a cache: %q", out)
				}
			}
			p := s.begin(cmd)
			if exit, out, stderr := s.result(p); exit.Code != 0 || out != m.out {
				t.Fatalf("by names: %+v, %q, %q; refused %+v", exit, out, stderr, p.Refusals())
			}
			if !caches {
				return
			}
			if exit, out, stderr := s.result(s.begin(offline)); exit.Code != 0 || out != m.out {
				t.Errorf("offline, with a prepared cache: %+v, %q, %q", exit, out, stderr)
			}
			if exit, _, _ := s.result(s.begin(Command{Profile: "prepared", Argv: []string{"touch", packagesShown + "/x"}})); exit.Code == 0 {
				t.Error("a command changed the cache of the operator")
			}
		})
	}
}

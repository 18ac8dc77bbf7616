package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/exec/entry"
	"github.com/ctxfs/ctxfs/fserr"
)

func profilesFileOf(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profiles.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadProfiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p, err := LoadProfiles(profilesFileOf(t, `
profiles:
  node:
    description: the team's registry
    network: {names: [npm.example.com], ports: [443, 8443], bytes: 1000}
    env: {npm_config_registry: "https://npm.example.com"}
    folders: [{from: `+folder+`, to: /opt/sdk}, {from: `+folder+`, to: /home/agent/.npm, writable: true}]
    limits: {wall: 30m, processes: 100}
  packages: {network: {mode: none}}
maxima: {wall: 2h, open_files: 50}
command_names: ["*.example.com"]
`), "/nonexistent")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(p); err != nil {
		t.Error(err)
	} else if again := new(Profiles); json.Unmarshal(data, again) != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("JSON does not carry the profiles: %s", data)
	}
	node, err := p.plan(&Command{Profile: "node", Limits: Limits{Processes: 7}, Env: map[string]string{"npm_config_registry": "mine"}, Network: Network{Names: []string{"a.example.com"}}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := egress.Rules{Names: []string{"a.example.com", "npm.example.com"}, Ports: []uint16{443, 8443}}
	if !reflect.DeepEqual(node.rules, want) || node.mode != NetworkAllowed || node.env["npm_config_registry"] != "mine" || node.env["HTTPS_PROXY"] == "" {
		t.Errorf("got %+v", node)
	}
	if l := node.limits; l.Wall != 30*time.Minute || l.Processes != 7 || l.Files != 50 || l.FileBytes != defaultFileBytes {
		t.Errorf("limits %+v", l)
	}
	if offline, err := p.plan(&Command{}, Limits{}); err != nil || offline.mode != NetworkNone || offline.limits.Wall != 2*time.Hour || len(offline.env) != 0 {
		t.Errorf("by default: %+v, %v", offline, err)
	}
	if short, err := p.plan(&Command{DefaultWall: time.Minute}, Limits{}); err != nil || short.limits.Wall != time.Minute {
		t.Errorf("with a default limit: %+v, %v", short, err)
	}
	for name, c := range map[string]struct {
		cmd  Command
		code fserr.Code
		text string
	}{
		"unknown profile": {Command{Profile: "nope"}, fserr.EINVAL, "git, node, offline, packages"},
		"over a maximum":  {Command{Limits: Limits{Wall: 3 * time.Hour}}, fserr.EINVAL, "wall_ms"},
		"another name":    {Command{Network: Network{Names: []string{"example.org"}}}, fserr.EACCES, "example.org"},
		"all names":       {Command{Network: Network{Names: []string{"*"}}}, fserr.EACCES, `"*"`},
		"an address":      {Command{Network: Network{Names: []string{"127.0.0.1"}}}, fserr.EINVAL, "127.0.0.1"},
		"names and none":  {Command{Network: Network{NetworkNone, []string{"a.example.com"}}}, fserr.EINVAL, "ALLOWED"},
		"unknown mode":    {Command{Network: Network{Mode: 9}}, fserr.EINVAL, "9"},
		"too many names":  {Command{Network: Network{Names: slices.Repeat([]string{"a.example.com"}, maxNames+1)}}, fserr.EINVAL, "257"},
	} {
		if _, err := p.plan(&c.cmd, Limits{}); fserr.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %s with %q", name, err, c.code, c.text)
		}
	}
}

// TestMaximaOfPanels asks for more memory than a panel gets by default, without and with the operator's maxima.
func TestMaximaOfPanels(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	large := &Profile{Name: "large", Network: Network{Mode: NetworkNone}, Limits: Limits{MemoryBytes: 6 * gib}}
	for name, c := range map[string]struct {
		cmd    Command
		maxima Limits
		// refused is in the error; "" if there is none. got is the memory, then.
		refused string
		got     int64
	}{
		"nothing":                  {Command{OfPanel: true}, Limits{}, "", defaultMemory},
		"the default":              {Command{OfPanel: true, Limits: Limits{MemoryBytes: defaultMemory, TmpBytes: tmpBytes}}, Limits{}, "", defaultMemory},
		"all memory":               {Command{OfPanel: true, Limits: Limits{MemoryBytes: 1 << 62}}, Limits{}, "limit memory_bytes is 4611686018427387904; at most 4294967296 is permitted, by the operator's setting maxima: {memory_bytes}", 0},
		"a large /tmp":             {Command{OfPanel: true, Limits: Limits{TmpBytes: 1 << 40}}, Limits{}, "maxima: {tmp_bytes}", 0},
		"all memory, of a host":    {Command{Limits: Limits{MemoryBytes: 1 << 62}}, Limits{}, "", 1 << 62},
		"up to the maximum":        {Command{OfPanel: true, Limits: Limits{MemoryBytes: 8 * gib}}, Limits{MemoryBytes: 8 * gib}, "", 8 * gib},
		"over the maximum":         {Command{OfPanel: true, Limits: Limits{MemoryBytes: 9 * gib}}, Limits{MemoryBytes: 8 * gib}, "at most 8589934592", 0},
		"nothing, a low maximum":   {Command{OfPanel: true}, Limits{MemoryBytes: gib}, "", gib},
		"nothing, a large profile": {Command{OfPanel: true, Profile: "large"}, Limits{}, "", 6 * gib},
		"time":                     {Command{OfPanel: true, Limits: Limits{Wall: time.Hour}}, Limits{}, "--exec-max-time", 0},
		"less time":                {Command{OfPanel: true, Limits: Limits{Wall: time.Hour}}, Limits{Wall: time.Second}, "maxima: {wall}", 0},
		"processes":                {Command{OfPanel: true, Limits: Limits{Processes: 9}}, Limits{}, "--exec-max-processes", 0},
	} {
		p := BuiltinProfiles()
		p.ByName["large"], p.Maxima = large, c.maxima
		got, err := p.plan(&c.cmd, Limits{Wall: time.Minute, Processes: 8})
		switch {
		case c.refused != "" && (fserr.CodeOf(err) != fserr.EINVAL || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: got %v, want EINVAL with %q", name, err, c.refused)
		case c.refused == "" && (err != nil || got.limits.MemoryBytes != c.got):
			t.Errorf("%s: got %+v, %v; want %d bytes", name, got, err, c.got)
		}
	}
}

// TestProfilesThatAreRefused are mistakes and attacks in an operator's file.
func TestProfilesThatAreRefused(t *testing.T) {
	t.Parallel()
	private := filepath.Join(t.TempDir(), "workspace")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(private, 0o700), os.Symlink(private, link)); err != nil {
		t.Fatal(err)
	}
	folder := func(from, to string) string {
		return fmt.Sprintf("profiles: {x: {folders: [{from: %q, to: %q}]}}", from, to)
	}
	for content, want := range map[string]string{
		"profile: {}":                                   "profile",
		"profiles: {x: {netwrk: {}}}":                   "netwrk",
		"profiles: {x: {network: {mode: all}}}":         `"all"`,
		"profiles: {x: {network: {names: [1.2.3.4]}}}":  "1.2.3.4",
		"profiles: {x: {network: {ports: [0]}}}":        "port 0",
		"profiles: {x: {network: {ports: [65536]}}}":    "65536",
		"profiles: {x: {network: {bytes: -1}}}":         "-1",
		"profiles: {X/Y: {}}":                           "X/Y",
		"profiles: {x: {env: {\"A=B\": c}}}":            "A=B",
		"profiles: {x: {limits: {wall: 9000h}}}":        "wall_ms",
		"profiles: {x: {limits: {wall: forever}}}":      "forever",
		"maxima: {processes: -1}":                       "processes",
		"command_names: [\"https://x\"]":                "https://x",
		folder("relative", "/opt/x"):                    "absolute",
		folder("$HOME", "/opt/x"):                       "absolute",
		folder("/opt/$USER", "/opt/x"):                  "variables",
		folder(os.TempDir(), "opt"):                     "absolute",
		folder("/nonexistent-folder", "/opt/x"):         "no such file",
		folder("/etc/passwd", "/opt/x"):                 "not a directory",
		folder("/", "/opt/x"):                           "holds it",
		folder(private, "/opt/x"):                       "no command may see",
		folder(link, "/opt/x"):                          "no command may see",
		folder(filepath.Dir(private), "/opt/x"):         "no command may see",
		folder("/run", "/opt/x"):                        "no command may see",
		folder("/proc/self", "/opt/x"):                  "no command may see",
		folder("/usr/share", "/context"):                "cannot be shown",
		folder("/usr/share", "/context/x"):              "cannot be shown",
		folder("/usr/share", "/"):                       "cannot be shown",
		folder("/usr/share", "/opt/../etc"):             "cannot be shown",
		folder("/usr/share", "/home/agent"):             "cannot be shown",
		"profiles: {x: {}}\n---\nprofiles: {y: {a: b}}": "",
	} {
		_, err := LoadProfiles(profilesFileOf(t, content), private)
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "profiles.yaml")) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
	file := profilesFileOf(t, "profiles: {}")
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadProfiles(file); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(file, 0o600), os.Chown(file, 4321, 4321)); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadProfiles(file); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("a file of another user: %v", err)
		}
	}
	if _, err := LoadProfiles(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
}

// TestFoldersOfProfile shows folders of the host, with and without the right to write, in both kinds of sandboxes.
func TestFoldersOfProfile(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ctxfs-folders")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	sdk, cache := filepath.Join(dir, "sdk"), filepath.Join(dir, "cache")
	if err := errors.Join(os.Mkdir(sdk, 0o777), os.Mkdir(cache, 0o777), os.Chmod(dir, 0o755), os.Chmod(sdk, 0o777), os.Chmod(cache, 0o777), os.WriteFile(filepath.Join(sdk, "tool"), []byte("tool\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	profiles := BuiltinProfiles()
	profiles.ByName["sdk"] = &Profile{
		Name: "sdk", Network: Network{Mode: NetworkNone}, Env: map[string]string{"SDK": "/opt/sdk"},
		Folders: []Folder{{sdk, "/opt/sdk", false}, {cache, agentHome + "/.cache/tool", true}},
	}
	s := newSiteWith(t, "copy", func(_ *contexts.Config, c *Config) { c.Profiles = profiles })
	script := "cat $SDK/tool; touch $SDK/x 2>/dev/null && echo written; echo $$ >~/.cache/tool/made && cat /opt/sdk/../sdk/tool; ls /opt"
	for _, sandbox := range []string{"", "dev"} {
		exit, out, stderr := s.result(s.begin(Command{Profile: "sdk", Sandbox: sandbox, Argv: []string{"sh", "-c", script}}))
		if exit.Code != 0 || out != "tool\ntool\nsdk\n" {
			t.Errorf("got %+v, %q, %q", exit, out, stderr)
		}
		if err := os.Remove(filepath.Join(cache, "made")); err != nil {
			t.Error(err)
		}
	}
	// The operator's folder was replaced by a link to what no command may see.
	if err := errors.Join(os.RemoveAll(sdk), os.Symlink(s.workspace, sdk)); err != nil {
		t.Fatal(err)
	}
	for _, sandbox := range []string{"", "dev"} {
		if p, err := s.Start(t.Context(), Command{Context: testContext, Profile: "sdk", Sandbox: sandbox, Argv: []string{"true"}}); err == nil || !strings.Contains(err.Error(), sdk) {
			t.Errorf("a link in place of the folder: %v, %v", p, err)
		}
	}
}

// TestExplainSaysWhatCommandsSee compares the explanation with what commands find.
func TestExplainSaysWhatCommandsSee(t *testing.T) {
	t.Parallel()
	s := newSite(t, "copy")
	odd := map[string]string{"ODD": "--bind", "ODD_TOO": "--tmpfs", "MULTI": "a\nb"}
	for _, cmd := range []Command{{Env: odd, Cwd: "app"}, {Network: byNames("a.test")}, {Profile: "git", Sandbox: "dev"}} {
		cmd.Context, cmd.Argv = testContext, []string{"sh", "-c", `pwd; perl -e 'print "$_\n" for keys %ENV'; echo; cut -d' ' -f5 /proc/self/mountinfo; find / -maxdepth 1 -type l`}
		e, err := s.Explain(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		exit, out, stderr := s.result(s.begin(cmd))
		if exit.Code != 0 {
			t.Fatalf("%+v, %s", exit, stderr)
		}
		directory, rest, _ := strings.Cut(out, "\n")
		variables, mounted, _ := strings.Cut(rest, "\n\n")
		if directory != e.Directory {
			t.Errorf("directory %s, explained %s", directory, e.Directory)
		}
		got := strings.Split(variables, "\n")
		got = slices.DeleteFunc(got, func(n string) bool { return n == "PWD" }) // bwrap and shells set it
		slices.Sort(got)
		if want := slices.DeleteFunc(slices.Clone(e.Variables), func(n string) bool { return n == "PWD" }); !slices.Equal(got, want) {
			t.Errorf("variables %v, explained %v", got, want)
		}
		var explained []string
		for _, m := range e.Mounts {
			explained = append(explained, m.Path)
		}
		for path := range strings.SplitSeq(strings.TrimSpace(mounted), "\n") {
			if path == "/" || strings.HasPrefix(path, "/dev/") && path != "/dev/shm" || strings.HasPrefix(path, "/proc/") {
				continue // the parts of dev and proc, and the root that is empty
			}
			if !slices.Contains(explained, path) {
				t.Errorf("%s is not explained", path)
			}
			explained = slices.DeleteFunc(explained, func(p string) bool { return p == path })
		}
		if len(explained) > 0 {
			t.Errorf("explained, and not there: %v", explained)
		}
	}
	readOnly, err := s.Explain(t.Context(), Command{Context: testContext, ReadOnly: true, Argv: []string{"true"}})
	if err != nil || !slices.Contains(readOnly.Mounts, Mount{Path: home, Kind: "context"}) || readOnly.Landlock != entry.Version() {
		t.Errorf("a read-only command: %+v, %v", readOnly, err)
	}
	if _, err := s.Explain(t.Context(), Command{Context: testContext, Profile: "nope", Argv: []string{"true"}}); fserr.CodeOf(err) != fserr.EINVAL {
		t.Errorf("unknown profile: %v", err)
	}
	if n := len(s.List("")); n != 3 {
		t.Errorf("%d processes, want 3: an explanation runs nothing", n)
	}
	for _, p := range s.Profiles() {
		if p.Profile == "" || p.Description == "" || p.Mode == NetworkUnset {
			t.Errorf("profile %+v", p)
		}
	}
}

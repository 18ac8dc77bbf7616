package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ctxfs/ctxfs/exec/egress"
	"github.com/ctxfs/ctxfs/fserr"
)

// NetworkMode says which network a command has.
type NetworkMode int

// The modes, in the order of the proto's. NetworkUnset leaves the choice to the profile.
const (
	NetworkUnset NetworkMode = iota
	NetworkNone
	NetworkAllowed
	NetworkHost
)

var networkModes = map[string]NetworkMode{"none": NetworkNone, "allowed": NetworkAllowed, "host": NetworkHost}

// Network of a profile or a command.
type Network struct {
	Mode NetworkMode
	// Names are permitted with NetworkAllowed, as egress.Rules has them.
	Names []string
}

// Folder is a directory of the host that commands see.
type Folder struct {
	// From is the path on the host, To the one in the sandbox.
	From     string `yaml:"from"`
	To       string `yaml:"to"`
	Writable bool   `yaml:"writable"`
}

// Profile is a set of permissions and settings that a command can have.
type Profile struct {
	Name, Description string
	Network           Network
	// Ports and Bytes bound the traffic with NetworkAllowed. Bytes 0 means egress.DefaultBytes.
	Ports []uint16
	Bytes int64
	// Env has variables that a command may override.
	Env     map[string]string
	Folders []Folder
	// Limits apply where the command sets none.
	Limits Limits
}

// Profiles are those of a server. The zero value has none. JSON can carry them.
type Profiles struct {
	ByName map[string]*Profile
	// Maxima bound the limits of commands; 0 means no bound beyond that of ctxfs.
	Maxima Limits
	// CommandNames are patterns of names that a command may add to its profile's.
	CommandNames []string
}

// defaultProfile is that of commands which name none.
const defaultProfile = "offline"

var webPorts = []uint16{80, 443}

// BuiltinProfiles returns the profiles of a server without a file of them.
func BuiltinProfiles() *Profiles {
	p := &Profiles{ByName: map[string]*Profile{}, CommandNames: []string{"*"}}
	for _, b := range []Profile{
		{Name: defaultProfile, Description: "no network", Network: Network{Mode: NetworkNone}, Ports: webPorts},
		{Name: "packages", Description: "the registries of npm, PyPI, crates.io, Go and Debian", Ports: webPorts, Network: Network{NetworkAllowed, []string{
			"registry.npmjs.org", "registry.yarnpkg.com", "pypi.org", "files.pythonhosted.org", "crates.io", "index.crates.io", "static.crates.io",
			"proxy.golang.org", "sum.golang.org", "deb.debian.org", "security.debian.org",
		}}},
		{Name: "git", Description: "GitHub, GitLab, Bitbucket and Codeberg, by HTTPS and SSH", Ports: []uint16{22, 80, 443}, Network: Network{NetworkAllowed, []string{
			"github.com", "codeload.github.com", "*.githubusercontent.com", "gitlab.com", "bitbucket.org", "codeberg.org",
		}}},
	} {
		p.ByName[b.Name] = &b
	}
	return p
}

// get returns a profile; "" means the default one.
func (p *Profiles) get(name string) (*Profile, error) {
	if name == "" {
		name = defaultProfile
	}
	if profile := p.ByName[name]; profile != nil {
		return profile, nil
	}
	return nil, &fserr.Error{Code: fserr.EINVAL, Detail: fmt.Sprintf("no profile %q", name), Hint: "there are " + strings.Join(slices.Sorted(maps.Keys(p.ByName)), ", ")}
}

// list returns the profiles, sorted by name.
func (p *Profiles) list() []*Profile {
	var list []*Profile
	for _, name := range slices.Sorted(maps.Keys(p.ByName)) {
		list = append(list, p.ByName[name])
	}
	return list
}

// profilesFile is the operator's YAML.
type profilesFile struct {
	Profiles     map[string]profileFile `yaml:"profiles"`
	Maxima       Limits                 `yaml:"maxima"`
	CommandNames *[]string              `yaml:"command_names"`
}

type profileFile struct {
	Description string `yaml:"description"`
	Network     struct {
		Mode  string   `yaml:"mode"`
		Names []string `yaml:"names"`
		Ports []uint16 `yaml:"ports"`
		Bytes int64    `yaml:"bytes"`
	} `yaml:"network"`
	Env     map[string]string `yaml:"env"`
	Folders []Folder          `yaml:"folders"`
	Limits  Limits            `yaml:"limits"`
}

// LoadProfiles returns the builtin profiles and those of a file, which replace builtin ones of the same name. The file must belong to
// root or to this process's user, and no other user may write to it. No folder of a profile may be in, or hold, one of the private
// directories. An error names the file and the entry.
func LoadProfiles(file string, private ...string) (*Profiles, error) {
	p := BuiltinProfiles()
	if file == "" {
		return p, nil
	}
	data, err := readTrusted(file)
	if err != nil {
		return nil, err
	}
	var content profilesFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&content); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := p.merge(content, private); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// maxProfilesFile bounds the operator's file, in bytes.
const maxProfilesFile = 1 << 20

// readTrusted reads a file that only root and this user can write to.
func readTrusted(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", file)
	case st.Size() > maxProfilesFile:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", file, st.Size(), maxProfilesFile)
	case !ownedByOperator(st):
		return nil, fmt.Errorf("%s belongs to another user: it must belong to root or to the server's user", file)
	case st.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s has mode %04o: other users could write to it (chmod go-w)", file, st.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, maxProfilesFile))
}

var profileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (p *Profiles) merge(content profilesFile, private []string) error {
	p.Maxima = content.Maxima
	if err := p.Maxima.check(); err != nil {
		return fmt.Errorf("maxima: %w", err)
	}
	if names := content.CommandNames; names != nil {
		p.CommandNames = *names
	}
	for _, name := range p.CommandNames {
		if err := egress.CheckName(name); err != nil {
			return fmt.Errorf("command_names: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(content.Profiles)) {
		if !profileName.MatchString(name) {
			return fmt.Errorf("profile %q: a name has up to 64 of the characters a-z, 0-9, '-', '_' and '.'", name)
		}
		profile, err := content.Profiles[name].profile(name)
		if err == nil {
			err = profile.check(private)
		}
		if err != nil {
			return fmt.Errorf("profile %q: %w", name, err)
		}
		p.ByName[name] = profile
	}
	return nil
}

func (f profileFile) profile(name string) (*Profile, error) {
	mode, ok := networkModes[f.Network.Mode]
	switch {
	case f.Network.Mode == "" && len(f.Network.Names) > 0:
		mode = NetworkAllowed
	case f.Network.Mode == "":
		mode = NetworkNone
	case !ok:
		return nil, fmt.Errorf("network mode %q: use none, allowed or host", f.Network.Mode)
	}
	if f.Network.Bytes < 0 {
		return nil, fmt.Errorf("network bytes are %d", f.Network.Bytes)
	}
	ports := f.Network.Ports
	if ports == nil {
		ports = webPorts
	}
	return &Profile{
		Name: name, Description: f.Description, Network: Network{mode, f.Network.Names}, Ports: ports, Bytes: f.Network.Bytes,
		Env: f.Env, Folders: f.Folders, Limits: f.Limits,
	}, nil
}

func (p *Profile) check(private []string) error {
	for _, name := range p.Network.Names {
		if err := egress.CheckName(name); err != nil {
			return err
		}
	}
	if slices.Contains(p.Ports, 0) {
		return errors.New("port 0")
	}
	for name, value := range p.Env {
		if err := checkVariable(name, value); err != nil {
			return err
		}
	}
	for i := range p.Folders {
		if err := p.Folders[i].check(private); err != nil {
			return err
		}
	}
	return p.Limits.check()
}

// ownPlaces are where a folder of a profile cannot be: ctxfs fills them itself, and in the context it would leave an empty directory.
var ownPlaces = []string{"/context", "/proc", "/dev", "/tmp", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// check resolves the links in f.From, once: a link that changes later leads nowhere else.
func (f *Folder) check(private []string) error {
	if !filepath.IsAbs(f.From) || !filepath.IsAbs(f.To) || strings.ContainsAny(f.From+f.To, "\x00$") {
		return fmt.Errorf("folder %q to %q: both paths must be absolute, and variables are not replaced", f.From, f.To)
	}
	if to := filepath.Clean(f.To); to != f.To || to == "/" || to == agentHome || slices.ContainsFunc(ownPlaces, func(own string) bool { return within(to, own) }) {
		return fmt.Errorf("folder %q to %q: it cannot be shown there; use a path such as /opt/NAME or %s/NAME", f.From, f.To, agentHome)
	}
	real, err := filepath.EvalSymlinks(f.From)
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return fmt.Errorf("folder %q is not a directory", f.From)
	}
	for _, dir := range append([]string{"/proc", "/sys", "/dev", "/run"}, private...) {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			dir = resolved
		}
		if within(real, dir) || within(dir, real) {
			return fmt.Errorf("folder %q: it is in %s, or holds it, which no command may see", f.From, dir)
		}
	}
	f.From = real
	return nil
}

// within reports whether a clean path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

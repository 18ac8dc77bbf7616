package review

import (
	"path"
	"slices"
	"strings"

	"github.com/ctxfs/ctxfs/contexts/rootfs"
)

// Reasons for which a change is applied only if it is selected by its own name.
const (
	// SensitiveWorkflow is of files that a CI or hosting service runs, or that say what it runs.
	SensitiveWorkflow = "workflow"
	// SensitiveHook is of files by which git, a shell, an editor or an agent runs or obeys something when a person commits, enters a directory, or opens it.
	SensitiveHook = "hook"
	// SensitiveScript is of files that say what a tool runs when a person builds, tests or installs.
	SensitiveScript = "package-script"
	// SensitiveSeeding is of files that say what later contexts get, and what counts as ignored.
	SensitiveSeeding    = "seeding"
	SensitiveExecutable = "executable"
	SensitiveLink       = "link-leaves-repository"
)

// SensitiveRule says which names of a tool are sensitive, and why.
type SensitiveRule struct {
	Tool, Reason string
	// Names are those of files in any directory. One that ends in a slash is a directory, with all that it holds. A * stands for any characters of a
	// name. Case does not matter: some file systems find a Makefile by the name makefile.
	Names []string
}

// SensitiveRules are the rules by name. A file belongs here if a program runs it, or obeys it, without being told its name: when a person builds, tests,
// installs, commits, opens the folder, or pushes. Files that a person has to name, source files above all, do not.
var SensitiveRules = []SensitiveRule{
	{"GitHub", SensitiveWorkflow, []string{".github/workflows/", ".github/actions/", "action.yml", "action.yaml", ".github/dependabot.yml", ".github/dependabot.yaml"}},
	{"GitLab", SensitiveWorkflow, []string{".gitlab-ci.yml", ".gitlab-ci.yaml", "*.gitlab-ci.yml", ".gitlab/"}},
	{"Gitea, Forgejo", SensitiveWorkflow, []string{".gitea/", ".forgejo/"}},
	{"CircleCI", SensitiveWorkflow, []string{".circleci/"}},
	{"Travis CI", SensitiveWorkflow, []string{".travis.yml", ".travis.yaml"}},
	{"Azure Pipelines", SensitiveWorkflow, []string{"azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines/", ".azuredevops/"}},
	{"Jenkins", SensitiveWorkflow, []string{"Jenkinsfile", "Jenkinsfile.*", "*.jenkinsfile"}},
	{"Drone, Woodpecker", SensitiveWorkflow, []string{".drone.yml", ".drone.yaml", ".drone.jsonnet", ".drone.star", ".woodpecker/", ".woodpecker.yml", ".woodpecker.yaml"}},
	{"Buildkite", SensitiveWorkflow, []string{".buildkite/"}},
	{"Bitbucket", SensitiveWorkflow, []string{"bitbucket-pipelines.yml"}},
	{"AppVeyor", SensitiveWorkflow, []string{"appveyor.yml", ".appveyor.yml"}},
	{"Cirrus CI", SensitiveWorkflow, []string{".cirrus.yml", ".cirrus.star"}},
	{"Cloud Build, CodeBuild", SensitiveWorkflow, []string{"cloudbuild.yml", "cloudbuild.yaml", "cloudbuild.json", "buildspec.yml", "buildspec.yaml"}},
	{"SourceHut", SensitiveWorkflow, []string{".build.yml", ".builds/"}},
	{"TeamCity, Semaphore", SensitiveWorkflow, []string{".teamcity/", ".semaphore/"}},
	{"Netlify, Vercel, Heroku, Render, Fly", SensitiveWorkflow, []string{"netlify.toml", "vercel.json", "Procfile", "app.json", "render.yaml", "fly.toml"}},

	{"git", SensitiveHook, []string{".gitmodules", ".gitattributes", ".gitconfig", ".githooks/", ".git-hooks/"}},
	{"Husky", SensitiveHook, []string{".husky/", ".huskyrc", ".huskyrc.*"}},
	{"Lefthook", SensitiveHook, []string{"lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*", ".lefthook/", ".lefthook-local/"}},
	{"pre-commit", SensitiveHook, []string{".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml"}},
	{"Overcommit, simple-git-hooks, lint-staged", SensitiveHook, []string{".overcommit.yml", ".simple-git-hooks.*", "simple-git-hooks.*", ".lintstagedrc", ".lintstagedrc.*"}},
	{"direnv, mise, asdf, devbox", SensitiveHook, []string{".envrc", ".mise/", ".mise.toml", ".mise.*.toml", "mise.toml", "mise.*.toml", ".tool-versions", "devbox.json"}},
	{"Nix", SensitiveHook, []string{"flake.nix", "flake.lock", "shell.nix", "default.nix"}},
	{"Visual Studio Code", SensitiveHook, []string{".vscode/", "*.code-workspace"}},
	{"Dev Containers", SensitiveHook, []string{".devcontainer/", ".devcontainer.json"}},
	{"JetBrains", SensitiveHook, []string{".idea/", ".run/", ".fleet/", "*.iml"}},
	{"other editors", SensitiveHook, []string{".zed/", ".vs/", ".nvim.lua", ".nvimrc", ".exrc", ".vimrc", ".dir-locals.el", ".dir-locals-2.el", "*.sublime-project", ".helix/", ".kateproject", "*.pro.user"}},
	{"Xcode", SensitiveHook, []string{"*.xcodeproj/", "*.xcworkspace/"}},
	{"agents", SensitiveHook, []string{
		".claude/", ".claude.json", "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", ".cursor/", ".cursorrules", ".mcp.json", "mcp.json", ".windsurf/", ".windsurfrules",
		".clinerules", ".clinerules/", ".roo/", ".codex/", ".gemini/", "GEMINI.md", ".continue/", ".aider.conf.yml", ".github/copilot-instructions.md", ".github/instructions/",
		".github/prompts/", ".opencode/", "opencode.json", "opencode.jsonc", ".amp/", ".goosehints",
	}},

	{"npm", SensitiveScript, []string{"package.json", "package.json5", "package.yaml", ".npmrc", "binding.gyp", "package-lock.json", "npm-shrinkwrap.json"}},
	{"pnpm", SensitiveScript, []string{".pnpmfile.cjs", ".pnpmfile.mjs", "pnpm-workspace.yaml", "pnpm-lock.yaml"}},
	{"Yarn", SensitiveScript, []string{".yarnrc", ".yarnrc.yml", ".yarn/", ".pnp.cjs", ".pnp.loader.mjs", "yarn.config.cjs", "yarn.lock"}},
	{"Bun, Deno", SensitiveScript, []string{"bunfig.toml", ".bunfig.toml", "bun.lock", "bun.lockb", "deno.json", "deno.jsonc", "deno.lock"}},
	{"JavaScript tools", SensitiveScript, []string{
		"*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "*.config.cts", "*.config.mts", ".*rc.js", ".*rc.cjs", ".*rc.mjs", ".*rc.ts", ".eslintrc", ".eslintrc.*", ".babelrc",
		".babelrc.*", "babel.config.json", ".mocharc.*", ".swcrc", "Gruntfile.*", "Gulpfile.*", "karma.conf.*", "wdio.conf.*", "nx.json", "turbo.json", "lerna.json", ".size-limit.*",
	}},
	{"Python", SensitiveScript, []string{
		"setup.py", "setup.cfg", "pyproject.toml", "conftest.py", "tox.ini", "noxfile.py", "pytest.ini", ".pytest.ini", "requirements*.txt", "Pipfile", "Pipfile.lock", "poetry.lock", "uv.lock",
		"pdm.lock", "sitecustomize.py", "usercustomize.py", "*.pth", "tasks.py", "fabfile.py", "dodo.py", "SConstruct", "SConscript", "wscript", "hatch_build.py", "environment.yml", "pip.conf",
	}},
	{"Rust", SensitiveScript, []string{"build.rs", "Cargo.toml", "Cargo.lock", ".cargo/", "rust-toolchain", "rust-toolchain.toml"}},
	{"Go", SensitiveScript, []string{"go.mod", "go.work", "magefile.go", "magefiles/", ".golangci.*", ".goreleaser.*"}},
	{"make, Meson, CMake, autotools, Ninja", SensitiveScript, []string{
		"Makefile", "GNUmakefile", "BSDmakefile", "Makefile.*", "makefile.*", "*.mk", "*.mak", "CMakeLists.txt", "*.cmake", "CMakePresets.json", "CMakeUserPresets.json", "meson.build", "meson.options",
		"meson_options.txt", "configure", "configure.ac", "configure.in", "autogen.sh", "bootstrap.sh", "*.m4", "build.ninja", "conanfile.py", "vcpkg.json", "xmake.lua", "premake5.lua",
	}},
	{"just, Task, Earthly, Dagger", SensitiveScript, []string{"justfile", ".justfile", "*.just", "Taskfile.*", "Taskfile", "Earthfile", "dagger.json", ".dagger/"}},
	{"containers", SensitiveScript, []string{"Dockerfile", "Dockerfile.*", "*.Dockerfile", "Containerfile", "Containerfile.*", "compose*.yml", "compose*.yaml", "docker-compose*.yml", "docker-compose*.yaml", "docker-bake.*", "Tiltfile", "skaffold.yaml", "Vagrantfile"}},
	{"Bazel, Buck, Pants", SensitiveScript, []string{"BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel", "*.bzl", ".bazelrc", ".bazelversion", "BUCK", ".buckconfig", "pants.toml"}},
	{"Maven, Gradle, Ant, sbt", SensitiveScript, []string{
		"pom.xml", ".mvn/", "mvnw", "mvnw.cmd", "*.gradle", "*.gradle.kts", "gradle.properties", "gradlew", "gradlew.bat", "gradle/wrapper/", "*.versions.toml", "build.xml", "build.sbt", "*.sbt", "build.sc", "build.mill",
	}},
	{".NET", SensitiveScript, []string{"*.csproj", "*.fsproj", "*.vbproj", "*.vcxproj", "*.proj", "*.props", "*.targets", "*.sln", "*.slnx", "nuget.config", "global.json", "dotnet-tools.json", "packages.config"}},
	{"Ruby", SensitiveScript, []string{"Gemfile", "Gemfile.lock", "*.gemspec", "Rakefile", "*.rake", ".rspec", "Guardfile", "Capfile", ".irbrc", ".pryrc", "extconf.rb"}},
	{"PHP", SensitiveScript, []string{"composer.json", "composer.lock", "phpunit.xml", "phpunit.xml.dist", "phpstan.neon", "phpstan.neon.dist", ".php-cs-fixer.php", ".php-cs-fixer.dist.php", ".user.ini"}},
	{"Elixir, Erlang", SensitiveScript, []string{"mix.exs", "mix.lock", ".iex.exs", ".formatter.exs", ".credo.exs", "rebar.config", "rebar.config.script"}},
	{"Haskell, OCaml", SensitiveScript, []string{"Setup.hs", "Setup.lhs", "*.cabal", "cabal.project", "cabal.project.*", "stack.yaml", ".ghci", "dune", "dune-project", "dune-workspace", "*.opam"}},
	{"Swift, CocoaPods, fastlane", SensitiveScript, []string{"Package.swift", "Package.resolved", "Podfile", "Podfile.lock", "*.podspec", "Cartfile", "fastlane/"}},
	{"Dart, Zig, Nim, Lua, Perl, R, Julia", SensitiveScript, []string{
		"pubspec.yaml", "build.zig", "build.zig.zon", "*.nimble", "config.nims", "*.rockspec", "Makefile.PL", "Build.PL", "cpanfile", ".Rprofile", "build.jl",
	}},
	{"Ansible", SensitiveScript, []string{"ansible.cfg"}},

	{"ctxfs", SensitiveSeeding, []string{".contextignore", "context-template.yml", "context-template.yaml", "context-zones.yml", "context-zones.yaml", "ctxfs.yml", "ctxfs.yaml"}},
	{"git", SensitiveSeeding, []string{".gitignore"}},
}

// names finds the rules of a path.
type sensitiveNames struct {
	// files and dirs are of names without a *, in lower case. Names of several components are in their last one's list.
	files, dirs         map[string][]sensitiveName
	fileGlobs, dirGlobs []sensitiveName
}

// sensitiveName is a name in lower case, without the slash at its end.
type sensitiveName struct{ name, reason string }

var sensitives = func() sensitiveNames {
	s := sensitiveNames{files: map[string][]sensitiveName{}, dirs: map[string][]sensitiveName{}}
	for _, rule := range SensitiveRules {
		for _, name := range rule.Names {
			text, isDir := strings.CutSuffix(strings.ToLower(name), "/")
			n := sensitiveName{text, rule.Reason}
			switch {
			case strings.Contains(text, "*") && isDir:
				s.dirGlobs = append(s.dirGlobs, n)
			case strings.Contains(text, "*"):
				s.fileGlobs = append(s.fileGlobs, n)
			case isDir:
				s.dirs[path.Base(text)] = append(s.dirs[path.Base(text)], n)
			default:
				s.files[path.Base(text)] = append(s.files[path.Base(text)], n)
			}
		}
	}
	return s
}()

// reasons returns why a path is sensitive by its name.
func (s sensitiveNames) reasons(p Path) []string {
	var out []string
	add := func(at string, names []sensitiveName) {
		for _, n := range names {
			if at == n.name || strings.HasSuffix(at, "/"+n.name) {
				out = append(out, n.reason)
			}
		}
	}
	match := func(base string, globs []sensitiveName) {
		for _, g := range globs {
			if ok, _ := path.Match(g.name, base); ok { // the patterns are good
				out = append(out, g.reason)
			}
		}
	}
	folded := strings.ToLower(string(p))
	base := path.Base(folded)
	add(folded, s.files[base])
	match(base, s.fileGlobs)
	for dir := path.Dir(folded); dir != "."; dir = path.Dir(dir) {
		base := path.Base(dir)
		add(dir, s.dirs[base])
		match(base, s.dirGlobs)
	}
	return out
}

// linkReasons returns why a link is sensitive by its name: programs find in it what they look for in a directory of the name, or of a name below.
func (s sensitiveNames) linkReasons(p Path) []string {
	out := s.reasons(p + "/")
	folded := "/" + strings.ToLower(string(p))
	for _, names := range []map[string][]sensitiveName{s.files, s.dirs} {
		for _, list := range names {
			for _, n := range list {
				for above := path.Dir(n.name); above != "."; above = path.Dir(above) {
					if strings.HasSuffix(folded, "/"+above) {
						out = append(out, n.reason)
					}
				}
			}
		}
	}
	return out
}

// sensitive returns the reasons for which a reviewer must select the change by name.
func (c *Change) sensitive(after opener) []string {
	out := sensitives.reasons(c.Path)
	if c.After.Type == rootfs.TypeSymlink {
		out = append(out, sensitives.linkReasons(c.Path)...)
	}
	if c.After.Type == rootfs.TypeFile && c.After.Mode&executable != 0 && c.Before.Mode&executable == 0 {
		out = append(out, SensitiveExecutable)
	}
	if c.After.Type == rootfs.TypeSymlink && leaves(c.Path, after) {
		out = append(out, SensitiveLink)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leaves reports whether a link's target is absolute, may lead out of the context, or into a repository's .git. A ".." behind a name may lead out: the
// name can be another link.
func leaves(p Path, target opener) bool {
	data, err := content(target)
	if err != nil || strings.HasPrefix(string(data), "/") || BarredName(Path(data)) != "" {
		return true
	}
	up := false
	for _, name := range slices.Backward(strings.Split(string(data), "/")) {
		switch name {
		case "..":
			up = true
		case "", ".":
		default:
			if up {
				return true
			}
		}
	}
	joined := path.Join(path.Dir(string(p)), string(data))
	return joined == ".." || strings.HasPrefix(joined, "../")
}

// repositories marks the files of what git would take for a repository without a working tree: a directory with HEAD, objects and refs. In such a
// directory git obeys config and runs hooks. has reports whether the context had a file before.
func repositories(changes []*Change, has func(Path) bool) {
	heads := map[Path]bool{}
	for _, c := range changes {
		if strings.EqualFold(path.Base(string(c.Path)), "HEAD") && c.After.Exists() {
			heads[parentOf(c.Path)] = true
		}
	}
	isRepository := func(dir Path) bool { return heads[dir] || has(Path(path.Join(string(dir), "HEAD"))) }
	for _, c := range changes {
		dir := parentOf(c.Path)
		switch strings.ToLower(path.Base(string(c.Path))) {
		case "head", "config", "config.worktree", "commondir", "packed-refs":
		default:
			if !strings.EqualFold(path.Base(string(dir)), "hooks") {
				continue
			}
			dir = parentOf(dir)
		}
		if isRepository(dir) && !slices.Contains(c.Sensitive, SensitiveHook) {
			c.Sensitive = append(c.Sensitive, SensitiveHook)
			slices.Sort(c.Sensitive)
		}
	}
}

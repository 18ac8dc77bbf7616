package review

import (
	"slices"
	"strings"
	"testing"
)

// TestSensitiveNames has a file for each tool that runs or obeys files without being told their names.
func TestSensitiveNames(t *testing.T) {
	byTool := map[string][]string{
		"GitHub":                               {".github/workflows/ci.yml", "app/.github/actions/x/action.yml", ".GitHub/Workflows/ci.yml", ".github/dependabot.yml"},
		"GitLab":                               {".gitlab-ci.yml", "ci/build.gitlab-ci.yml", ".gitlab/ci/test.yml"},
		"Gitea, Forgejo":                       {".gitea/workflows/ci.yml", ".forgejo/workflows/ci.yml"},
		"CircleCI":                             {".circleci/config.yml"},
		"Travis CI":                            {".travis.yml"},
		"Azure Pipelines":                      {"azure-pipelines.yml", "azure-pipelines-release.yaml", ".azure-pipelines/build.yml"},
		"Jenkins":                              {"Jenkinsfile", "Jenkinsfile.release", "ci/build.jenkinsfile"},
		"Drone, Woodpecker":                    {".drone.yml", ".woodpecker/test.yaml", ".woodpecker.yml"},
		"Buildkite":                            {".buildkite/pipeline.yml"},
		"Bitbucket":                            {"bitbucket-pipelines.yml"},
		"AppVeyor":                             {"appveyor.yml"},
		"Cirrus CI":                            {".cirrus.yml"},
		"Cloud Build, CodeBuild":               {"cloudbuild.yaml", "buildspec.yml"},
		"SourceHut":                            {".build.yml", ".builds/debian.yml"},
		"TeamCity, Semaphore":                  {".teamcity/settings.kts", ".semaphore/semaphore.yml"},
		"Netlify, Vercel, Heroku, Render, Fly": {"netlify.toml", "vercel.json", "Procfile", "render.yaml", "fly.toml"},
		"git":                                  {".gitmodules", "sub/.gitattributes", ".githooks/pre-commit", ".gitignore"},
		"Husky":                                {".husky/pre-commit", ".huskyrc.js"},
		"Lefthook":                             {"lefthook.yml", ".lefthook.toml", "lefthook-local.yml"},
		"pre-commit":                           {".pre-commit-config.yaml", ".pre-commit-hooks.yaml"},
		"Overcommit, simple-git-hooks, lint-staged": {".overcommit.yml", ".simple-git-hooks.json", ".lintstagedrc.mjs"},
		"direnv, mise, asdf, devbox":                {".envrc", "mise.toml", ".mise.local.toml", ".tool-versions", "devbox.json"},
		"Nix":                                       {"flake.nix", "shell.nix"},
		"Visual Studio Code":                        {".vscode/tasks.json", "app.code-workspace"},
		"Dev Containers":                            {".devcontainer/devcontainer.json", ".devcontainer.json"},
		"JetBrains":                                 {".idea/workspace.xml", ".run/x.run.xml", "app.iml"},
		"other editors":                             {".nvim.lua", ".exrc", ".dir-locals.el", "app.sublime-project", ".zed/tasks.json"},
		"Xcode":                                     {"App.xcodeproj/project.pbxproj", "App.xcworkspace/contents.xcworkspacedata"},
		"agents":                                    {".claude/settings.json", "CLAUDE.md", "pkg/AGENTS.md", ".cursorrules", ".mcp.json", ".github/copilot-instructions.md"},
		"npm":                                       {"package.json", "web/.npmrc", "binding.gyp", "package-lock.json"},
		"pnpm":                                      {".pnpmfile.cjs", "pnpm-workspace.yaml"},
		"Yarn":                                      {".yarnrc.yml", ".yarn/releases/yarn-4.0.0.cjs", ".yarn/plugins/x.cjs", ".pnp.cjs"},
		"Bun, Deno":                                 {"bunfig.toml", "deno.json"},
		"JavaScript tools":                          {"vite.config.ts", "jest.config.js", ".eslintrc.cjs", ".prettierrc.mjs", ".babelrc", "Gulpfile.mjs", "web/playwright.config.ts"},
		"Python":                                    {"setup.py", "tests/conftest.py", "pyproject.toml", "noxfile.py", "requirements-dev.txt", "x.pth", "sitecustomize.py"},
		"Rust":                                      {"build.rs", ".cargo/config.toml", "Cargo.toml", "rust-toolchain.toml"},
		"Go":                                        {"go.mod", "go.work", "magefile.go", ".golangci.yml"},
		"make, Meson, CMake, autotools, Ninja":      {"Makefile", "GNUmakefile", "makefile", "rules.mk", "CMakeLists.txt", "cmake/x.cmake", "meson.build", "configure", "m4/x.m4"},
		"just, Task, Earthly, Dagger":               {"justfile", ".justfile", "Taskfile.yml", "Earthfile", "dagger.json"},
		"containers":                                {"Dockerfile", "Dockerfile.dev", "compose.yaml", "docker-compose.override.yml", "Vagrantfile"},
		"Bazel, Buck, Pants":                        {"BUILD", "lib/BUILD.bazel", "MODULE.bazel", "rules.bzl", ".bazelrc", "BUCK"},
		"Maven, Gradle, Ant, sbt":                   {".mvn/wrapper/maven-wrapper.jar", ".mvn/jvm.config", "mvnw", "build.gradle.kts", "gradle/wrapper/gradle-wrapper.jar", "pom.xml", "build.sbt"},
		".NET":                                      {"app.csproj", "Directory.Build.props", "x.targets", "nuget.config", ".config/dotnet-tools.json"},
		"Ruby":                                      {"Gemfile", "x.gemspec", "Rakefile", ".rspec"},
		"PHP":                                       {"composer.json", "phpunit.xml.dist"},
		"Elixir, Erlang":                            {"mix.exs", "rebar.config"},
		"Haskell, OCaml":                            {"Setup.hs", "x.cabal", "bin/dune"},
		"Swift, CocoaPods, fastlane":                {"Package.swift", "Podfile", "fastlane/Fastfile"},
		"Dart, Zig, Nim, Lua, Perl, R, Julia":       {"pubspec.yaml", "build.zig", "x.nimble", "Makefile.PL", ".Rprofile"},
		"Ansible":                                   {"ansible.cfg"},
		"ctxfs":                                     {".contextignore", "sub/.contextignore", "context-template.yml", "context-zones.yml"},
	}
	for _, rule := range SensitiveRules {
		if !slices.ContainsFunc(byTool[rule.Tool], func(name string) bool { return slices.Contains(sensitives.reasons(Path(name)), rule.Reason) }) {
			t.Errorf("no file of %s is sensitive as %s", rule.Tool, rule.Reason)
		}
	}
	for tool, names := range byTool {
		for _, name := range names {
			if len(sensitives.reasons(Path(name))) == 0 {
				t.Errorf("%s of %s is not sensitive", name, tool)
			}
		}
	}
	for _, name := range []string{
		"main.go", "src/build/main.c", "README.md", "notes/Makefile-howto.md", "config", "config/app.yml", "hooks/use-state.ts", "src/github/workflows.go", "package.json.md", "mypackage.json5x",
		"x/workflows/a.yml", "Dockerfiles/README.md", "test/HEAD", "configure.md", "yarn/releases/x", "a.config", "requirements.md",
	} {
		if got := sensitives.reasons(Path(name)); len(got) != 0 {
			t.Errorf("%s is sensitive: %v", name, got)
		}
	}
}

// TestSensitivePlaces has files that are sensitive for what is beside them, or what they lead to.
func TestSensitivePlaces(t *testing.T) {
	w := newWorld(t, files{"old.git/HEAD": "ref: refs/heads/main\n", "old.git/config": "[core]\n", "config": "plain\n"})
	write(t, w.in(id), files{
		"new/HEAD": "ref: refs/heads/main\n", "new/config": "[core]\n", "new/hooks/post-checkout": "#!/bin/sh\n", "new/objects/info/packs": "\n", "new/refs/heads/main": "0\n",
		"old.git/config": "[core]\nfsmonitor = evil\n", "old.git/hooks/update": "#!/bin/sh\n", "config": "other\n", "hooks/index.ts": "export {}\n",
		"git": "-> .git", "deep/git": "-> ../sub/.GIT/hooks", "up": "-> ../x", "fine": "-> config",
		"p/q/root": "-> ../..", "out": "-> p/q/root/../../etc/passwd", "back": "-> p/../config",
		".vscode": "-> vs", ".github": "-> gh", "deep/.GitHub": "-> ../gh", "x/.github/workflows": "-> ../../gh", "gradle": "-> vs", ".cargo": "-> vs", "deep/.husky": "-> vs", "vs": "-> p",
	})
	got := map[Path]string{}
	for _, c := range w.changes(Query{}).Changes {
		got[c.Path] = strings.Join(c.Sensitive, " ")
	}
	for p, want := range map[Path]string{
		"new/HEAD": SensitiveHook, "new/config": SensitiveHook, "new/hooks/post-checkout": SensitiveHook, "new/objects/info/packs": "", "old.git/config": SensitiveHook,
		"old.git/hooks/update": SensitiveHook, "config": "", "hooks/index.ts": "", "git": SensitiveLink, "deep/git": SensitiveLink, "up": SensitiveLink, "fine": "",
		"p/q/root": "", "out": SensitiveLink, "back": SensitiveLink,
		".vscode": SensitiveHook, ".github": SensitiveHook + " " + SensitiveWorkflow, "deep/.GitHub": SensitiveHook + " " + SensitiveWorkflow, "x/.github/workflows": SensitiveWorkflow,
		"gradle": SensitiveScript, ".cargo": SensitiveScript, "deep/.husky": SensitiveHook, "vs": "",
	} {
		if is, ok := got[p]; !ok || is != want {
			t.Errorf("%s is sensitive as %q, want %q (a change: %t)", p, is, want, ok)
		}
	}
	out := w.decide(Approved, Selection{All: true})
	for _, l := range out.LeftOut {
		if l.Path == "new/HEAD" {
			return
		}
	}
	t.Errorf("all takes the HEAD of a repository; it leaves out %v", out.LeftOut)
}

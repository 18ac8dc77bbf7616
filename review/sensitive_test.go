package review

import (
	"slices"
	"strings"
	"testing"
)

// TestSensitiveNames has a file for each tool that runs or obeys files without being told their names.
func TestSensitiveNames(t *testing.T) {
	byTool := map[string][]string{
		"GitHub":                                {".github/workflows/ci.yml", "app/.github/actions/x/action.yml", ".GitHub/Workflows/ci.yml", ".github/dependabot.yml", "docs/CODEOWNERS"},
		"GitLab":                                {".gitlab-ci.yml", "ci/build.gitlab-ci.yml", ".gitlab/ci/test.yml"},
		"Gitea, Forgejo":                        {".gitea/workflows/ci.yml", ".forgejo/workflows/ci.yml"},
		"Gerrit, Phabricator, Chromium":         {".gitreview", ".arclint", "src/PRESUBMIT.py"},
		"CircleCI":                              {".circleci/config.yml"},
		"Travis CI":                             {".travis.yml"},
		"Azure Pipelines":                       {"azure-pipelines.yml", "azure-pipelines-release.yaml", ".azure-pipelines/build.yml"},
		"Jenkins":                               {"Jenkinsfile", "Jenkinsfile.release", "ci/build.jenkinsfile"},
		"Drone, Woodpecker, Vela":               {".drone.yml", ".woodpecker/test.yaml", ".woodpecker.yml", ".vela.yml"},
		"Buildkite":                             {".buildkite/pipeline.yml"},
		"Bitbucket":                             {"bitbucket-pipelines.yml"},
		"AppVeyor":                              {"appveyor.yml"},
		"Cirrus CI":                             {".cirrus.yml"},
		"Cloud Build, CodeBuild":                {"cloudbuild.yaml", "buildspec.yml"},
		"Codemagic, Bitrise, Xcode Cloud":       {"codemagic.yaml", "bitrise.yml", "ios/ci_scripts/ci_post_clone.sh"},
		"SourceHut":                             {".build.yml", ".builds/debian.yml"},
		"TeamCity, Semaphore, Space, Harness":   {".teamcity/settings.kts", ".semaphore/semaphore.yml", ".space.kts", ".harness/x.yaml"},
		"Tekton, Prow, Zuul, Taskcluster":       {".tekton/push.yaml", ".prow.yaml", "zuul.d/jobs.yaml", ".taskcluster.yml", "x.gocd.yaml"},
		"Packit, Copr, JitPack":                 {".packit.yaml", ".copr/Makefile", "jitpack.yml"},
		"Wercker, Shippable, Codeship":          {"wercker.yml", "codeship-steps.yml"},
		"Read the Docs":                         {".readthedocs.yaml", "readthedocs.yml"},
		"services that update, merge and check": {"renovate.json", ".mergify.yml", "codecov.yml", "sonar-project.properties", ".codeclimate.yml"},
		"Netlify, Vercel, Heroku, Render, Fly": {
			"netlify.toml", "vercel.json", "Procfile", "Procfile.dev", "render.yaml", "fly.toml", "app.json", "public/_redirects",
		},
		"other hosting services": {"wrangler.toml", "firebase.json", "railway.toml", "app.yaml", "appspec/.ebextensions/x.config", "samconfig.toml", "azure.yaml"},
		"web servers":            {"public/.htaccess", "web.config", "Caddyfile"},
		"Gitpod, Replit, IDX, StackBlitz, CodeSandbox, Binder": {
			".gitpod.yml", ".replit", "replit.nix", ".idx/dev.nix", ".stackblitzrc", ".codesandbox/tasks.json", ".binder/postBuild",
		},
		"git":                         {".gitmodules", "sub/.gitattributes", ".githooks/pre-commit", ".gitignore", ".lfsconfig", ".gitconfig.local"},
		"Mercurial, Jujutsu, Sapling": {".hg/hgrc", ".hgrc", ".hgignore", ".jj/repo/config.toml"},
		"Subversion, Bazaar, Darcs, Pijul, Fossil, Perforce": {".svn/wc.db", ".bzr/branch/branch.conf", "_darcs/prefs/defaults", ".p4config"},
		"Husky":      {".husky/pre-commit", ".huskyrc.js"},
		"Lefthook":   {"lefthook.yml", ".lefthook.toml", "lefthook-local.yml"},
		"pre-commit": {".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "prek.toml"},
		"Overcommit, simple-git-hooks, lint-staged": {".overcommit.yml", ".simple-git-hooks.json", ".lintstagedrc.mjs", "lint-staged.config.cts"},
		"commitlint, Commitizen, gitlint and other hook runners": {
			".commitlintrc.yml", "commitlint.config.mts", ".czrc", ".gitlint", "cog.toml", "captainhook.json",
		},
		"direnv, mise, asdf, devbox": {
			".envrc", "mise.toml", ".mise.local.toml", ".mise/config.toml", ".tool-versions", "devbox.json", "devenv.nix", ".shadowenv.d/x.lisp",
		},
		"autoenv and what enters a directory": {".env", ".env.local", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", ".rvmrc"},
		"version managers":                    {".nvmrc", ".sdkmanrc", ".node-version", "api/.python-version", ".fvmrc"},
		"shells":                              {".bashrc", ".zshenv", ".profile.d/x.sh", ".config/fish/config.fish", "Microsoft.PowerShell_profile.ps1"},
		"tmux, screen and process runners":    {".tmux.conf", ".tmuxinator.yml", "mprocs.yaml", "process-compose.yaml"},
		"Nix, Guix":                           {"flake.nix", "shell.nix", "guix.scm"},
		"Visual Studio Code":                  {".vscode/tasks.json", "app.code-workspace"},
		"Dev Containers":                      {".devcontainer/devcontainer.json", ".devcontainer.json"},
		"JetBrains":                           {".idea/workspace.xml", ".run/x.run.xml", ".fleet/run.json", "app.iml"},
		"Vim, Neovim":                         {".nvim.lua", ".nvimrc", ".exrc", ".vimrc.local", ".vim/coc-settings.json", ".ycm_extra_conf.py"},
		"Emacs":                               {".dir-locals.el", ".projectile", "lisp/x.elc", "Eask"},
		"other editors":                       {"app.sublime-project", ".zed/tasks.json", ".helix/languages.toml", "CMakeLists.txt.user"},
		"Eclipse, NetBeans":                   {".project", ".externalToolBuilders/x.launch", "nbproject/build-impl.xml", ".bsp/sbt.json"},
		"Xcode":                               {"App.xcodeproj/project.pbxproj", "App.xcworkspace/contents.xcworkspacedata", "App.xcconfig", ".swiftpm/x"},
		"Windows, by short names":             {"GITHUB~1/workflows/x.yml", "PACKAG~1.JSO", "MAKEFI~2"},
		"file managers":                       {"desktop.ini", "docs/x.lnk", "x.library-ms"},
		"debuggers":                           {".gdbinit", ".lldbinit", "bin/app-gdb.py", ".pdbrc", ".rdbgrc"},
		"search and tag tools":                {".ignore", ".rgignore", ".ackrc", ".ctags.d/x.ctags"},
		"agents": {
			".claude/settings.json", "CLAUDE.md", "pkg/AGENTS.md", ".cursorrules", ".mcp.json", ".github/copilot-instructions.md",
			".agents/skills/x/SKILL.md", ".windsurfrules", ".clinerules/x.md", ".roo/rules/x.md", ".kiro/steering/x.md", ".junie/guidelines.md",
			".qwen/settings.json", "QWEN.md", "GEMINI.md", "WARP.md", ".trae/rules/x.md", ".aider.conf.yml", ".aiderignore", ".continue/config.yaml",
			".codex/config.toml", ".opencode/agent/x.md", "opencode.jsonc", ".amp/x", ".ampcoderc", ".goosehints", ".goose/x", ".rules", "CRUSH.md",
		},
		"npm":              {"package.json", "web/.npmrc", "binding.gyp", "package-lock.json", "web/node_modules/x/index.js"},
		"pnpm":             {".pnpmfile.cjs", "pnpmfile.js", "pnpm-workspace.yaml"},
		"Yarn":             {".yarnrc.yml", ".yarn/releases/yarn-4.0.0.cjs", ".yarn/plugins/x.cjs", ".pnp.cjs"},
		"Bun, Deno":        {"bunfig.toml", "deno.json", "deno.jsonc", "import_map.json"},
		"JavaScript tools": {"next.config.mts", "ionic.config.json", "quasar.conf.js", ".dumirc.ts", ".oxlintrc.json", ".nycrc.yml"},
		"Prettier, ESLint, stylelint and other linters": {
			".prettierrc", ".prettierrc.toml", "prettier.config.cts", ".eslintrc.cjs", ".eslintignore", ".stylelintrc", "stylelint.config.yaml", "biome.json",
			"dprint.json",
		},
		"Babel, PostCSS, Tailwind, TypeScript": {
			".babelrc", "babel.config.json", ".postcssrc", "tailwind.config.ts", "tsconfig.json", "tsconfig.build.json", ".graphqlrc.yml",
		},
		"webpack, Vite, Rollup and other bundlers": {
			"vite.config.ts", "webpack.config.coffee", "webpack.prod.js", "rollup.config.mjs", "esbuild.config.mjs", "metro.config.js", ".storybook/main.ts",
			"electron-builder.yml",
		},
		"Jest, Vitest, Mocha, Playwright, Cypress and other test runners": {
			"jest.config.js", "vitest.workspace.ts", ".mocharc.cjs", "web/playwright.config.ts", "cypress.config.js", "cypress/support/e2e.ts",
			"karma.conf.js", "wdio.local.conf.ts", ".taprc", "testem.js",
		},
		"Grunt, Gulp, Nx, Turborepo, Lerna, Rush and other task runners": {
			"Gruntfile.js", "Gulpfile.mjs", "gulpfile.js/index.js", "nodemon.json", "nx.json", "apps/x/project.json", "turbo.json", "lerna.json", "rush.json",
			"common/config/rush/command-line.json",
		},
		"Angular, Ember, Nest, Expo, Cordova, Ionic": {"angular.json", "ember-cli-build.js", "nest-cli.json", "eas.json", "config.xml"},
		"Prisma, Knex, Sequelize":                    {"prisma/schema.prisma", "knexfile.ts", ".sequelizerc"},
		"Python": {
			"setup.py", "tests/conftest.py", "pyproject.toml", "setup.cfg", "x.pth", "sitecustomize.py", "src/__pycache__/x.cpython-313.pyc",
			".venv/bin/activate",
		},
		"pip, Pipenv, Poetry, uv, PDM, conda": {
			"requirements-dev.txt", "requirements/dev.txt", "constraints.txt", "Pipfile", "uv.lock", "environment.yml", "recipe/meta.yaml",
		},
		"tox, nox, pytest, coverage and other test runners": {"tox.ini", "noxfile.py", "pytest.ini", ".coveragerc", "features/environment.py"},
		"mypy, pylint, flake8, Ruff and other checkers":     {"mypy.ini", ".mypy.ini", ".pylintrc", ".flake8", "ruff.toml", "pyrightconfig.json"},
		"invoke, Fabric, doit, SCons, Waf":                  {"tasks.py", "fabfile.py", "fabfile/__init__.py", "dodo.py", "SConstruct", "site_scons/site_init.py", "wscript"},
		"Sphinx, MkDocs, Jupyter, IPython":                  {"docs/conf.py", "mkdocs.yml", "jupyter_server_config.py", "ipython_config.py"},
		"Gunicorn, Celery, Alembic, Scrapy, dbt, DVC, Snakemake": {
			"gunicorn.conf.py", "alembic.ini", "migrations/env.py", "dbt_project.yml", "dvc.yaml", ".dvc/config", "workflow/Snakefile",
		},
		"Rust": {
			"build.rs", ".cargo/config.toml", "Cargo.toml", "rust-toolchain", "rust-toolchain.toml", "clippy.toml", "Cross.toml", "bacon.toml",
			"src-tauri/tauri.conf.json",
		},
		"Go":  {"go.mod", "go.sum", "go.work", "magefile.go", ".golangci.yml", "rsrc_windows.syso", "vendor/modules.txt", ".air.toml"},
		"buf": {"buf.yaml", "buf.gen.ts.yaml"},
		"make, Meson, CMake, autotools, Ninja": {
			"Makefile", "GNUmakefile", "makefile", "rules.mk", "CMakeLists.txt", "cmake/x.cmake", "meson.build", "subprojects/x.wrap", "configure", "m4/x.m4",
			"build-aux/compile", "Kconfig", ".depend",
		},
		"Conan, vcpkg, xmake, Premake, Tup, Jam, qmake, Qbs":   {"conanfile.py", "vcpkg.json", "xmake.lua", "premake5.lua", "Tupfile", "Jamroot", "app.pro"},
		"clangd, clang-tidy, ccls":                             {".clangd", ".clang-tidy", "compile_commands.json", "compile_flags.txt"},
		"Doxygen, LaTeX, Quarto, mdBook, Jekyll, Hugo, Antora": {"Doxyfile", "paper/.latexmkrc", "_quarto.yml", "book.toml", "_plugins/x.rb", "hugo.toml"},
		"just, Task, Earthly, Dagger":                          {"justfile", ".justfile", "Taskfile.yml", "Earthfile", "dagger.json", "treefmt.toml"},
		"containers": {
			"Dockerfile", "Dockerfile.dev", "Dockerfile-dev", "Containerfile", ".dockerignore", "compose.yaml", "docker-compose.override.yml", "Vagrantfile",
			"Tiltfile", "skaffold.yaml", ".ddev/config.yaml",
		},
		"Bazel, Buck, Pants, GN, Please": {
			"BUILD", "lib/BUILD.bazel", "WORKSPACE", "MODULE.bazel", "rules.bzl", ".bazelrc", "tools/bazel", "BUCK", "pants.toml", ".pants.bootstrap",
			"BUILD.gn", ".plzconfig",
		},
		"Maven, Gradle, Ant, sbt": {
			".mvn/wrapper/maven-wrapper.jar", ".mvn/jvm.config", "mvnw", "build.gradle.kts", "init.gradle", "settings.gradle",
			"buildSrc/src/main/java/X.java", "gradle/wrapper/gradle-wrapper.jar", "gradle/libs.versions.toml", "pom.xml", "build.xml", "ivy.xml",
		},
		"sbt, Mill, Scala": {
			"build.sbt", "project/plugins.sbt", "project/Build.scala", "project/build.properties", "build.sc", ".mill-version", ".mill-jvm-opts",
			".scalafmt.conf", ".jvmopts",
		},
		"Clojure": {"project.clj", "deps.edn", "shadow-cljs.edn", "bb.edn", "dev/user.clj", ".clj-kondo/config.edn"},
		".NET": {
			"app.csproj", "app.sqlproj", "Directory.Build.props", "Directory.Build.rsp", "x.targets", "nuget.config", ".config/dotnet-tools.json",
			"global.json", "x.sln", "x.runsettings", ".editorconfig",
		},
		"Paket, Cake, NUKE, FAKE, PowerShell": {"paket.dependencies", "build.cake", ".nuke/parameters.json", "x.build.ps1"},
		"Ruby": {
			"Gemfile", "gems.rb", "x.gemspec", "Rakefile", ".rspec", ".irbrc", "Guardfile", "config.ru", "Capfile", ".bundle/config",
			"features/support/env.rb",
		},
		"RuboCop, Standard, Reek and other checkers": {".rubocop.yml", ".rubocop_todo.yml", ".erb_lint.yml"},
		"Perl": {".proverc", "Makefile.PL", "Build.PL", ".perltidyrc", "cpanfile"},
		"PHP":  {"composer.json", "phpunit.xml.dist", "behat.yml", "tests/Pest.php", "RoboFile.php", "wp-cli.yml"},
		"PHPStan, Psalm, PHP-CS-Fixer and other checkers": {
			"phpstan.neon", "phpstan-baseline.neon", "psalm.xml", ".php-cs-fixer.dist.php", "rector.php", "phpcs.xml",
		},
		"Elixir, Erlang, Gleam": {"mix.exs", "config/runtime.exs", "apps/x/config/config.exs", "test/test_helper.exs", "rebar.config", ".erlang", "gleam.toml"},
		"Haskell, PureScript, Elm, Lean, Coq, Agda": {
			"Setup.hs", "x.cabal", "cabal.project.local", "hie.yaml", ".ghci", "spago.yaml", "elm.json", "lakefile.lean", "_CoqProject",
		},
		"OCaml":                      {"bin/dune", "dune-project", "x.opam", ".ocamlinit"},
		"Swift, CocoaPods, fastlane": {"Package.swift", "Package@swift-5.9.swift", "Podfile", "fastlane/Fastfile", ".swiftlint.yml"},
		"Dart, Flutter":              {"pubspec.yaml", "analysis_options.yaml", "hook/build.dart", ".dart_tool/package_config.json"},
		"Zig, Nim, Crystal, D, V":    {"build.zig", "build.zig.zon", "x.nimble", "config.nims", "shard.yml", "dub.json"},
		"Lua":                        {".luarc.json", ".luacheckrc", ".busted", "x.rockspec"},
		"R":                          {".Rprofile", ".Renviron", ".RData", "renv/activate.R", "tests/testthat/setup-db.R", "src/Makevars", "_targets.R"},
		"Julia, MATLAB, Octave":      {"deps/build.jl", "Project.toml", "startup.m", ".octaverc"},
		"Lisp, Scheme, Racket, Prolog, Fortran, Ada, Haxe": {"x.asd", "info.rkt", "fpm.toml", "alire.toml"},
		"Ethereum, Solana, StarkNet":                       {"foundry.toml", "truffle-config.js", "Anchor.toml", "Scarb.toml"},
		"Unity, Unreal, Godot":                             {"ProjectSettings/ProjectSettings.asset", "Packages/manifest.json", "x.uproject", "Source/X/X.Build.cs", "project.godot"},
		"embedded systems":                                 {"platformio.ini", "sdkconfig", "west.yml", "conf/layer.conf", "package.xml"},
		"packaging":                                        {"debian/rules", "PKGBUILD", "snap/snapcraft.yaml", "nfpm.yaml"},
		"Ansible, Puppet, Chef, Salt": {
			"ansible.cfg", "group_vars/all.yml", "play/filter_plugins/x.py", "molecule/default/converge.yml", "Puppetfile", ".kitchen.local.yml",
		},
		"Terraform, OpenTofu, Terragrunt, Packer, Nomad": {
			"infra/main.tf", "prod.tfvars", "terragrunt.hcl", ".terraform.lock.hcl", ".tflint.hcl", ".terraform/modules/modules.json",
		},
		"Pulumi, Serverless, CDK, SST":         {"Pulumi.yaml", "Pulumi.prod.yaml", "serverless.yml", "cdk.json", "sst.config.ts"},
		"Kubernetes, Helm, Kustomize, Argo CD": {"chart/Chart.yaml", "chart/values.yaml", "helmfile.yaml", "base/kustomization.yaml", ".sops.yaml"},
		"shell checkers":                       {".shellcheckrc", ".yamllint.yaml", ".vale.ini"},
		"databases":                            {".psqlrc", "flyway.toml"},
		"tools that read .config":              {".config/nextest.toml", ".config/mise/config.toml"},
		"ctxfs":                                {".contextignore", "sub/.contextignore", "context-template.yml", "context-zones.yml"},
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
		"main.go", "src/build/main.c", "README.md", "notes/Makefile-howto.md", "config", "config/app.yml", "hooks/use-state.ts", "src/github/workflows.go", "package.json.md",
		"mypackage.json5x", "x/workflows/a.yml", "Dockerfiles/README.md", "test/HEAD", "configure.md", "yarn/releases/x", "a.config", "requirements.md", "requirements/login.md",
		"src/index.ts", "src/config.ts", "src/settings.py", "manage.py", "tests/test_app.py", "spec/models/user_spec.rb", "lib/tasks.rb", "app/models/Project.swift", "project/README.md",
		"project/src/main.go", "cmd/gradle/parse.go", "binder/bind.go", "src/editor/theme.ts", "vendor/github.com/x/y.go", "k8s/deploy.yaml", "chart/templates/pod.yaml", "locales/en.yml",
		"data/users.json", "public/manifest.json", "pages/login.pom.ts", "pom.ts", "src/environment.ts", "src/envelope.go", "src/versions.go", "scripts/release.sh", "LICENSE", "manual/index.md",
		".clang-format", "rustfmt.toml", "src/aider.py", "a~b.txt", "x.txt.~1~", "notes~",
	} {
		if got := sensitives.reasons(Path(name)); len(got) != 0 {
			t.Errorf("%s is sensitive: %v", name, got)
		}
	}
}

// TestEachSensitiveNameIsFound has a path for each name of the rules, at the top and in a directory.
func TestEachSensitiveNameIsFound(t *testing.T) {
	for _, rule := range SensitiveRules {
		seen := map[string]bool{}
		for _, name := range rule.Names {
			if seen[name] {
				t.Errorf("%s has %s twice", rule.Tool, name)
			}
			seen[name] = true
			p := strings.NewReplacer("[1-9]", "1", "*", "x.y").Replace(name)
			if strings.HasSuffix(p, "/") {
				p += "in/it"
			}
			for _, p := range []string{p, "a/b/" + p, strings.ToUpper(p)} {
				if !slices.Contains(sensitives.reasons(Path(p)), rule.Reason) {
					t.Errorf("%s is not sensitive by %s of %s", p, name, rule.Tool)
				}
			}
		}
	}
}

// TestNamesThatFoldToNothing looks at paths with components of which no file system keeps a character.
func TestNamesThatFoldToNothing(t *testing.T) {
	for _, p := range []Path{".../x", "...", ":x/y", "\u200c/x", " /. /x", ".../.../x", "a/.../x"} {
		if got := append(sensitives.reasons(p), sensitives.linkReasons(p)...); len(got) > 0 {
			t.Errorf("%q is sensitive: %v", p, got)
		}
	}
	if len(sensitives.reasons(".../.vscode/tasks.json")) == 0 || len(sensitives.reasons("\u200c/Makefile")) == 0 {
		t.Error("a name below one that folds to nothing is not sensitive")
	}
}

// TestSensitiveSpellings has names that some file system takes for those of the rules.
func TestSensitiveSpellings(t *testing.T) {
	for _, name := range []string{
		".v\u017fcode/tasks.json", ".VSCODE/tasks.json", ".hus\u212ay/pre-commit", "Ma\u212aefile", "pac\u212aage.j\u017fon", // ſ, and the Kelvin sign
		"Make\ufb01le", ".cla\u017f\u017fpath", ".cla\u00dfpath", ".cla\u1e9epath", "gul\uff50file.js", ".git\u200cattributes", "package\ufe0f.json", "\u034fMakefile", "\ufeff.envrc",
		"Makefile.", "Makefile ", ".envrc::$DATA", ".vscode./tasks.json", `.vscode\tasks.json`, `src\package.json`,
	} {
		if len(sensitives.reasons(Path(name))) == 0 {
			t.Errorf("%q is not sensitive", name)
		}
	}
	for _, name := range []string{"Stra\u00dfe.md", "\u65e5\u672c\u8a9e/a.txt", "caf\u00e9.go", "\xff.txt", "\u200c"} {
		if got := sensitives.reasons(Path(name)); len(got) != 0 {
			t.Errorf("%q is sensitive: %v", name, got)
		}
	}
	for _, name := range []string{".v\u017fcode", ".github\u200d", ".Hus\u212ay"} {
		if len(sensitives.linkReasons(Path(name))) == 0 {
			t.Errorf("a link %q is not sensitive", name)
		}
	}
}

// TestBarredSpellings has names that some file system takes for .git, or for where ctxfs keeps its own data.
func TestBarredSpellings(t *testing.T) {
	for name, want := range map[string]string{
		".g\ufe0fit/config": BarredGit, ".context\u017f/x": BarredState, "a/.ctx\u200cfs": BarredState, ".CTXFS": BarredState, ".contexts.": BarredState, ".ctxfs.md": "", ".contextsX": "",
	} {
		if got := BarredName(Path(name)); got != want {
			t.Errorf("%q is barred by %q, want %q", name, got, want)
		}
	}
}

func BenchmarkSensitiveNames(b *testing.B) {
	paths := []Path{"internal/services/accounts/handlers/create_account.go", "web/src/components/Button.tsx", "docs/reference/cli.md", "web/package.json", ".github/workflows/ci.yml"}
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range paths {
			sensitives.reasons(p)
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
		"p/q/root": SensitiveHook + " " + SensitiveScript, "out": SensitiveLink, "back": SensitiveLink,
		".vscode": SensitiveHook, ".github": SensitiveHook + " " + SensitiveWorkflow, "deep/.GitHub": SensitiveHook + " " + SensitiveWorkflow, "x/.github/workflows": SensitiveWorkflow,
		"gradle": SensitiveScript, ".cargo": SensitiveScript, "deep/.husky": SensitiveHook, "vs": SensitiveHook + " " + SensitiveScript,
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

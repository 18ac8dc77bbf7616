package review

// SensitiveRule says which names of a tool are sensitive, and why.
type SensitiveRule struct {
	Tool, Reason string
	// Names are those of files in any directory. One that ends in a slash is a directory, with all that it holds. A * stands for any characters of a
	// name, and [1-9] for a digit. Names are compared as git.FoldName spells them: some file systems find a Makefile by the name makefile.
	Names []string
}

// SensitiveRules are the rules by name. A file belongs here if a program runs it, or obeys it, without being told its name: when a person builds, tests,
// installs, commits, opens the folder, or pushes. Files that a person has to name, source files above all, do not. Neither do files that only say how a
// formatter lays out text, and settings that only an application reads when it runs.
//
// A tool has all names and formats that it reads, those that pin its versions, and those that say what it ignores. TestSensitiveNames has a row for each.
var SensitiveRules = []SensitiveRule{
	{"GitHub", SensitiveWorkflow, []string{".github/", "action.yml", "action.yaml", "CODEOWNERS", "OWNERS"}},
	{"GitLab", SensitiveWorkflow, []string{".gitlab-ci.yml", ".gitlab-ci.yaml", "*.gitlab-ci.yml", "*.gitlab-ci.yaml", ".gitlab/", ".gitlab-ci/"}},
	{"Gitea, Forgejo", SensitiveWorkflow, []string{".gitea/", ".forgejo/"}},
	{"Gerrit, Phabricator, Chromium", SensitiveWorkflow, []string{
		".gitreview", ".arcconfig", ".arclint", ".arcunit", "codereview.settings", "PRESUBMIT.py", "DEPS", ".gclient",
	}},
	{"CircleCI", SensitiveWorkflow, []string{".circleci/", "circle.yml"}},
	{"Travis CI", SensitiveWorkflow, []string{".travis.yml", ".travis.yaml", ".travis/"}},
	{"Azure Pipelines", SensitiveWorkflow, []string{
		"azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines/", ".azuredevops/", ".pipelines/", ".vsts-ci.yml",
	}},
	{"Jenkins", SensitiveWorkflow, []string{"Jenkinsfile", "Jenkinsfile.*", "Jenkinsfile-*", "*.jenkinsfile"}},
	{"Drone, Woodpecker, Vela", SensitiveWorkflow, []string{
		".drone.yml", ".drone.yaml", ".drone.jsonnet", ".drone.star", ".woodpecker/", ".woodpecker.yml", ".woodpecker.yaml", ".vela/", ".vela.yml",
		".vela.yaml",
	}},
	{"Buildkite", SensitiveWorkflow, []string{".buildkite/", "buildkite.yml", "buildkite.yaml", "buildkite.json"}},
	{"Bitbucket", SensitiveWorkflow, []string{"bitbucket-pipelines.yml", "bitbucket-pipelines.yaml"}},
	{"AppVeyor", SensitiveWorkflow, []string{"appveyor.yml", "appveyor.yaml", ".appveyor.yml", ".appveyor.yaml", ".appveyor/"}},
	{"Cirrus CI", SensitiveWorkflow, []string{".cirrus.yml", ".cirrus.yaml", ".cirrus.star"}},
	{"Cloud Build, CodeBuild", SensitiveWorkflow, []string{
		"cloudbuild*.yml", "cloudbuild*.yaml", "cloudbuild*.json", "buildspec*.yml", "buildspec*.yaml", "appspec.yml", "appspec.yaml",
	}},
	{"Codemagic, Bitrise, Xcode Cloud", SensitiveWorkflow, []string{
		"codemagic.yaml", "codemagic.yml", "bitrise.yml", "bitrise.yaml", ".bitrise.yml", ".bitrise/", "ci_scripts/",
	}},
	{"SourceHut", SensitiveWorkflow, []string{".build.yml", ".build.yaml", ".builds/"}},
	{"TeamCity, Semaphore, Space, Harness", SensitiveWorkflow, []string{".teamcity/", ".semaphore/", ".space.kts", ".harness/", ".onedev-buildspec.yml"}},
	{"Tekton, Prow, Zuul, Taskcluster", SensitiveWorkflow, []string{
		".tekton/", ".prow/", ".prow.yaml", ".ci-operator.yaml", ".zuul.yaml", ".zuul.d/", "zuul.yaml", "zuul.d/", ".taskcluster.yml", ".spacelift/",
		".expeditor/", "*.gocd.yaml", "*.gocd.json", "screwdriver.yaml", ".evergreen.yml",
	}},
	{"Packit, Copr, JitPack", SensitiveWorkflow, []string{
		".packit.yaml", ".packit.yml", ".packit.json", "packit.yaml", "packit.yml", "packit.json", ".copr/", ".fmf/", "jitpack.yml",
	}},
	{"Wercker, Shippable, Codeship", SensitiveWorkflow, []string{
		"wercker.yml", "shippable.yml", "codeship-steps.yml", "codeship-services.yml", "codeship-steps.json",
	}},
	{"Read the Docs", SensitiveWorkflow, []string{".readthedocs.yml", ".readthedocs.yaml", "readthedocs.yml", "readthedocs.yaml"}},
	{"services that update, merge and check", SensitiveWorkflow, []string{
		"renovate.json", "renovate.json5", ".renovaterc", ".renovaterc.*", ".mergify.yml", ".mergify/", ".kodiak.toml", "bors.toml", "codecov.yml",
		"codecov.yaml", ".codecov.yml", ".codecov.yaml", ".coveralls.yml", ".codeclimate.yml", ".codeclimate.json", ".codacy.yml", ".codacy.yaml",
		".scrutinizer.yml", ".styleci.yml", ".lgtm.yml", "lgtm.yml", "sonar-project.properties", ".sonarcloud.properties", ".snyk", ".whitesource",
		".deepsource.toml", ".clusterfuzzlite/", "atlantis.yaml", "release-please-config.json", ".release-please-manifest.json",
	}},
	{"Netlify, Vercel, Heroku, Render, Fly", SensitiveWorkflow, []string{
		"netlify.toml", ".netlify/", "_redirects", "_headers", "vercel.json", "vercel.ts", "now.json", ".vercel/", "Procfile", "Procfile.*", "app.json",
		"heroku.yml", ".buildpacks", "Aptfile", "system.properties", "runtime.txt", "render.yaml", "fly.toml", "fly.*.toml", ".slugignore", ".vercelignore",
		".nowignore",
	}},
	{"other hosting services", SensitiveWorkflow, []string{
		"wrangler.toml", "wrangler.json", "wrangler.jsonc", ".dev.vars", "firebase.json", ".firebaserc", "railway.json", "railway.toml", "nixpacks.toml",
		"nixpacks.json", "railpack.json", "project.toml", "koyeb.yaml", ".do/", "captain-definition", ".platform.app.yaml", ".platform/", ".upsun/",
		"static.json", "staticwebapp.config.json", "azure.yaml", "host.json", "local.settings.json", "app.yaml", "cron.yaml", "dispatch.yaml", ".gcloudignore",
		".funcignore", "manifest.yml", ".cfignore", ".ebextensions/", ".elasticbeanstalk/", ".ebignore", "Dockerrun.aws.json", "amplify.yml", "samconfig.*",
		"template.yaml", "template.yml", "supabase/config.toml", "scalingo.json",
	}},
	{"web servers", SensitiveWorkflow, []string{
		".htaccess", ".htpasswd", "web.config", "Caddyfile", "traefik.yml", "traefik.yaml", "traefik.toml", "supervisord.conf",
	}},
	{"Gitpod, Replit, IDX, StackBlitz, CodeSandbox, Binder", SensitiveWorkflow, []string{
		".gitpod.yml", ".gitpod/", ".ona/", ".replit", "replit.nix", ".idx/", ".stackblitzrc", ".stackblitz/", ".codesandbox/", "sandbox.config.json",
		"glitch.json", ".binder/", "binder/start", "postBuild", "apt.txt", "devfile.yaml", ".devfile.yaml", ".che/",
	}},

	{"git", SensitiveHook, []string{".gitmodules", ".gitattributes", ".gitconfig", ".gitconfig.*", ".gitconfig-*", ".lfsconfig", ".githooks/", ".git-hooks/"}},
	{"Mercurial, Jujutsu, Sapling", SensitiveHook, []string{
		".hg/", ".hgrc", "hgrc", ".hgsub", ".hgsubstate", ".hgeol", ".hgignore", ".jj/", ".jjconfig.toml", ".sl/",
	}},
	{"Subversion, Bazaar, Darcs, Pijul, Fossil, Perforce", SensitiveHook, []string{
		".svn/", ".bzr/", ".bzrignore", "_darcs/", ".pijul/", ".fslckout", "_FOSSIL_", ".fossil-settings/", ".p4config", ".p4ignore", "p4config.txt", ".repo/",
	}},
	{"Husky", SensitiveHook, []string{".husky/", ".huskyrc", ".huskyrc.*", "husky.config.*"}},
	{"Lefthook", SensitiveHook, []string{"lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*", ".lefthook/", ".lefthook-local/"}},
	{"pre-commit", SensitiveHook, []string{".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", "prek.toml", ".pre-commit-search-dir"}},
	{"Overcommit, simple-git-hooks, lint-staged", SensitiveHook, []string{
		".overcommit.yml", ".local-overcommit.yml", ".simple-git-hooks.*", "simple-git-hooks.*", ".lintstagedrc", ".lintstagedrc.*", "lint-staged.config.*",
	}},
	{"commitlint, Commitizen, gitlint and other hook runners", SensitiveHook, []string{
		".commitlintrc", ".commitlintrc.*", "commitlint.config.*", ".czrc", ".cz.*", "cz.toml", "cz.json", "cz.yaml", ".cz-config.*", ".gitlint", "cog.toml",
		"hk.pkl", ".rusty-hook.toml", ".cargo-husky/", "captainhook.json", "grumphp.yml", "grumphp.yml.dist", "grumphp.dist.yml", ".trunk/",
	}},
	{"direnv, mise, asdf, devbox", SensitiveHook, []string{
		".envrc", ".direnvrc", ".mise/", "mise/config.toml", "mise/conf.d/", ".mise.*", "mise.toml", "mise.*.toml", "mise.lock", ".rtx.toml", ".rtx.*.toml",
		".tool-versions", ".asdfrc", "devbox.json", "devbox.lock", ".flox/", "devenv.nix", "devenv.yaml", "devenv.lock", "devenv.local.nix", "devshell.toml",
		".shadowenv.d/", ".prototools", "aftman.toml", "rokit.toml", "foreman.toml", "hermit.hcl", "pixi.toml", "pixi.lock", ".pixi/", "Brewfile",
	}},
	{"autoenv and what enters a directory", SensitiveHook, []string{
		".env", ".env.*", ".env-*", ".flaskenv", ".autoenv", ".autoenv.*", ".autoenv_*", ".rvmrc", ".ruby-gemset", ".rbenv-vars", ".versions.conf", ".smartcd/",
		".in", ".out",
	}},
	{"version managers", SensitiveHook, []string{".*-version", ".nvmrc", ".sdkmanrc", ".fvmrc", ".fvm/", ".dvmrc", ".xcode.env", ".xcode.env.local"}},
	{"shells", SensitiveHook, []string{
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".profile.d/", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
		".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", "config.fish", ".xonshrc", ".ssh/", ".netrc", "_netrc", ".curlrc", "_curlrc",
		".wgetrc", "profile.ps1", "Microsoft.*_profile.ps1",
	}},
	{"tmux, screen and process runners", SensitiveHook, []string{
		".tmux.conf", ".screenrc", ".tmuxinator.yml", ".tmuxinator.yaml", ".tmuxp.*", ".smug.yml", "mprocs.yaml", "mprocs.json", "process-compose.*",
		".overmind.env", ".foreman",
	}},
	{"Nix, Guix", SensitiveHook, []string{
		"flake.nix", "flake.lock", "shell.nix", "default.nix", "release.nix", "npins/", "nix/sources.json", "garnix.yaml", "guix.scm", "manifest.scm",
		"channels.scm", ".guix-channel",
	}},
	{"Visual Studio Code", SensitiveHook, []string{".vscode/", "*.code-workspace", ".vscodeignore", ".theia/"}},
	{"Dev Containers", SensitiveHook, []string{".devcontainer/", ".devcontainer.json", "devcontainer.json"}},
	{"JetBrains", SensitiveHook, []string{".idea/", ".run/", ".fleet/", "*.iml", "*.ipr", "*.iws"}},
	{"Vim, Neovim", SensitiveHook, []string{
		".nvim.lua", ".nvimrc", ".nvim/", ".exrc", "_exrc", ".vimrc", "_vimrc", ".gvimrc", ".vimrc.*", ".local.vimrc", ".lvimrc", ".vim/", ".lazy.lua",
		".vimspector.json", ".neoconf.json", ".nlsp-settings/", ".ycm_extra_conf.py", ".projections.json",
	}},
	{"Emacs", SensitiveHook, []string{
		".dir-locals.el", ".dir-locals-2.el", ".projectile", ".emacs", ".emacs.d/", ".dir-config.el", "*.elc", "Eldev", "Eldev-local", "Eask", "Cask", "Keg",
	}},
	{"other editors", SensitiveHook, []string{
		".zed/", ".vs/", "*.sublime-project", "*.sublime-workspace", "*.sublime-build", ".helix/", ".kateproject", ".kateproject.*", ".kateconfig", "*.kdev4",
		".kdev4/", "*.pro.user", "CMakeLists.txt.user", ".atom/", ".nova/", ".lapce/", ".kak/", "*.cbp", ".lsp.json",
	}},
	{"Eclipse, NetBeans", SensitiveHook, []string{
		".project", ".classpath", ".cproject", ".factorypath", ".settings/", ".externalToolBuilders/", "*.launch", "nbproject/", "nb-configuration.xml",
		"nbactions.xml", "nbactions-*.xml", ".bsp/",
	}},
	{"Xcode", SensitiveHook, []string{"*.xcodeproj/", "*.xcworkspace/", "*.xcconfig", "*.xctestplan", ".swiftpm/"}},
	{"Windows, by short names", SensitiveHook, []string{"*~[1-9]", "*~[1-9].*", "*~[1-9]/"}},
	{"file managers", SensitiveHook, []string{"desktop.ini", "autorun.inf", ".directory", "*.lnk", "*.url", "*.scf", "*.library-ms", "*.searchConnector-ms"}},
	{"debuggers", SensitiveHook, []string{
		".gdbinit", "gdbinit", "*-gdb.py", "*-gdb.gdb", "*-gdb.scm", ".lldbinit", ".lldbinit-*", ".dbxrc", ".radare2rc", ".valgrindrc", ".pdbrc", ".pdbrc.py",
		".byebugrc", ".rdbgrc", ".rdbgrc.rb", ".rdebugrc", ".perldb",
	}},
	{"search and tag tools", SensitiveHook, []string{
		".ignore", ".rgignore", ".fdignore", ".agignore", ".ackrc", ".ripgreprc", ".ctags", ".ctags.d/", "gtags.conf", ".globalrc", ".watchmanconfig",
	}},
	{"agents", SensitiveHook, []string{
		".claude/", ".claude.json", ".claude-plugin/", "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.*.md", "AGENT.md", ".agent.md", ".agents/",
		".agent/", "SKILL.md", ".cursor/", ".cursorrules", ".cursor-plugin/", ".cursorignore", ".cursorindexingignore", ".mcp.json", "mcp.json", ".mcp/",
		"mcp_config.json", "mcp-config.json", ".windsurf/", ".windsurf*", ".codeium/", ".codeiumignore", ".clinerules", ".clinerules/", ".clinerules-*",
		".clineignore", ".cline/", ".roo/", ".roorules", ".roorules-*", ".roomodes", ".rooignore", ".kilocode/", ".kilocodemodes", ".kilocoderules",
		".kilocodeignore", ".codex/", "codex.md", ".gemini/", "GEMINI.md", ".geminiignore", ".continue/", ".continuerc.json", ".continuerules",
		".continueignore", ".aider*", ".aider*/", ".github/copilot-instructions.md", ".github/instructions/", ".github/prompts/", ".github/chatmodes/",
		".github/agents/", ".github/skills/", ".github/hooks/", ".copilot/", ".copilotignore", ".opencode/", "opencode.json", "opencode.jsonc", ".crush/",
		"crush.json", ".crush.json", "CRUSH.md", ".crushignore", ".amp/", ".amp*", ".goose/", ".goose*", ".kiro/", ".amazonq/", "AmazonQ.md", ".junie/",
		".aiassistant/", ".aiignore", ".aiexclude", ".noai", ".qwen/", "QWEN.md", ".qwenignore", ".trae/", "WARP.md", ".warp/", ".warpindexingignore",
		".augment/", ".augment-guidelines", ".augmentignore", ".factory/", ".openhands/", ".openhands_instructions", ".devin/", ".tabnine/", ".zencoder/",
		".qodo/", ".pr_agent.toml", ".coderabbit.yml", ".coderabbit.yaml", "greptile.json", "ellipsis.yaml", "sweep.yaml", ".cody/", ".sourcegraph/", ".rules",
		"replit.md", ".bolt/", "airules.md", ".jules/", "JULES.md", ".ruler/", ".specify/", ".taskmaster/", ".serena/", ".grok/", "GROK.md", ".iflow/",
		"IFLOW.md", ".codebuddy/", "CODEBUDDY.md", ".lingma/", ".comate/", ".qoder/", ".rovodev/", ".vibe/", ".kimi/", ".pi/", ".antigravity/", ".firebender/",
		"firebender.json", "gptme.toml", ".mentat_config.json", ".plandex/", ".forge/", "conductor.json", ".voidrules",
	}},

	{"npm", SensitiveScript, []string{
		"package.json", "package.json5", "package.yaml", ".npmrc", ".npmignore", "binding.gyp", "*.gypi", "package-lock.json", "npm-shrinkwrap.json",
		"node_modules/",
	}},
	{"pnpm", SensitiveScript, []string{".pnpmfile.*", "pnpmfile.*", "pnpm-workspace.yaml", "pnpm-lock.yaml"}},
	{"Yarn", SensitiveScript, []string{".yarnrc", ".yarnrc.yml", ".yarn/", ".yarnclean", ".pnp.*", "yarn.config.*", "yarn.lock"}},
	{"Bun, Deno", SensitiveScript, []string{
		"bunfig.toml", ".bunfig.toml", "bun.lock", "bun.lockb", "deno.json", "deno.jsonc", "deno.lock", "import_map.json", "importmap.json",
	}},
	{"JavaScript tools", SensitiveScript, []string{
		"*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "*.config.cts", "*.config.mts", "*.config.json", "*.conf.js", "*.conf.cjs", "*.conf.mjs",
		"*.conf.ts", "*.conf.cts", "*.conf.mts", "*.conf.json", ".*rc.js", ".*rc.cjs", ".*rc.mjs", ".*rc.ts", ".*rc.cts", ".*rc.mts", ".*rc.json", ".*rc.json5",
		".*rc.jsonc", ".*rc.yml", ".*rc.yaml", ".*rc.toml",
	}},
	{"Prettier, ESLint, stylelint and other linters", SensitiveScript, []string{
		".prettierrc", ".prettierrc.*", "prettier.config.*", ".prettierignore", ".eslintrc", ".eslintrc.*", "eslint.config.*", ".eslintignore", ".stylelintrc",
		".stylelintrc.*", "stylelint.config.*", ".stylelintignore", "biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc", "rome.json", "dprint.json",
		"dprint.jsonc", ".dprint.json", ".dprint.jsonc", "oxlint.json", "tslint.json", "tslint.yaml", ".jshintrc", ".jscsrc", ".xo-config", ".xo-config.*",
		".flowconfig", ".hintrc", ".htmlhintrc", ".remarkrc", ".remarkignore", ".textlintrc", ".alexrc", ".markdownlint.*", ".markdownlint-cli2.*",
		".markdownlintrc", ".markdownlintignore", ".cspell.*", "cspell.*", ".depcheckrc", ".knip.*", "knip.*", ".syncpackrc", ".dependency-cruiser.*",
		".npmpackagejsonlintrc", ".ls-lint.yml", ".size-limit", ".size-limit.*",
	}},
	{"Babel, PostCSS, Tailwind, TypeScript", SensitiveScript, []string{
		".babelrc", ".babelrc.*", "babel.config.*", ".babel-plugin-macrosrc", ".postcssrc", ".postcssrc.*", "postcss.config.*", "tailwind.config.*", ".swcrc",
		".svgrrc", ".browserslistrc", "browserslist", "tsconfig*.json", "jsconfig*.json", ".tern-project", ".parcelrc", ".graphqlrc", ".graphqlrc.*",
		"graphql.config.*", ".graphqlconfig", "codegen.yml", "codegen.yaml", "codegen.ts", "openapitools.json",
	}},
	{"webpack, Vite, Rollup and other bundlers", SensitiveScript, []string{
		"webpack.config.*", "webpack.*.js", "webpack.*.cjs", "webpack.*.mjs", "webpack.*.ts", "webpackfile.*", ".webpack/", "vite.config.*", "rollup.config.*",
		"esbuild.config.*", "metro.config.*", "ng-package.json", ".umirc.*", "electron-builder.*", "electron-webpack.json", ".eleventy.js", "gatsby-*.js",
		"gatsby-*.ts", "gatsby-*.mjs", ".storybook/", ".ladle/", ".vuepress/", ".vitepress/", "setupProxy.js", "setupProxy.ts",
	}},
	{"Jest, Vitest, Mocha, Playwright, Cypress and other test runners", SensitiveScript, []string{
		"jest.config.*", "setupTests.*", "vitest.config.*", "vitest.workspace.*", "vitest.projects.*", ".mocharc", ".mocharc.*", "mocha.opts", ".nycrc",
		".c8rc", ".taprc", "jasmine.*", "playwright.config.*", "cypress.config.*", "cypress.json", "cypress.env.json", "cypress/support/", "cypress/plugins/",
		"karma.conf.*", "wdio.conf.*", "protractor.conf.*", "nightwatch.conf.*", "nightwatch.json", "codecept.conf.*", "testem.*", ".testem.*", ".testcaferc",
		"wallaby.*", ".wallaby.*", "backstop.json", ".percy.*", ".pa11yci", ".lighthouserc", "lighthouserc.*", ".puppeteerrc", "stryker.conf.*",
		".stryker.conf.*", ".maestro/",
	}},
	{"Grunt, Gulp, Nx, Turborepo, Lerna, Rush and other task runners", SensitiveScript, []string{
		"Gruntfile", "Gruntfile.*", "Gulpfile", "Gulpfile.*", "Gulpfile.js/", "Gulpfile.ts/", "Jakefile", "Jakefile.*", "Cakefile", "Brocfile.*",
		"brunch-config.*", "package-scripts.*", "nodemon.json", ".nodemon.json", "nx.json", "nx-cloud.env", ".nx/", "project.json", "workspace.json",
		"workspace.jsonc", "turbo.json", "turbo.jsonc", "lerna.json", "rush.json", "common/config/rush/", "common/git-hooks/", "heft.json", "moon.yml",
		".moon/", "bit.json", "plopfile.*", ".hygen.js", ".projenrc.*", ".release-it.*", ".releaserc", "release.config.*", ".np-config.*", ".versionrc",
		".auto-changelog", ".autorc", ".changeset/config.json", ".bowerrc", "bower.json", ".ncurc", ".nsprc",
	}},
	{"Angular, Ember, Nest, Expo, Cordova, Ionic", SensitiveScript, []string{
		"angular.json", ".angular-cli.json", "ember-cli-build.*", ".ember-cli", ".ember-cli.*", "nest-cli.json", "eas.json", "config.xml", "capacitor.config.*",
		"ionic.config.*", "quasar.conf.*", "bsconfig.json", "rescript.json",
	}},
	{"Prisma, Knex, Sequelize", SensitiveScript, []string{"schema.prisma", "knexfile", "knexfile.*", ".sequelizerc", "ormconfig.*", "migrate-mongo-config.*"}},
	{"Python", SensitiveScript, []string{
		"setup.py", "setup.cfg", "pyproject.toml", "conftest.py", "hatch_build.py", "hatch.toml", "poetry.toml", "uv.toml", "pdm.toml", ".pdm.toml",
		".pdm-python", "MANIFEST.in", "buildout.cfg", "pip.conf", "pip.ini", "pydistutils.cfg", ".pydistutils.cfg", ".pypirc", "sitecustomize.py",
		"usercustomize.py", "*.pth", "*.egg-link", "__pycache__/", "*.pyc", ".venv/", "venv/", "pyvenv.cfg",
	}},
	{"pip, Pipenv, Poetry, uv, PDM, conda", SensitiveScript, []string{
		"requirements*.txt", "requirements*.in", "requirements/*.txt", "requirements/*.in", "constraints*.txt", "Pipfile", "Pipfile.lock", "poetry.lock",
		"uv.lock", "pdm.lock", "pylock.toml", "pylock.*.toml", "environment*.yml", "environment*.yaml", "conda-lock.yml", "meta.yaml", "recipe.yaml",
		"conda_build_config.yaml", "anaconda-project.yml", "condarc", ".condarc",
	}},
	{"tox, nox, pytest, coverage and other test runners", SensitiveScript, []string{
		"tox.ini", "tox.toml", "noxfile.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "unittest.cfg", "nose.cfg", ".nose.cfg",
		".noserc", ".stestr.conf", ".testr.conf", "behave.ini", ".behaverc", "features/environment.py", "locustfile.py", "robot.toml",
	}},
	{"mypy, pylint, flake8, Ruff and other checkers", SensitiveScript, []string{
		"mypy.ini", ".mypy.ini", "pylintrc", ".pylintrc", "pylintrc.toml", ".pylintrc.toml", ".flake8", "ruff.toml", ".ruff.toml", ".isort.cfg", ".style.yapf",
		".pycodestyle", ".pydocstyle", ".pydocstyle.ini", "pyrightconfig.json", "pyrefly.toml", "ty.toml", ".pyre_configuration", ".pyre_configuration.local",
		"pytype.cfg", ".bandit", "bandit.yaml", "bandit.yml", ".sourcery.yaml", ".prospector.yaml", ".prospector.yml",
	}},
	{"invoke, Fabric, doit, SCons, Waf", SensitiveScript, []string{
		"tasks.py", "invoke.yaml", "invoke.yml", "invoke.json", "invoke.py", "fabfile.py", "fabfile/", "fabric.yaml", "fabric.yml", "fabric.json", "dodo.py",
		"doit.cfg", "pavement.py", "duties.py", "poe_tasks.*", "SConstruct", "SConstruct.*", "SConscript", "site_scons/", "wscript", "wscript_build",
	}},
	{"Sphinx, MkDocs, Jupyter, IPython", SensitiveScript, []string{
		"conf.py", "mkdocs.yml", "mkdocs.yaml", "jupyter_*config.py", "jupyter_*config.json", "ipython_config.py", ".ipython/", ".jupyter/", "_config.yml",
		"_toc.yml",
	}},
	{"Gunicorn, Celery, Alembic, Scrapy, dbt, DVC, Snakemake", SensitiveScript, []string{
		"gunicorn.conf.py", "celeryconfig.py", "alembic.ini", "alembic/env.py", "migrations/env.py", "scrapy.cfg", "dbt_project.yml", "profiles.yml",
		"packages.yml", "dependencies.yml", ".sqlfluff", ".sqlfluffignore", "dvc.yaml", "dvc.lock", ".dvc/", "MLproject", "Snakefile", "nextflow.config",
		"airflow.cfg", "luigi.cfg", "prefect.yaml", "meltano.yml",
	}},
	{"Rust", SensitiveScript, []string{
		"build.rs", "Cargo.toml", "Cargo.lock", ".cargo/", "rust-toolchain", "rust-toolchain.toml", "clippy.toml", ".clippy.toml", "deny.toml",
		"supply-chain/*.toml", "Cross.toml", "Xargo.toml", "Trunk.toml", "Dioxus.toml", "tauri.conf.*", "Tauri.toml", "bacon.toml", "tarpaulin.toml",
		".tarpaulin.toml", "Embed.toml", ".embed.toml", "release.toml", "release-plz.toml", ".release-plz.toml", "dist-workspace.toml", "diesel.toml",
	}},
	{"Go", SensitiveScript, []string{
		"go.mod", "go.sum", "go.work", "go.work.sum", "vendor/modules.txt", "magefile.go", "magefiles/", "*.syso", "default.pgo", ".golangci.*",
		".goreleaser.*", "goreleaser.*", "staticcheck.conf", ".revive.toml", ".air.toml", ".air.conf", ".realize.yaml", "modd.conf", ".mockery.*",
		"mockery.yaml", "mockery.yml", "gqlgen.yml", "sqlc.yaml", "sqlc.yml", "sqlc.json", ".ko.yaml", "wails.json",
	}},
	{"buf", SensitiveScript, []string{"buf.yaml", "buf.lock", "buf.gen.yaml", "buf.gen.*.yaml", "buf.work.yaml"}},
	{"make, Meson, CMake, autotools, Ninja", SensitiveScript, []string{
		"Makefile", "GNUmakefile", "BSDmakefile", "Makefile.*", "GNUmakefile.*", "*.mk", "*.mak", "*.make", ".depend", "Kbuild", "Kconfig", "Kconfig.*",
		"CMakeLists.txt", "*.cmake", "CMakePresets.json", "CMakeUserPresets.json", "CMakeSettings.json", "cmake-kits.json", "cmake-variants.*", ".cmake-format",
		".cmake-format.*", "cmake-format.*", "meson.build", "meson.options", "meson_options.txt", "*.wrap", "configure", "configure.ac", "configure.in",
		"config.guess", "config.sub", "config.rpath", "config.site", "install-sh", "ltmain.sh", "depcomp", "missing", "compile", "test-driver", "ylwrap",
		"mkinstalldirs", "build-aux/", "autogen.sh", "bootstrap", "bootstrap.sh", "buildconf", "*.m4", "*.ninja",
	}},
	{"Conan, vcpkg, xmake, Premake, Tup, Jam, qmake, Qbs", SensitiveScript, []string{
		"conanfile.py", "conanfile.txt", "conandata.yml", "conan.lock", "vcpkg.json", "vcpkg-configuration.json", "xmake.lua", "premake.lua", "premake4.lua",
		"premake5.lua", "Tupfile", "Tupfile.*", "Tuprules.*", "Jamfile", "Jamfile.*", "Jamroot", "Jamroot.*", "Jamrules", "*.jam", "*.pro", "*.pri", "*.prf",
		".qmake.conf", "*.qbs",
	}},
	{"clangd, clang-tidy, ccls", SensitiveScript, []string{".clangd", ".clang-tidy", "compile_commands.json", "compile_flags.txt", ".ccls", ".cquery"}},
	{"Doxygen, LaTeX, Quarto, mdBook, Jekyll, Hugo, Antora", SensitiveScript, []string{
		"Doxyfile", "Doxyfile.*", ".latexmkrc", "latexmkrc", ".arararc", "arara.yaml", "build.lua", "_quarto.yml", "_quarto.yaml", "_quarto-*.yml", "book.toml",
		"_plugins/", "_config.*.yml", "hugo.toml", "hugo.yaml", "hugo.yml", "hugo.json", "config/_default/", "antora.yml", "antora-playbook.yml", "docfx.json",
	}},
	{"just, Task, Earthly, Dagger", SensitiveScript, []string{
		"justfile", ".justfile", "*.just", "Taskfile", "Taskfile.*", "Earthfile", "dagger.json", ".dagger/", "maskfile.md", "Runfile", "tusk.yml", "batect.yml",
		"Sakefile", "Bakefile", ".treefmt.toml", "treefmt.toml", ".mega-linter.yml", ".megalinter.yml",
	}},
	{"containers", SensitiveScript, []string{
		"Dockerfile", "Dockerfile.*", "Dockerfile-*", "*.Dockerfile", ".dockerignore", "*.dockerignore", ".docker/", "Containerfile", "Containerfile.*",
		"Containerfile-*", "*.Containerfile", ".containerignore", "compose*.yml", "compose*.yaml", "docker-compose*.yml", "docker-compose*.yaml",
		"podman-compose*.yml", "podman-compose*.yaml", "docker-bake.*", "docker-entrypoint-initdb.d/", ".hadolint.yml", ".hadolint.yaml", "Tiltfile",
		"*.tiltfile", "tilt_config.json", "skaffold.yaml", "skaffold.yml", "devspace.yaml", "garden.yml", "okteto.yml", "okteto.yaml", "werf.yaml",
		"Vagrantfile", ".vagrant/", ".lando.yml", ".lando.*.yml", ".ddev/", ".docksal/",
	}},
	{"Bazel, Buck, Pants, GN, Please", SensitiveScript, []string{
		"BUILD", "*.bazel", "WORKSPACE", "WORKSPACE.bzlmod", "MODULE.bazel.lock", "*.bzl", ".bazelrc", "*.bazelrc", ".bazelversion", ".bazeliskrc",
		".bazelignore", ".bazelproject", ".bazelbsp/", "tools/bazel", "tools/bazel.*", ".aspect/", "BUCK", "BUCK.v2", "TARGETS", "*.bxl", ".buckconfig",
		".buckconfig.*", ".buckconfig.d/", ".buckversion", ".buckroot", "pants.toml", "pants.*.toml", ".pants.rc", ".pants.bootstrap", ".pants.env",
		"BUILD.pants", "BUILD.tools", "BUILD.plz", ".plzconfig", ".plzconfig.*", ".gn", "*.gn", "*.gni",
	}},
	{"Maven, Gradle, Ant, sbt", SensitiveScript, []string{
		"pom.xml", "pom.groovy", "pom.yml", "pom.yaml", "pom.scala", "pom.clj", ".mvn/", "mvnw", "mvnw.cmd", "*.gradle", "*.gradle.kts", "*.gradle.dcl",
		"gradle.properties", "local.properties", "gradlew", "gradlew.bat", "gradle/wrapper/", "gradle/init.d/", "gradle/*.toml", "gradle/*.xml",
		"gradle/*.properties", ".gradle/", "buildSrc/", "build-logic/", "*.versions.toml", "build.xml", "build.properties", "ivy.xml", "ivysettings.xml",
		"lombok.config", "junit-platform.properties", "META-INF/services/", "jreleaser.*", "jbang-catalog.json", "buildfile",
	}},
	{"sbt, Mill, Scala", SensitiveScript, []string{
		"build.sbt", "*.sbt", "project/*.scala", "project/*.sbt", "project/build.properties", "project/project/", ".sbt/", ".sbtopts", ".jvmopts", ".jvm-opts",
		"build.sc", "*.mill", "*.mill.yaml", ".mill-*", "mill", "mill.bat", "millw", ".scalafmt.conf", ".scalafix.conf", "scalastyle-config.xml",
		"project.scala", ".scala-build/", ".bloop/", ".metals/",
	}},
	{"Clojure", SensitiveScript, []string{
		"project.clj", "profiles.clj", "deps.edn", "shadow-cljs.edn", "bb.edn", "nbb.edn", "squint.edn", "build.clj", "build.boot", "boot.properties",
		"user.clj", "user.cljs", "user.cljc", "data_readers.clj", "data_readers.cljc", "tests.edn", "figwheel-main.edn", "*.cljs.edn", ".nrepl.edn", ".nrepl.*",
		".clj-kondo/", ".lsp/", ".calva/", ".lein-*",
	}},
	{".NET", SensitiveScript, []string{
		"*.*proj", "*.projitems", "*.props", "*.targets", "*.tasks", "*.rsp", "*.sln", "*.slnx", "*.slnf", "*.user", "*.pubxml", "*.nuspec", "*.ruleset",
		"*.runsettings", "*.testsettings", "nuget.config", "global.json", "dotnet-tools.json", "packages.config", "packages.lock.json", "app.config",
		"launchSettings.json", "runtimeconfig.template.json", "xunit.runner.json", "stylecop.json", ".editorconfig", ".globalconfig", "*.globalconfig",
		"omnisharp.json", ".omnisharp/",
	}},
	{"Paket, Cake, NUKE, FAKE, PowerShell", SensitiveScript, []string{
		"paket.*", "*.cake", "cake.config", ".nuke/", "build.fsx", "psakefile.ps1", "*.build.ps1", "PSScriptAnalyzerSettings.psd1", "chocolateyInstall.ps1",
		"chocolateyUninstall.ps1",
	}},
	{"Ruby", SensitiveScript, []string{
		"Gemfile", "Gemfile.lock", "gems.rb", "gems.locked", "*.gemspec", ".bundle/", "Rakefile", "Rakefile.rb", "*.rake", ".rspec", ".rspec-local", ".irbrc",
		"_irbrc", ".pryrc", "extconf.rb", "mkrf_conf.rb", "Guardfile", ".Guardfile", "Capfile", "config.ru", "config/puma.rb", "config/spring.rb",
		"config/deploy.rb", "config/deploy.yml", ".kamal/", "Thorfile", "*.thor", "Dangerfile", "Dangerfile.*", "Appraisals", "Steepfile", "Mintfile", ".powrc",
		".powenv", "cucumber.yml", "features/support/", "features/step_definitions/", ".simplecov", ".yardopts", ".rdoc_options", ".autotest",
		".solargraph.yml", "sorbet/config",
	}},
	{"RuboCop, Standard, Reek and other checkers", SensitiveScript, []string{
		".rubocop", ".rubocop.yml", ".rubocop_todo.yml", ".rubocop-*.yml", ".standard.yml", ".reek.yml", ".reek", ".erb_lint.yml", ".erb-lint.yml",
		".haml-lint.yml", ".slim-lint.yml", ".mdlrc",
	}},
	{"Perl", SensitiveScript, []string{
		".proverc", "Makefile.PL", "Build.PL", "cpanfile", "cpanfile.snapshot", "dist.ini", "weaver.ini", "minil.toml", "alienfile", "Rexfile", ".perltidyrc",
		"perltidy.ini", ".perlcriticrc", ".replyrc", ".re.pl/",
	}},
	{"PHP", SensitiveScript, []string{
		"composer.json", "composer.lock", "auth.json", "symfony.lock", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "Pest.php", "phpspec.yml",
		"phpspec.yml.dist", ".phpspec.yml", "behat.*", "codeception.yml", "codeception.yaml", "codeception.dist.yml", "infection.json", "infection.json5",
		"infection.json.dist", "infection.json5.dist", "phpbench.json", "phpbench.json.dist", "phinx.*", "RoboFile.php", "deploy.php", "castor.php", ".castor/",
		"box.json", "box.json.dist", "phive.xml", ".phive/", "php.ini", ".user.ini", "wp-cli.yml", "wp-cli.local.yml", ".psysh.php", ".symfony.*",
		"Envoy.blade.php",
	}},
	{"PHPStan, Psalm, PHP-CS-Fixer and other checkers", SensitiveScript, []string{
		"phpstan.*", "phpstan-*.neon", "psalm.xml", "psalm.xml.dist", ".php-cs-fixer.*", ".php_cs", ".php_cs.*", "phpcs.xml", "phpcs.xml.dist", ".phpcs.xml",
		".phpcs.xml.dist", "phpcs.ruleset.xml", "phpmd.xml", "ecs.php", "rector.php", "pint.json", "tlint.json", "deptrac.yaml", "deptrac.yml", ".phan/",
		".phpactor.json", ".phpactor.yml", "phpdoc.xml", "phpdoc.dist.xml",
	}},
	{"Elixir, Erlang, Gleam", SensitiveScript, []string{
		"mix.exs", "mix.lock", ".iex.exs", ".formatter.exs", ".credo.exs", ".dialyzer_ignore.exs", ".doctor.exs", ".recode.exs", ".check.exs", ".sobelow-conf",
		"coveralls.json", "config/*.exs", "test_helper.exs", "rel/*.eex", "rebar.config", "rebar.config.script", "rebar.lock", ".erlang", "Emakefile",
		"relx.config", "sys.config", "sys.config.src", "vm.args", "vm.args.src", "elvis.config", "*.app.src", "*.app.src.script", "erlang_ls.config",
		"erlang_ls.yaml", "gleam.toml",
	}},
	{"Haskell, PureScript, Elm, Lean, Coq, Agda", SensitiveScript, []string{
		"Setup.hs", "Setup.lhs", "*.cabal", "cabal.project", "cabal.project.*", "cabal.config", "stack.yaml", "stack.yaml.lock", ".ghci", ".ghcid",
		".ghc.environment.*", "hie.yaml", ".hlint.yaml", "Shakefile.hs", "spago.yaml", "spago.dhall", "packages.dhall", "elm.json", "elm-tooling.json",
		"lakefile.lean", "lakefile.toml", "lean-toolchain", "lake-manifest.json", "_CoqProject", "_RocqProject", "*.agda-lib", "*.ipkg",
	}},
	{"OCaml", SensitiveScript, []string{
		"dune", "dune-project", "dune-workspace", "dune-workspace.*", "*.opam", "*.opam.*", "opam", ".ocamlinit", ".merlin", "_tags", "_oasis",
		"myocamlbuild.ml", "esy.json",
	}},
	{"Swift, CocoaPods, fastlane", SensitiveScript, []string{
		"Package.swift", "Package@swift-*.swift", "Package.resolved", "Podfile", "Podfile.lock", "*.podspec", "*.podspec.json", "Cartfile", "Cartfile.*",
		"fastlane/", "Fastfile", "Appfile", "Matchfile", "Gymfile", "Scanfile", "Snapfile", "Deliverfile", "Pluginfile", "project.yml", "Tuist/", "Tuist.swift",
		".swiftlint.yml", ".swiftformat", ".sourcery.yml", "swiftgen.yml", ".periphery.yml", ".sourcekit-lsp/", ".jazzy.yaml", ".slather.yml",
	}},
	{"Dart, Flutter", SensitiveScript, []string{
		"pubspec.yaml", "pubspec.lock", "pubspec_overrides.yaml", "analysis_options.yaml", "build.yaml", "dart_test.yaml", "flutter_test_config.dart",
		"hook/build.dart", "hook/link.dart", "tool/grind.dart", "melos.yaml", "mason.yaml", ".dart_tool/", ".packages", "l10n.yaml",
	}},
	{"Zig, Nim, Crystal, D, V", SensitiveScript, []string{
		"build.zig", "build.zig.zon", "*.nimble", "nimble.lock", "*.nims", "nim.cfg", "*.nim.cfg", "shard.yml", "shard.lock", ".ameba.yml", "dub.json",
		"dub.sdl", "dub.selections.json", "v.mod",
	}},
	{"Lua", SensitiveScript, []string{
		"*.rockspec", ".luarocks/", ".luarc", ".luarc.*", ".luarc.doc.json", ".luaurc", ".luacheckrc", ".luacov", ".busted", "config.ld", "selene.toml",
		"tlconfig.lua", "default.project.json", "wally.toml", "wally.lock",
	}},
	{"R", SensitiveScript, []string{
		".Rprofile", "Rprofile.site", ".Renviron", ".RData", ".lintr", ".lintr.R", "*.Rproj", "renv/", "renv.lock", "packrat/", "_targets.R", "_targets.yaml",
		"_drake.R", "DESCRIPTION", "NAMESPACE", ".Rbuildignore", "configure.win", "cleanup", "cleanup.win", "Makevars", "Makevars.*", "install.libs.R",
		"testthat/setup*.R", "testthat/helper*.R", "testthat/teardown*.R", "_pkgdown.yml", "_bookdown.yml", "_site.yml", "_output.yml",
	}},
	{"Julia, MATLAB, Octave", SensitiveScript, []string{
		"build.jl", "Project.toml", "JuliaProject.toml", "Manifest.toml", "Manifest-v*.toml", "JuliaManifest.toml", "Artifacts.toml", "LocalPreferences.toml",
		"startup.jl", "startup.m", "finish.m", "pathdef.m", "buildfile.m", ".octaverc",
	}},
	{"Lisp, Scheme, Racket, Prolog, Fortran, Ada, Haxe", SensitiveScript, []string{
		"*.asd", "qlfile", "qlfile.lock", ".sbclrc", "info.rkt", "Akku.manifest", "pack.pl", "fpm.toml", "alire.toml", "*.gpr", "haxelib.json",
	}},
	{"Ethereum, Solana, StarkNet", SensitiveScript, []string{
		"foundry.toml", "remappings.txt", "hardhat.config.*", "truffle-config.*", "truffle.js", "brownie-config.yaml", "ape-config.yaml", "slither.config.json",
		"Anchor.toml", "Scarb.toml", "Move.toml",
	}},
	{"Unity, Unreal, Godot", SensitiveScript, []string{
		"ProjectSettings/", "Packages/manifest.json", "Packages/packages-lock.json", "*.asmdef", "*.uproject", "*.uplugin", "*.Build.cs", "*.Target.cs",
		"project.godot", "plugin.cfg", "export_presets.cfg",
	}},
	{"embedded systems", SensitiveScript, []string{
		"platformio.ini", "idf_component.yml", "sdkconfig", "sdkconfig.*", "west.yml", "prj.conf", ".west/", "mbed_app.json", "platform.local.txt",
		"boards.local.txt", "sketch.yaml", "*.bbappend", "*.bbclass", "conf/layer.conf", "conf/local.conf", "package.xml", "colcon.meta",
	}},
	{"packaging", SensitiveScript, []string{
		"debian/", "PKGBUILD", "APKBUILD", "*.ebuild", "Portfile", "snapcraft.yaml", ".snapcraft.yaml", "charmcraft.yaml", "rockcraft.yaml", "nfpm.yaml",
		"nfpm.yml", "AppImageBuilder.yml",
	}},
	{"Ansible, Puppet, Chef, Salt", SensitiveScript, []string{
		"ansible.cfg", ".ansible.cfg", ".ansible-lint", "ansible-navigator.*", "galaxy.yml", "requirements.yml", "molecule/default/", "molecule.yml",
		"group_vars/", "host_vars/", "*_plugins/", "Puppetfile", "hiera.yaml", ".fixtures.yml", ".sync.yml", "Berksfile", "Policyfile.rb", ".kitchen.yml",
		".kitchen.*.yml", "kitchen.yml", "kitchen.*.yml", ".chef/", "Saltfile",
	}},
	{"Terraform, OpenTofu, Terragrunt, Packer, Nomad", SensitiveScript, []string{
		"*.tf", "*.tf.json", "*.tfvars", "*.tfvars.json", "*.tofu", "*.tofu.json", "*.tftest.json", "*.tfstate", "*.hcl", "*.hcl.json", "*.pkr.json", "*.nomad",
		".terraform/", ".terraformrc", "terraform.rc", ".terraformignore", ".checkov.yml", ".checkov.yaml", "trivy.yaml", ".trivyignore", ".trivyignore.*",
		".gitleaks.toml", ".gitleaksignore", ".secrets.baseline", ".semgrepignore", ".semgrep/",
	}},
	{"Pulumi, Serverless, CDK, SST", SensitiveScript, []string{
		"Pulumi.yaml", "Pulumi.yml", "Pulumi.*.yaml", "Pulumi.*.yml", "serverless.yml", "serverless.yaml", "serverless.json", "serverless.js", "serverless.ts",
		"serverless-compose.*", "cdk.json", "cdk.context.json", "cdktf.json",
	}},
	{"Kubernetes, Helm, Kustomize, Argo CD", SensitiveScript, []string{
		"Chart.yaml", "Chart.lock", "requirements.yaml", "values.yaml", "values.schema.json", ".helmignore", "helmfile.*", "helmfile.d/", "kustomization.yaml",
		"kustomization.yml", "Kustomization", ".argocd-source*", ".argocd/", "Kptfile", ".krmignore", "jsonnetfile.json", "jsonnetfile.lock.json", ".sops.yaml",
		".sops.yml", ".kube/",
	}},
	{"shell checkers", SensitiveScript, []string{".shellcheckrc", "shellcheckrc", ".yamllint", ".yamllint.*", ".vale.ini", "_vale.ini", ".shellspec"}},
	{"databases", SensitiveScript, []string{
		".psqlrc", ".sqliterc", ".duckdbrc", ".my.cnf", "liquibase.properties", "flyway.toml", "flyway.conf", "sqitch.conf", "sqitch.plan",
	}},
	{"tools that read .config", SensitiveScript, []string{".config/"}},

	{"ctxfs", SensitiveSeeding, []string{
		".contextignore", "context-template.yml", "context-template.yaml", "context-zones.yml", "context-zones.yaml", "ctxfs.yml", "ctxfs.yaml",
	}},
	{"git", SensitiveSeeding, []string{".gitignore"}},
}

# ctxfs: make help lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

GO        ?= go
VERSION   := $(shell cat VERSION)
LDFLAGS   := -s -w -X main.version=$(VERSION)
BIN       := bin/ctxfs
WORKSPACE ?= .
# What make bench runs after the comparison, each a target of its own.
BENCHES   := first-access review exec gateway records
# The packages whose benchmarks make bench-code runs.
BENCHED   ?= ./client ./server ./internal/attack ./contexts/... ./fsservice/... ./internal/codec ./internal/budget
# The linter's cache holds absolute paths: one that checkouts share reports files of another by names that no exclusion knows. scripts/scratch
# has each checkout at the same path.
export GOLANGCI_LINT_CACHE := $(if $(filter %/ctxfs/checkout,$(CURDIR)),$(CURDIR:/checkout=/lint),$(CURDIR)/bin/lint-cache)
# The target lint vets the tests. Many tests wait: four of a package run at once. The timeout only stops a test that hangs.
GOTEST    := $(CURDIR)/scripts/tool gotestsum --format pkgname --format-hide-empty-pkg --
GOFLAGS_  := -count=1 -vet=off -timeout 25m -parallel 4
# SQLite is C that was translated to Go: the race detector's checks of its pointers cost a fifth of the time, and find nothing of ours.
RACE      := env CGO_ENABLED=1 $(GOTEST) -race '-gcflags=modernc.org/...=-d=checkptr=0' $(GOFLAGS_)
# The packages whose point is concurrency.
RACED     := ./session/... ./contexts/gate/... ./contexts/feed/... ./internal/budget ./internal/codec ./internal/webconn ./fsservice/... ./client ./exec/... ./runner/...
# A program that was built with cgo keeps its capabilities in all its threads. ctxfs is not, and these tests must run in one that is not, either.
AS_USER   := ^TestAsUserInNamespaces$$
NOCGO     := -run '$(AS_USER)' ./internal/namespaces ./contexts/driver/overlay
# The longest first, so that none ends alone.
LONGEST   := ./server ./internal/attack ./contexts ./exec

.PHONY: help
help: ## Explains each target
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Builds bin/ctxfs, one static binary
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/ctxfs

.PHONY: install
install: ## Installs ctxfs into GOBIN, and says where that is
	@CGO_ENABLED=0 $(GO) install -trimpath -ldflags '$(LDFLAGS)' ./cmd/ctxfs
	@file=$$($(GO) list -f '{{.Target}}' ./cmd/ctxfs); dir=$$(dirname "$$file"); found=$$(command -v ctxfs || true); \
	if [ "$$found" -ef "$$file" ]; then echo "installed $$file, which PATH finds"; \
	elif [ -n "$$found" ]; then echo "installed $$file; PATH finds $$found first: export PATH=\"$$dir:\$$PATH\""; \
	else echo "installed $$file; PATH does not have that folder: export PATH=\"$$dir:\$$PATH\""; fi

.PHONY: run
run: need-git build ## Serves WORKSPACE (this directory by default), and says what to type next
	@$(BIN) serve --workspace $(WORKSPACE)

.PHONY: demo
demo: need-git ## Shows the whole main job on a server of its own, and leaves nothing; fails when a step is not as expected
	@[ -x $(BIN) ] || echo "demo: building ctxfs first, which may take some minutes"
	@$(MAKE) --no-print-directory build
	@scripts/demo $(BIN)

.PHONY: test
test: need-test ## Runs what decides whether a change lands: 10 to 12 minutes on 2 cores, longer the first time
	@scripts/scratch scripts/parts test-go 'lint check-generate check-cross-changed test-ts test-console test-race'

.PHONY: test-full
test-full: need-test need-full ## Runs what decides before a release: make test, and everything that takes longer
	@scripts/scratch scripts/parts 'test-go-full test-race-full attack' 'lint check-generate check-cross test-ts-full test-console-full test-nodes fuzz test-postgres'

.PHONY: test-go
test-go: ## Runs each Go test once, without the race detector, in its short form, and without PostgreSQL and nginx
	@$(GOTEST) -short -skip '$(AS_USER)' $(GOFLAGS_) $(LONGEST) ./...
	@CGO_ENABLED=0 $(GOTEST) -short $(GOFLAGS_) $(NOCGO)
	@cd bench && $(GOTEST) -short $(GOFLAGS_) ./...

.PHONY: test-go-full
test-go-full: ## Runs each Go test once, without the race detector, in its long form
	@CTXFS_LONG=1 CTXFS_HISTORY=50 $(GOTEST) $(GOFLAGS_) $(LONGEST) ./...
	@CGO_ENABLED=0 $(GOTEST) $(GOFLAGS_) $(NOCGO)
	@cd bench && CTXFS_LONG=1 $(GOTEST) $(GOFLAGS_) ./...

.PHONY: test-race
test-race: ## Runs the packages whose point is concurrency under the race detector, and a quarter of server that the commit chooses
	@$(RACE) -short $(RACED)
	@$(RACE) -short -run "$$(scripts/quarter server)" ./server

.PHONY: test-race-full
test-race-full: ## Runs all tests under the race detector
	@$(RACE) $(LONGEST) ./...

.PHONY: test-postgres
test-postgres: need-git need-postgres ## Runs the tests of the server and of the ledger with the records in a PostgreSQL that they start (some minutes)
	@CTXFS_TEST_METADATA=postgres $(GOTEST) $(GOFLAGS_) ./metadata/... ./server ./internal/ledger

.PHONY: test-ts
test-ts: need-git need-node need-chromium node-modules ## Checks the npm client, and tests its main paths in Node and in Chromium
	npm --prefix client/ts test

.PHONY: test-ts-full
test-ts-full: need-git need-node need-chromium need-full node-modules ## Checks the npm client, and runs all its tests, in Firefox too
	npm --prefix client/ts run test:full

.PHONY: console
console: need-node ## Builds the console's page into console/dist, which the binary embeds; make build needs no Node
	scripts/console

.PHONY: check-console
check-console: need-node ## Fails when console/dist is not what console/web gives
	scripts/console --check

.PHONY: test-console
test-console: need-git need-chromium node-modules check-console ## Checks the console's page, and tests the story of a review in Chromium, with a real server
	npm --prefix console/web run --silent check
	npm --prefix console/web test

.PHONY: test-console-full
test-console-full: need-git need-chromium node-modules check-console ## Checks the console's page, and runs all its tests, for accessibility too
	npm --prefix console/web run --silent check
	npm --prefix console/web run test:full

.PHONY: test-nodes
test-nodes: need-git need-node need-chromium node-modules ## Tests the npm client on those of Node 20, 22, 24 and 26 that this machine does not have, and installs them into bin/node
	npm --prefix client/ts run build
	node client/ts/scripts/nodes.mjs

.PHONY: node-modules
node-modules: need-node # Those of the npm client and of the console's page are installed side by side.
	@scripts/npm-modules client/ts console/web

.PHONY: bench
bench: need-git bench-peers ## Compares ctxfs with its peers (about ten minutes), then runs bench-first-access, -review, -exec, -gateway and -records, and writes docs/performance
	cd bench && $(GO) run . --out ../docs/performance $(BENCH)
	@# BENCH narrows the comparison, and leaves the others out.
	$(if $(BENCH),,$(MAKE) --no-print-directory -j1 $(addprefix bench-,$(BENCHES)))

.PHONY: bench-quick
bench-quick: need-git bench-peers ## Shows in a few seconds that the comparison works; its figures mean nothing
	cd bench && $(GO) run . --quick $(BENCH)

.PHONY: bench-first-access
bench-first-access: need-git ## Measures the first access to a context by driver and size of the workspace, and writes docs/performance
	cd bench && $(GO) run . first-access --out ../docs/performance $(BENCH)

.PHONY: bench-review
bench-review: need-git ## Measures a review by driver, size of the workspace and number of changes beside git, and writes docs/performance
	cd bench && $(GO) run . review --out ../docs/performance $(BENCH)

.PHONY: bench-exec
bench-exec: ## Measures commands beside bwrap alone, in a shared sandbox beside fork and exec, the rate of their output beside a pipe, and 100 idle sandboxes, and writes docs/performance
	cd bench && $(GO) run . exec --out ../docs/performance $(BENCH)

.PHONY: bench-gateway
bench-gateway: ## Measures sites beside nginx and Go's http.FileServer, and 200 open event streams, and writes docs/performance
	cd bench && $(GO) run . gateway --out ../docs/performance $(BENCH)

.PHONY: bench-records
bench-records: need-postgres ## Measures panels and first accesses with the records in SQLite and in PostgreSQL, with 10 and 10,000 contexts, and writes docs/performance
	cd bench && $(GO) run . records --out ../docs/performance $(BENCH)

.PHONY: bench-fairness
bench-fairness: need-git ## Measures, as root, what a panel notices of a hostile one while the server has 512 MiB of memory, and writes docs/performance
	cd bench && $(GO) run . fairness --out ../docs/performance $(BENCH)

.PHONY: bench-code
bench-code: need-git ## Runs the Go benchmarks that BENCH (all) matches COUNT (6) times, and sums them up beside those of OLD, a file that an earlier run wrote
	@mkdir -p bin
	set -o pipefail; $(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchtime $(or $(BENCHTIME),300ms) -count $(or $(COUNT),6) $(BENCHED) | tee bin/bench-code.txt
	@scripts/tool benchstat $(OLD) bin/bench-code.txt

.PHONY: bench-console
bench-console: need-git need-chromium check-console ## Checks on a quiet machine that the console shows 200 contexts in less than a second, and that a diff of 5,000 lines scrolls smoothly
	cd console/web && CTXFS_QUIET=1 npm exec -- playwright test --workers 1 -g 'first view|5,000 lines'

.PHONY: bench-peers
bench-peers: ## Installs what the peers in Node need, the npm client among them, unless it is there; a peer that is not there is named as missing
	@if command -v npm >/dev/null; then \
	  { [ bench/peers/node/node_modules/.package-lock.json -nt bench/peers/node/package.json ] || npm install --prefix bench/peers/node --no-audit --no-fund --no-package-lock --loglevel=error; } && \
	  { [ client/ts/node_modules/.package-lock.json -nt client/ts/package-lock.json ] || npm --prefix client/ts ci --no-audit --no-fund --loglevel=error; } && \
	  npm --prefix client/ts run --silent build; \
	fi

.PHONY: attack
attack: need-git ## Attacks a real server: every path by every way, and each race for ATTACKTIME (30s; about 40 minutes in all)
	ATTACKTIME=$(or $(ATTACKTIME),30s) $(GO) test -v -count=1 -timeout 90m ./internal/attack

.PHONY: fuzz
fuzz: ## Fuzzes each parser of untrusted input for FUZZTIME (30s)
	scripts/fuzz $(or $(FUZZTIME),30s)

.PHONY: kills
kills: need-git ## Kills servers under load KILLS (200) times, and looks for what was lost or left half made (some minutes)
	CTXFS_KILLS=$(or $(KILLS),200) $(GO) test -count=1 -timeout 30m -v -run '^(TestKills|TestReviewKills|TestKilledAtEachPhase|TestFlippedFileIsAppliedAsReviewed|TestKilledBatchIsAllOrNothing)$$' ./internal/ledger ./review ./contexts/batch

.PHONY: cuts
cuts: need-git ## Cuts the power CUTS (200) times under each load on each disk, as root, and looks for what was lost or left half made (about half an hour)
	CTXFS_CUTS=$(or $(CUTS),200) $(GO) test -count=1 -timeout 120m -v -run '^Test(Review)?Cuts$$' ./internal/ledger

.PHONY: kills-postgres
kills-postgres: need-git need-postgres ## Does the same with the records in a PostgreSQL that is killed too, KILLS (100) times
	CTXFS_TEST_METADATA=postgres CTXFS_KILLS=$(or $(KILLS),100) $(GO) test -count=1 -timeout 30m -v -run '^TestKills$$' ./internal/ledger

.PHONY: review-scale
review-scale: ## Lists and applies FILES (50000) changed files, looks at the memory that this takes, and pulls 10,000 files (some minutes)
	CTXFS_REVIEW_FILES=$(or $(FILES),50000) $(GO) test -count=1 -timeout 30m -v -run '^TestMemoryOfManyChanges$$' ./review
	CTXFS_PULL_FILES=10000 $(GO) test -count=1 -timeout 30m -v -run '^TestPullOfManyFiles$$' ./server

.PHONY: commands
commands: need-git ## Runs COMMANDS (1000) short commands, and looks for what is left; then one that writes FLOOD (10) GiB without a reader (some minutes)
	CTXFS_COMMANDS=$(or $(COMMANDS),1000) $(GO) test -count=1 -timeout 30m -v -run '^TestManyCommandsLeaveNothing$$' ./server/command
	CTXFS_FLOOD=$(or $(FLOOD),10) $(GO) test -count=1 -timeout 30m -v -run '^TestOutputFloodIsBounded$$' ./exec

.PHONY: soak
soak: need-git ## Keeps 200 panels at work for SOAK (10m), by DRIVER (copy), while servers are stopped and killed, and draws a plot
	CTXFS_SOAK=$(or $(SOAK),10m) CTXFS_SOAK_DRIVER=$(or $(DRIVER),copy) CTXFS_SOAK_PLOT=$(CURDIR)/docs/performance/soak-$(or $(DRIVER),copy).svg $(GO) test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/ledger

.PHONY: history
history: need-git ## Repeats COMMITS (50) commits and as many merges of each repository in REPOS (a:b), on both drivers, and compares each with git
	CTXFS_HISTORY=$(or $(COMMITS),50) CTXFS_HISTORY_REPOS=$(REPOS) $(GO) test -count=1 -timeout 0 -v -run '^TestHistory$$' ./internal/history

.PHONY: lint
lint: ## Vets and lints the Go code, the protos and the layering
	scripts/check-modules
	$(GO) run ./scripts/checktime
	scripts/tool golangci-lint run --allow-parallel-runners
	cd bench && ../scripts/tool golangci-lint run --allow-parallel-runners --config ../.golangci.yml
	scripts/tool buf lint
	scripts/tool buf format --diff --exit-code
	scripts/changelog --check

.PHONY: generate
generate: ## Generates the Go code of the protos, their manual and docs/reference
	scripts/tool buf generate
	scripts/tool buf build --path proto/ctxfs/v1 --exclude-imports --as-file-descriptor-set -o internal/manual/ctxfs.binpb
	$(GO) run ./scripts/reference docs/reference

.PHONY: check-generate
check-generate: ## Fails when generated code or docs/reference are not what the protos and the commands say
	scripts/check-generate

.PHONY: check-cross check-cross-changed
check-cross: ## Type-checks for darwin and windows, tests included
	scripts/check-cross
check-cross-changed:
	scripts/check-cross --changed

.PHONY: grpcurl
grpcurl: ## Builds bin/grpcurl
	@$(GO) build -modfile=tools/go.mod -o bin/grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl

.PHONY: changelog
changelog: ## Writes CHANGELOG.md from changelog/
	scripts/changelog

.PHONY: release
release: need-git need-node ## Builds the binaries, packages, bills of materials and checksums of a release in dist/, and publishes nothing
	npm --prefix client/ts ci --no-audit --no-fund --loglevel=error
	rm -rf bin/release
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run ./scripts/reference -release bin/release
	CTXFS_VERSION=$(VERSION) CTXFS_DATE=$$(git log -1 --format=%cI) CTXFS_EPOCH=$$(git log -1 --format=%ct) \
	  $(GO) tool -modfile=tools/release/go.mod goreleaser release --snapshot --clean
	node npm/pack.mjs dist/artifacts.json dist
	cd dist && sha256sum *.tgz >> checksums.txt

.PHONY: release-check
release-check: release ## Builds the release of HEAD again elsewhere, and compares, installs and runs it (some minutes; the deb as root)
	scripts/release-check

.PHONY: clean
clean: ## Removes all that the targets made; .contexts is kept while it has contexts or a log of what was applied, or a server runs
	@git ls-files -z --others --ignored --exclude-per-directory=.gitignore --exclude='!/.contexts/' --directory | xargs -0r rm -rf --
	@if compgen -G '.contexts/[!.]*' >/dev/null || compgen -G '.contexts/.ctxfs/review/journal/*' >/dev/null || [ -e .contexts/.ctxfs/server.json ]; then \
	  echo 'clean: .contexts stays: a server runs here, or it has contexts or a log of what was applied'; \
	else rm -rf .contexts; fi

.PHONY: need-test need-full need-git need-gcc need-node need-chromium need-postgres
# gcc and libc are what the race detector links with. With the others no test of agents' tools, of the progress bar and of commands is skipped.
need-test: need-node
	@scripts/setup git gcc chromium rg fdfind rsync tmux bwrap
need-full:
	@scripts/setup nginx postgres firefox-esr
need-git:
	@scripts/setup git
need-postgres:
	@scripts/setup postgres
need-gcc:
	@scripts/setup gcc
need-node:
	@scripts/setup node
	@node -e 'if (parseInt(process.versions.node) < 20) { console.error(`setup: node ${process.versions.node} is too old: the npm client needs 20 (https://nodejs.org)`); process.exit(1) }'
need-chromium:
	@scripts/setup chromium

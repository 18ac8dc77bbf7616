# ctxfs: make help lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

GO        ?= go
TOOL      := $(GO) tool -modfile=tools/go.mod
VERSION   := $(shell cat VERSION)
LDFLAGS   := -s -w -X main.version=$(VERSION)
BIN       := bin/ctxfs
WORKSPACE ?= .
# What make bench runs after the comparison, each a target of its own.
BENCHES   := review git gateway agents sandbox exec records
# The linter's cache holds absolute paths: one that checkouts share reports files of another by names that no exclusion knows.
export GOLANGCI_LINT_CACHE := $(CURDIR)/bin/lint-cache
# gcc and libc are what the race detector links with. The target lint vets the tests. Many of them wait: four run at once.
RACE      := scripts/scratch env CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 25m -parallel 4

.PHONY: help
help: ## Explains each target
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Builds bin/ctxfs, one static binary
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/ctxfs

.PHONY: install
install: ## Installs ctxfs into GOBIN
	CGO_ENABLED=0 $(GO) install -trimpath -ldflags '$(LDFLAGS)' ./cmd/ctxfs

.PHONY: run
run: need-git build ## Serves WORKSPACE (this directory by default) and prints a grpcurl line to paste
	@$(BIN) serve --workspace $(WORKSPACE)

.PHONY: demo
demo: need-git build ## Shows the whole main job on a server of its own; fails when a step is not as expected
	@scripts/demo $(BIN)

.PHONY: test
test: need-git need-gcc need-node need-chromium want-tools ## Runs everything that decides whether a change lands
	@scripts/scratch $(MAKE) --no-print-directory test-all

.PHONY: test-all
test-all:
	@# The tests under the race detector often wait: the other targets run beside them, one after the other.
	@$(MAKE) --no-print-directory test-race & race=$$!; \
	$(MAKE) --no-print-directory lint check-generate check-cross test-ts test-console test-plain test-fuzz || { kill $$race; wait $$race; exit 1; }; \
	wait $$race

.PHONY: test-race
test-race: need-gcc want-tools ## Runs all tests under the race detector, but for the attacks and the benchmarks
	@# The longest first, and then those that wait most, so that none ends alone.
	$(RACE) ./server ./contexts ./server/command ./internal/ledger $$($(GO) list ./... | grep -v '/internal/attack$$')

.PHONY: test-plain
test-plain: need-git want-tools ## Runs the attacks, which make more attempts without the race detector, and the tests of the benchmarks
	scripts/scratch $(GO) test -vet=off -timeout 25m ./internal/attack
	cd bench && ../scripts/scratch $(GO) test -vet=off -timeout 25m ./...

.PHONY: test-quick
test-quick: ## Runs all Go tests without the race detector, in the TMPDIR that is set
	$(GO) test -timeout 5m ./...

.PHONY: test-postgres
test-postgres: need-git need-postgres ## Runs the tests of the server and of the ledger with the records in a PostgreSQL that they start (some minutes)
	CTXFS_TEST_METADATA=postgres $(GO) test -vet=off -timeout 25m ./metadata/... ./server ./internal/ledger

.PHONY: test-fuzz
test-fuzz: ## Fuzzes each parser of untrusted input for a second
	scripts/fuzz 1s

.PHONY: test-ts
test-ts: need-git need-node need-chromium want-tools node-modules ## Checks the npm client, and tests its main paths in Node and in Chromium
	npm --prefix client/ts test

.PHONY: test-ts-full
test-ts-full: need-git need-node need-chromium want-tools node-modules ## Checks the npm client, and runs all its tests, in Firefox too
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
bench: need-git bench-peers ## Compares ctxfs with its peers (about ten minutes), then runs bench-review, -git, -gateway, -agents, -sandbox, -exec and -records, and writes docs/performance
	cd bench && $(GO) run . --out ../docs/performance $(BENCH)
	@# BENCH narrows the comparison, and leaves the others out.
	$(if $(BENCH),,$(MAKE) --no-print-directory -j1 $(addprefix bench-,$(BENCHES)))

.PHONY: bench-quick
bench-quick: need-git bench-peers ## Shows in a few seconds that the comparison works; its figures mean nothing
	cd bench && $(GO) run . --quick $(BENCH)

.PHONY: bench-scale
bench-scale: need-git ## Shows how cost grows with panels, handles, directories and files, and writes docs/performance
	cd bench && $(GO) run . scale --out ../docs/performance

.PHONY: bench-first-access
bench-first-access: need-git ## Measures the first access to a context by driver and size of the workspace, and writes docs/performance
	cd bench && $(GO) run . first-access --out ../docs/performance $(BENCH)

.PHONY: bench-records
bench-records: need-postgres ## Measures panels and first accesses with the records in SQLite and in PostgreSQL, with 10 and 10,000 contexts, and writes docs/performance
	cd bench && $(GO) run . records --out ../docs/performance $(BENCH)

.PHONY: bench-review
bench-review: need-git ## Measures a review by driver, size of the workspace and number of changes beside git, and writes docs/performance
	cd bench && $(GO) run . review --out ../docs/performance $(BENCH)

.PHONY: bench-git
bench-git: need-git ## Measures commits and pushes of 10 to 1,000 changed files by driver beside git, and writes docs/performance
	cd bench && $(GO) run . git --out ../docs/performance $(BENCH)

.PHONY: bench-exec
bench-exec: ## Measures commands beside bwrap alone, in a shared sandbox beside fork and exec, the rate of their output beside a pipe, and 100 idle sandboxes, and writes docs/performance
	cd bench && $(GO) run . exec --out ../docs/performance $(BENCH)

.PHONY: bench-sandbox
bench-sandbox: bench-peers ## Measures a sandbox in memory beside memfs in Node, and writes docs/performance
	cd bench && $(GO) run . sandbox --out ../docs/performance $(BENCH)

.PHONY: bench-fairness
bench-fairness: need-git ## Measures what a panel notices of a greedy one on the same server, and writes docs/performance
	cd bench && $(GO) run . fairness --out ../docs/performance $(BENCH)

.PHONY: bench-gateway
bench-gateway: ## Measures sites beside nginx and Go's http.FileServer, and 200 open event streams, and writes docs/performance
	cd bench && $(GO) run . gateway --out ../docs/performance $(BENCH)

.PHONY: bench-console
bench-console: need-git need-chromium check-console ## Checks on a quiet machine that the console shows 200 contexts in less than a second, and that a diff of 5,000 lines scrolls smoothly
	cd console/web && CTXFS_QUIET=1 npm exec -- playwright test --workers 1 -g 'first view|5,000 lines'

.PHONY: bench-agents
bench-agents: bench-peers ## Measures edits, batches and archives beside single calls and tar, and MCP beside the reference file-system server, and writes docs/performance
	cd bench && $(GO) run . agents --out ../docs/performance $(BENCH)

.PHONY: bench-peers
bench-peers: ## Installs what the peers in Node need, the npm client among them; a peer that is not there is named as missing
	@if command -v npm >/dev/null; then \
	  npm install --prefix bench/peers/node --no-audit --no-fund --no-package-lock --loglevel=error && \
	  npm --prefix client/ts ci --no-audit --no-fund --loglevel=error && npm --prefix client/ts run --silent build; \
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

.PHONY: kills-postgres
kills-postgres: need-git need-postgres ## Does the same with the records in a PostgreSQL that is killed too, KILLS (100) times
	CTXFS_TEST_METADATA=postgres CTXFS_KILLS=$(or $(KILLS),100) $(GO) test -count=1 -timeout 30m -v -run '^TestKills$$' ./internal/ledger

.PHONY: database-faults
database-faults: need-postgres ## Compares file operations while PostgreSQL is delayed, cut off and silent with quiet ones, at the 99th percentile (three minutes)
	CTXFS_DATABASE_FAULTS=1 $(GO) test -count=1 -timeout 20m -v -run '^TestFileOperationsDoNotWaitForTheDatabase$$' ./server

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

.PHONY: lint
lint: ## Vets and lints the Go code, the protos and the layering
	scripts/check-modules
	$(TOOL) golangci-lint run --allow-parallel-runners
	cd bench && $(GO) tool -modfile=../tools/go.mod golangci-lint run --allow-parallel-runners --config ../.golangci.yml
	$(TOOL) buf lint
	$(TOOL) buf format --diff --exit-code
	scripts/changelog --check

.PHONY: generate
generate: ## Generates the Go code of the protos, their manual and docs/reference
	$(TOOL) buf generate
	$(TOOL) buf build --path proto/ctxfs/v1 --exclude-imports --as-file-descriptor-set -o internal/manual/ctxfs.binpb
	$(GO) run ./scripts/reference docs/reference

.PHONY: check-generate
check-generate: ## Fails when generated code or docs/reference are not what the protos and the commands say
	scripts/check-generate

.PHONY: check-cross
check-cross: ## Type-checks for darwin and windows, tests included
	$(GO) run -modfile=tools/go.mod scripts/crosscheck.go darwin windows

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
clean: ## Removes what the targets made
	rm -rf bin dist

.PHONY: want-tools
want-tools: # Without them the tests of agents' tools, of the progress bar, of commands in contexts, of sites beside nginx and in Firefox, and of records in PostgreSQL are skipped.
	-@scripts/setup rg fdfind rsync tmux bwrap nginx postgres firefox-esr

.PHONY: need-git need-gcc need-node need-chromium need-postgres
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

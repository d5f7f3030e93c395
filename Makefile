# build, run and test need Go, git and make only; race needs a C compiler, too, and
# js, mcp, exporters and browser need node and npm; browser needs Chromium, too.
# The pinned tools that lint needs are built from source under bin/tools by make
# tools.

VERSION  ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo devel)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
DATA     ?= ./data
LISTEN   ?= 127.0.0.1:8087
FUZZTIME ?= 30s

# Extra arguments of go test in make test, e2e, race and chaos, for example TESTFLAGS=-v.
TESTFLAGS ?=
# Arguments of the benchmark program in make bench.
BENCHARGS ?=

# One directory per version, so that a new pin is a new target.
TOOLS       := $(CURDIR)/bin/tools
GOLANGCI    := $(TOOLS)/v2.15.0/golangci-lint
GOVULNCHECK := $(TOOLS)/v1.8.0/govulncheck
BENCHSTAT   := $(TOOLS)/v0.0.0-20260908200009-22c9c6c9d4da/benchstat
NFPM        := $(TOOLS)/v2.45.2/nfpm
CYCLONEDX   := $(TOOLS)/v1.10.0/cyclonedx-gomod
GORELEASER  := $(TOOLS)/v2.15.1/goreleaser
IDNITS      := $(TOOLS)/idnits-3.0.0-alpha.74/node_modules/.bin/idnits

# npm ci writes it last.
AXE := testdata/browser/node_modules/.package-lock.json
EXPORTERS := testdata/exporters/node_modules/.package-lock.json
MCP := testdata/mcp/node_modules/.package-lock.json

# If set, make goreleaser makes the archive for this system alone.
SYSTEMS ?=

# In .ci/run make test has run: js and mcp leave out the tests that make test has.
TESTED ?=

# Runs go test with its arguments; ends with a line of counts.
TEST := go run ./.ci/testsummary

# Every target compiles as make release does, without cgo and without the paths of the machine: a
# package is compiled once, and what is tested is what is released. Race and DuckDB need cgo. What a
# debugger reads is left out, as the linker would throw it away.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false

# The systems beside Linux that it builds for, as GOOS/GOARCH.
CROSS ?= darwin/arm64 darwin/amd64 windows/amd64

# Packages that ./... passes over.
HIDDEN := ./.ci/testsummary ./testdata/budget ./testdata/needs ./testdata/program

# Packages in other languages, with tests of their own.
AGENTS := api/js api/python

# The other packages whose tests start arl as a program (TestEndToEndPackages).
E2E := cmd/arl cmd/arl/bridges cmd/arl/cell cmd/arl/kits

.PHONY: help build run cluster demo test e2e agents race lint cross fuzz bench chaos interop js mcp exporters operations dashboards browser picture python draft release packages goreleaser tools vuln
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/arl, with the version in it
	go build -ldflags '-s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)' -o bin/arl ./cmd/arl

run: build ## start the ledger on DATA (./data) and LISTEN (127.0.0.1:8087)
	bin/arl serve --data $(DATA) --listen $(LISTEN)

cluster: build ## three nodes of one ledger on loopback; prints what to try
	@bin/arl cluster start

demo: build ## agents fail and are rolled back, as real processes on loopback
	@bin/arl demo

# Random tests begin at one seed, so that two runs of one commit do the same; make
# chaos draws its own, and tries many more.
test e2e agents operations race: export RAPID_SEED ?= 1
test e2e: export RAPID_CHECKS ?= 60
chaos: export RAPID_CHECKS ?= 5000
# Compilers, and most processes of the tests, live for a second. Fewer collections save a fifth of
# the processor time, and the limit of a process bounds what they cost in memory.
SEVERAL := build test e2e agents operations race lint cross release goreleaser tools
$(SEVERAL): export GOGC ?= 400
$(SEVERAL): export GOMEMLIMIT ?= 2GiB

# Two packages more than there are processors: some tests wait for processes, lanes and clocks. The
# limit of a package ends what hangs. It is twice what cmd/arl needs beside compilers with cold caches.
# Without go vet: make lint has its analyzers.
PARALLEL := -vet=off -p $$(($$(getconf _NPROCESSORS_ONLN) + 2)) -timeout 30m

# go test begins with these, so that none of them runs alone at the end.
LONGEST := ledger verify/bundle coord verify

test: ## every package whose tests start no arl, with its default budgets; ends with a summary
	@$(TEST) $(PARALLEL) $(TESTFLAGS) \
		$(LONGEST:%=./%) $$(go list ./... $(HIDDEN) | grep -vxF $(patsubst %,-e recoveryledger/%,$(E2E) $(AGENTS)))

e2e: ## arl as people and machines start it: commands, scripts, documents, clusters; also killed
	@$(TEST) $(PARALLEL) $(TESTFLAGS) $(E2E:%=./%)

# go test sees no change of what a test starts, so it must not keep the results of these two.
agents: ## the agents of api/js and api/python against real ledgers, killed here and there (needs node, python3 with cryptography)
	@$(TEST) -vet=off -count=1 -timeout 15m $(TESTFLAGS) $(AGENTS:%=./%)

# In these packages one goroutine works, in every test (TestUnracedPackages): the race detector can
# find nothing, so that make race leaves them out.
UNRACED := api api/act api/certificate api/client/bridge api/report api/view api/words \
	cmd/arl/exit cmd/arl/glossary cmd/arl/operations cmd/arl/trust coord/bundle \
	coord/codec coord/compact coord/policyfile coord/recovery coord/recovery/adversary \
	coord/recovery/ask coord/recovery/drift coord/recovery/enact coord/recovery/figure \
	coord/recovery/importer/foreign coord/recovery/importer/pieces coord/recovery/importer/spanrow \
	coord/recovery/importer/tried coord/recovery/judge coord/recovery/question \
	coord/recovery/rehearse coord/recovery/scenario/firsts coord/rollout coord/scope coord/sound \
	docs/draft ledger/backup ledger/bloom ledger/canonical ledger/cluster/scale ledger/dedup \
	ledger/disk ledger/engine ledger/entry ledger/redact ledger/tags ledger/wallclock merkle \
	verify/cose verify/tally

# Arithmetic of others on numbers that one goroutine has. Watched, it takes up to a third of the time
# of tests that sign. Of the buffers that it reads, the race detector sees what everyone else does.
# -race=false is an option of the compiler.
UNWATCHED := crypto/internal/fips140/edwards25519/... filippo.io/edwards25519/... filippo.io/mldsa/... \
	github.com/oasisprotocol/curve25519-voi/... golang.org/x/crypto/scrypt

# Of the race detector alone, and so not in GOFLAGS: what a test builds without the detector is
# compiled already. The program that the detector watches is built with them, too. With cgo, Pebble
# would take the zstd in C, which no release has.
race: export RACE_FLAGS := -tags=pebblegozstd -gcflags=all=-dwarf=false $(UNWATCHED:%=-gcflags=%=-race=false)

# One package more than there are processors, for the same reason; a package takes more memory here.
race: ## tests with their small budgets under the race detector
	@CGO_ENABLED=1 $(TEST) -race $(RACE_FLAGS) -short -vet=off -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -timeout 45m $(TESTFLAGS) \
		./cmd/arl $(LONGEST:%=./%) $$(go list ./... $(HIDDEN) | grep -vxF $(patsubst %,-e recoveryledger/%,$(UNRACED) $(AGENTS)))

# golangci-lint has every analyzer of go vet, which would take as long again.
# What the tests of this name read is the tree alone: import arrows, sizes, widths, links, lists.
TREE := ^Test(Architecture|CommentWidth|EndToEnd|Hidden|Links|MarkdownWidth|NoPlaceholders|Unraced)

lint: $(GOLANGCI) ## formatting, vet, golangci-lint, import arrows, links and widths
	@unformatted=$$(gofmt -l $$(git ls-files '*.go') </dev/null) && { test -z "$$unformatted" || \
		{ printf 'not formatted; run gofmt -w on\n%s\n' "$$unformatted"; exit 1; }; }
	$(GOLANGCI) run ./... $(HIDDEN)
	go test -vet=off -run '$(TREE)' ./cmd/arl

# vet type-checks every package and every test, once a system; linking arl shows
# that nothing is missing. Nothing is run, so the compiler optimizes nothing: it takes a third less
# processor time.
cross: export GOFLAGS += '-gcflags=all=-N -l -dwarf=false'
cross: ## vet everything, and link arl, for the systems in CROSS (macOS, Windows)
	@set -e; vetted=; for target in $(CROSS); do \
		echo "== $$target"; export GOOS=$${target%/*} GOARCH=$${target#*/}; \
		case " $$vetted " in *" $$GOOS "*) ;; *) go vet ./... $(HIDDEN); vetted="$$vetted $$GOOS";; esac; \
		go build -o bin/cross/arl-$$GOOS-$$GOARCH ./cmd/arl; \
	done

fuzz: ## every fuzz target for FUZZTIME (30s) each
	@status=0; \
	for target in $$(git grep -o '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' ':!testdata' | \
			sed 's|^|./|; s|/[^/]*_test\.go:func |:|' | sort -u); do \
		echo "== $$target"; \
		go test -run '^$$' -fuzz "^$${target##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$${target%:*}" || status=1; \
	done; exit $$status

bench: ## this ledger against Tessera in one run, then micro-benchmarks
	cd testdata/bench && go run . $(BENCHARGS)
	go test -run '^$$' -bench . -benchmem ./...

chaos: ## the tests named Chaos or Random with their large budgets; up to four hours a package
	@ARL_CHAOS=1 $(TEST) -count=1 -p 1 -timeout 240m -run 'Chaos|Random' $(TESTFLAGS) ./...
	@command -v chromium >/dev/null || { echo "skipped: chromium is missing: no 50 tabs are opened" >&2; exit; }; \
	cd testdata/browser && ARL_CHAOS=1 go test -count=1 -timeout 4m -run '^TestManyTabs$$' .

interop: ## checkers written by others, on a live log and on an export; DuckDB on a table (needs a C++ compiler)
	cd testdata/interop && go test -count=1 ./...
	cd testdata/duckdb && CGO_ENABLED=1 go test -count=1 ./...

js: build ## verify/js and api/js: types (the console's script, too), size, vectors in Node and in Deno, tarball (needs node and npm)
	cd verify/js && npm install --no-save --ignore-scripts --no-audit --no-fund --silent && npm run --silent types && \
		node_modules/.bin/tsc -p ../../api/console && node_modules/.bin/tsc -p ../../api/js
	test -n "$(TESTED)" || { cd verify/js && npm test --silent; }
	cd verify/js && node_modules/.bin/deno run --quiet --allow-read test/runtime.js
	cd verify/js && node_modules/.bin/esbuild src/index.js --bundle --minify --format=esm | \
		awk '{ n += length($$0) + 1 } END { print n " bytes minified"; exit n > 95000 }'
	cd api/js/test/langgraph && npm install --no-save --ignore-scripts --no-audit --no-fund --silent && ARL=$(CURDIR)/bin/arl node --test langgraph.test.js
	rm -rf bin/js && mkdir -p bin/js/recoveryledger && cp -RL api/js/package.json api/js/README.md api/js/src LICENSE bin/js/recoveryledger && cd bin/js && npm pack --silent ./recoveryledger && \
		tar -xzf recoveryledger-*.tgz && node --input-type=module -e 'import "./package/src/index.js"; import "./package/src/verify/index.js"'

mcp: ## MCP servers from npm, and a run at each that is rolled back (needs node and npm)
	@command -v npm >/dev/null || { echo "skipped: npm is missing: no MCP server of others is tried" >&2; test -z "$$CI"; exit; }; \
	$(MAKE) --silent --no-print-directory $(MCP) && { test -n "$(TESTED)" || go test -count=1 -run 'Server$$' ./api/mcp; }

exporters: build ## agents under instrumentations from npm, whose traces are imported (needs node and npm)
	@command -v npm >/dev/null || { echo "skipped: npm is missing: no exporter of others is tried" >&2; test -z "$$CI"; exit; }; \
	$(MAKE) --silent --no-print-directory $(EXPORTERS) && cd testdata/exporters && ARL=$(CURDIR)/bin/arl node --test exporters.test.js

$(EXPORTERS): testdata/exporters/package.json testdata/exporters/package-lock.json
	cd testdata/exporters && npm ci --ignore-scripts --no-audit --no-fund --silent

$(MCP): testdata/mcp/package.json testdata/mcp/package-lock.json
	cd testdata/mcp && npm ci --ignore-scripts --no-audit --no-fund --silent

operations: ## alerts and runbooks: real ledgers, real faults, a real Prometheus (Debian package prometheus)
	@for program in promtool prometheus; do command -v $$program >/dev/null || { \
		echo "skipped: $$program is missing: no alert is fired" >&2; test -z "$$CI"; exit; }; done; \
	$(TEST) -vet=off -count=1 -timeout 10m -run 'TestScripts/(drill_|watched)|TestAlerts|TestPromtool|TestRunbooks' $(TESTFLAGS) ./cmd/arl

dashboards: ## the Grafana dashboards of docs/operations are those of their program
	cd testdata/dashboards && go vet . && go test -count=1 .

browser: ## the pages of a ledger in Chromium, with axe (needs chromium, node and npm)
	@for program in npm chromium; do command -v $$program >/dev/null || { \
		echo "skipped: $$program is missing: no page is looked at in a browser" >&2; test -z "$$CI"; exit; }; done; \
	$(MAKE) --silent --no-print-directory $(AXE) && cd testdata/browser && go vet . && go test -count=1 -timeout 4m .

picture: ## docs/console.png, the picture of the README (needs chromium)
	cd testdata/browser && go test -count=1 -run '^TestPicture$$' . -args -picture $(CURDIR)/docs/console.png

$(AXE): testdata/browser/package.json testdata/browser/package-lock.json
	cd testdata/browser && npm ci --ignore-scripts --no-audit --no-fund --silent

# Types are checked where npm has pyright, the wheel is built where python3 has setuptools and wheel.
python: ## api/python: types, wheel (needs python3 with cryptography)
	@cd api/python && python=$$(for p in $$PYTHON python3 /usr/bin/python3; do $$p -c 'import cryptography' 2>/dev/null && echo $$p && break; done) && \
		if npm ping >/dev/null 2>&1; then npm exec --yes --package=pyright@1.1.414 -- pyright --pythonpath "$$(command -v $$python)"; \
			else echo 'skipped: pyright, as npm is missing or its registry does not answer'; fi && \
		if $$python -c 'import setuptools, wheel' 2>/dev/null; then \
			rm -rf $(CURDIR)/bin/python && mkdir -p $(CURDIR)/bin/python && cp -RL . $(CURDIR)/bin/python/_tree && \
			$$python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(CURDIR)/bin/python $(CURDIR)/bin/python/_tree; \
			else echo 'skipped: the wheel, as python3 has not setuptools and wheel'; fi

draft: $(IDNITS) ## the Internet-Draft as text, HTML and XML, checked by idnits; needs Debian packages
	docs/draft/build $(CURDIR)/bin/draft $(IDNITS)

# Of packages: the newest tag, or the time of the commit, then the commit.
release packages goreleaser: export VERSION := $(VERSION)
release packages goreleaser: export REVISION := $(REVISION)
release packages goreleaser: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
release packages: export PACKAGE_VERSION := $(shell git describe --tags --match 'v[0-9]*' --abbrev=12 2>/dev/null | sed 's/^v//; s/-/+/; s/-/./g' | grep . || TZ=UTC git log -1 --abbrev=12 --format=0~%cd.%h --date=format-local:%Y%m%d%H%M%S)

release: $(NFPM) $(CYCLONEDX) ## bin/release: static program, packages, bill of materials, provenance: the same bytes everywhere
	@rm -rf bin/release && cmd/arl/packages/build $(CURDIR)/bin/release $(NFPM) $(CYCLONEDX) && ls -l bin/release

packages: release ## build bin/release twice, install it in a system of its own, and start a container (needs root, Debian packages)
	@cmd/arl/packages/twice $(CURDIR)/bin/release $(NFPM) $(CYCLONEDX) $(MAKEOVERRIDES)
	@cmd/arl/packages/try $(CURDIR)/bin/release $(NFPM)
	@cmd/arl/packages/container $(CURDIR)/bin/release

# The tool takes longer to build than everything else that makes packages, so that make tools
# leaves it out. .ci/run builds it beside everything else.
goreleaser: $(GORELEASER) ## bin/goreleaser: a snapshot of the archives by goreleaser, for every system, or for SYSTEMS=this one
	$(GORELEASER) check --quiet --config cmd/arl/packages/goreleaser.yaml
	sed -E "$(if $(SYSTEMS),s/^( +)goos: .*/\1goos: [$$(go env GOOS)]/; s/^( +)goarch: .*/\1goarch: [$$(go env GOARCH)]/; /ignore: /d)" \
		cmd/arl/packages/goreleaser.yaml >bin/goreleaser.yaml
	$(GORELEASER) release --snapshot --clean --config bin/goreleaser.yaml
	cd bin/goreleaser && sha256sum --check SHA256SUMS && mkdir unpacked && \
		for archive in arl_*.tar.gz; do tar --list --verbose --gzip --file $$archive; done | \
			awk '$$1 !~ /^-rw[x-]r-[x-]r-[x-]$$/ || $$2 != "root/root" { print; bad = 1 } END { exit bad }' && \
		tar --extract --gzip --file arl_*_$$(go env GOOS)_$$(go env GOARCH).tar.gz --directory unpacked && ls -l unpacked && \
		unpacked/arl version | grep -q 'version  *$(VERSION)'

tools: $(GOLANGCI) $(GOVULNCHECK) $(BENCHSTAT) $(NFPM) $(CYCLONEDX) ## build the pinned tools under bin/tools

vuln: $(GOVULNCHECK) ## known vulnerabilities in what is called (needs the database)
	$(GOVULNCHECK) ./...

$(GOLANGCI): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(GOVULNCHECK): PACKAGE := golang.org/x/vuln/cmd/govulncheck
$(BENCHSTAT): PACKAGE := golang.org/x/perf/cmd/benchstat
$(NFPM): PACKAGE := github.com/goreleaser/nfpm/v2/cmd/nfpm
$(GORELEASER): PACKAGE := github.com/goreleaser/goreleaser/v2
$(CYCLONEDX): PACKAGE := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$(GOLANGCI) $(GOVULNCHECK) $(BENCHSTAT) $(NFPM) $(CYCLONEDX) $(GORELEASER):
	GOBIN=$(@D) go install $(PACKAGE)@$(notdir $(@D))

# Installed from npm, at the versions and with the hashes of package-lock.json.
$(IDNITS): docs/draft/package.json docs/draft/package-lock.json
	@command -v npm >/dev/null || { echo 'make draft: npm is missing; install the Debian package npm' >&2; exit 1; }
	mkdir -p $(TOOLS)/idnits-3.0.0-alpha.74
	cp $^ $(TOOLS)/idnits-3.0.0-alpha.74
	npm ci --prefix $(TOOLS)/idnits-3.0.0-alpha.74 --no-audit --no-fund --loglevel error
	touch $@

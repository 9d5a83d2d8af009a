# `make` or `make help` lists the targets. Recipes are plain sh. Longer scripts are in hack/.

MODULE := github.com/podconfigd/podconfigd
GO ?= go

# Nested modules, which ./... does not include.
NESTED_MODULES := test/bench test/conformance test/powercut test/clients examples/ebpf
nested := $(patsubst %/go.mod,%,$(wildcard $(addsuffix /go.mod,$(NESTED_MODULES))))
# Modules that are only linted: one without tests, whose databases take long to compile, one whose tests need a
# browser (make browser), and an example, which test/clients runs.
LINTED_MODULES := test/bench/store test/browser examples/spire-attestor
# Modules whose packages are not compiled for the other targets. test/conformance/status
# compiles the whole kubelet, and test/conformance/merge an earlier version of Kubernetes.
# test/clients/otelcol is in none of these lists: go mod tidy wants dependencies of other projects'
# tests, which are not on the module proxy. hack/clients.sh builds it.
OTHER_MODULES := test/clients/kepler test/components/servers test/components/kubelet test/components/kubelet-1.34 test/components/kubelet-1.36 test/components/containerd test/components/containerd-1.7 test/conformance/kubelets test/conformance/merge test/conformance/status

# The go command with the flags of hack/components.sh and test/testutil. With the same
# flags, no package is compiled twice. Only the tests of the root module are compiled
# differently: with the race detector.
SHARED = CGO_ENABLED=0 GOFLAGS='$(GOFLAGS) -trimpath' $(GO)

# Without this tag, the binary has unused methods: docs/adr/0012-a-binary-without-unused-methods.md
# Tests and the servers of hack/components.sh have it too: otherwise, gRPC and all that imports it
# are compiled twice.
TAGS := -tags=grpcnotrace

# Everything that is only for development is built outside of the tree.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/podconfigd

# Each version of Go and of the tools has its own folder.
TOOLS := $(CACHE)/tools/$(shell { $(GO) version; cat tools/go.mod tools/go.sum; } 2>/dev/null | sha256sum | cut -c1-12)
GOLANGCI_LINT := $(TOOLS)/golangci-lint
BENCHSTAT := $(TOOLS)/benchstat
BUF := $(TOOLS)/buf
PROTOC_PLUGINS := $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc
tool_golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
tool_benchstat := golang.org/x/perf/cmd/benchstat
tool_buf := github.com/bufbuild/buf/cmd/buf
tool_protoc-gen-go := google.golang.org/protobuf/cmd/protoc-gen-go
tool_protoc-gen-go-grpc := google.golang.org/grpc/cmd/protoc-gen-go-grpc
GENERATORS := $(TOOLS)/deepcopy-gen $(TOOLS)/defaulter-gen
tool_deepcopy-gen := k8s.io/code-generator/cmd/deepcopy-gen
tool_defaulter-gen := k8s.io/code-generator/cmd/defaulter-gen

# The tools of packages and releases have modules of their own, because of their size.
PACKAGE_TOOLS := $(CACHE)/tools/$(shell { $(GO) version; cat tools/packages/go.mod tools/packages/go.sum; } 2>/dev/null | sha256sum | cut -c1-12)
RELEASE_TOOLS := $(CACHE)/tools/$(shell { $(GO) version; cat tools/goreleaser/go.mod tools/goreleaser/go.sum; } 2>/dev/null | sha256sum | cut -c1-12)
tool_nfpm := github.com/goreleaser/nfpm/v2/cmd/nfpm
tool_cyclonedx-gomod := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
tool_actionlint := github.com/rhysd/actionlint/cmd/actionlint
tool_govulncheck := golang.org/x/vuln/cmd/govulncheck
tool_goreleaser := github.com/goreleaser/goreleaser/v2
COSIGN := v3.1.3
ARCHES ?= amd64 arm64
PACKAGE_VERSION ?=
VULNDB ?= latest

# generate_config makes the generated code of the config file's type in a folder.
generate_config = $(TOOLS)/deepcopy-gen --go-header-file /dev/null --output-file zz_generated.deepcopy.go ./$(1) && \
	$(TOOLS)/defaulter-gen --go-header-file /dev/null --output-file zz_generated.defaults.go ./$(1)

# generate_grpc makes the reference page of the gRPC interface.
generate_grpc = mkdir -p bin && $(BUF) build -o bin/api.binpb && $(SHARED) run ./hack/protodoc bin/api.binpb >$(1) && rm bin/api.binpb

# Platforms besides that of the tests, and the packages that have code for each. On platforms
# other than Linux, there is only podconfigctl, without the command config.
PLATFORMS := linux/arm64 darwin/arm64 windows/amd64
PORTABLE := cmd/podconfigctl cmd/podconfigctl/cli cmd/podconfigctl/proxy cmd/podconfigctl/validate pkg/client pkg/journal/store pkg/manifest pkg/sources/file pkg/sources/file/follow pkg/sources/file/manifests

# The protobuf interface that changes are compared with.
API_BASELINE := api/baseline.json

# BIN and CTL are the files of the two programs.
BIN ?= bin/podconfigd
CTL ?= bin/podconfigctl
VERSION ?= $(shell git describe --always --dirty --tags 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X $(MODULE)/internal/version.version=$(VERSION))

# "make lint" runs vet.
FAST := -vet=off
# LAZY makes the compilers, the tests and the servers of tests collect garbage less often: they take a
# tenth less time, and more memory up to the limit.
LAZY := GOGC=400 GOMEMLIMIT=1GiB

TEST_TIMEOUT ?= 30m
# CONCURRENT are the packages in which goroutines of this module meet: make test runs them with the race detector. It
# leaves pkg/manifest to make test-all: nearly all of its time goes into decoding.
CONCURRENT = $(filter-out ./pkg/manifest,$(shell hack/concurrent.sh pkg internal cmd))
PLAIN = $(filter-out $(CONCURRENT),$(sort $(patsubst %/,./%,$(dir $(shell git ls-files 'pkg/*_test.go' 'internal/*_test.go' 'cmd/*_test.go' 'api/*_test.go' 'hack/*_test.go')))))
# PROGRAMS are the packages whose tests run the built program and the real servers: a race is in another
# process, where the detector does not see it. Those that take longest are first. With -short, they take the shortest real way of each kind.
PROGRAMS := $(addprefix ./test/,e2e/apiserver e2e/runtime e2e/clients e2e/daemon script upgrade docs merge kubelets terminal testutil)
# ALL_PROGRAMS are also those that have no short way.
ALL_PROGRAMS := $(PROGRAMS) $(addprefix ./test/,systemd packages kubernetes metamorphic components)
# EXHAUSTIVE are the files with tests that try very many cases: test/testutil/exhaustive.go. With the race detector, these
# tests try a part of the cases.
EXHAUSTIVE = $(shell grep -rlE 'testutil[.](Exhaustive|Stride)' --include='*_test.go' ./pkg ./internal ./cmd 2>/dev/null)
EXHAUSTIVE_TESTS = $(shell sed -nE 's/^func (Test[A-Za-z0-9_]+)\W.*/\1/p' $(EXHAUSTIVE) | paste -sd'|')
# PACKAGES is how many of them run at a time: more than a small machine has processors, since they
# mostly wait.
PACKAGES ?= 3
# With TIMES=1, make test prints the processor time of each package.
TIMES ?=
TIMES_DIR := bin/times
ifneq ($(TIMES),)
timed = -debug-actiongraph=$(CURDIR)/$(TIMES_DIR)/$(1).json -exec '$(CURDIR)/bin/testtimes run $(CURDIR)/$(TIMES_DIR)/runs'
endif
# RUNS is how often make nightly runs the short tests under stress.
RUNS ?= 20
FLAKES_DIR := bin/flakes
LOGS ?= $(CACHE)/logs
BENCH ?= .
BENCH_COUNT ?= 6
BASE ?=
FUZZTIME ?= 60s
# FUZZ_HOUR is how many seconds each target has, so that all take an hour: hack/fuzz.sh runs one on each processor.
FUZZ_HOUR = $(shell n=$$(git grep -hE '^func Fuzz' -- '*_test.go' | wc -l) p=$$(nproc); echo $$((3600 / ((n + p - 1) / p))))
SEQUENCES ?= 1000000
STATUSES ?= 20000
MANIFESTS ?= 20000
STEPS ?= 20000
KILLS ?= 1000
SEED ?= 0
PODS ?= 5000
PRESS ?= 25m

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  Variables: BIN CTL VERSION CACHE TEST_TIMEOUT PACKAGES BENCH BENCH_COUNT BASE FUZZTIME SEQUENCES STATUSES MANIFESTS STEPS KILLS SEED PODS PRESS TIMES RUNS LOGS ARCHES PACKAGE_VERSION VULNDB"

.PHONY: build
build: ## Build the static programs, bin/podconfigd and bin/podconfigctl
	$(SHARED) build $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/podconfigd
	$(SHARED) build $(TAGS) -ldflags '$(LDFLAGS)' -o $(CTL) ./cmd/podconfigctl

# go_race and go_plain run tests in the two ways in which packages are compiled: with the race detector, and
# as the program and the servers.
go_race = $(LAZY) GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 GOFLAGS='$(GOFLAGS) -trimpath' $(GO) test $(TAGS) $(FAST) -race -count=1 -p $(PACKAGES) -timeout $(TEST_TIMEOUT)
go_plain = $(LAZY) $(SHARED) test $(TAGS) $(FAST) -count=1 -p $(PACKAGES) -timeout $(TEST_TIMEOUT)

.PHONY: test
test: test-deps ## Run the tests of the packages, and the shortest real way of each kind, in minutes; TIMES=1 prints processor times
ifneq ($(TIMES),)
	@rm -rf $(TIMES_DIR) && mkdir -p $(TIMES_DIR) && $(SHARED) build -o bin/testtimes ./hack/testtimes
endif
	@$(MAKE) --no-print-directory -j2 test-race test-programs
ifneq ($(TIMES),)
	@bin/testtimes report $(TIMES_DIR)
endif

.PHONY: test-race
test-race:
	@echo '==> tests of the packages in which goroutines meet, with the race detector'
	$(go_race) $(call timed,race) $(CONCURRENT)

# The servers are built while the packages are tested. A package that needs one waits for it.
.PHONY: test-programs
test-programs: components
	@echo '==> tests of the program and of the other packages'
	$(go_plain) -short $(call timed,plain) $(PROGRAMS) $(PLAIN)

.PHONY: test-all
test-all: test-deps ## Run everything in its short form, at most 90 minutes, and print what ran, how long, and what was skipped
	@hack/test-parts.sh '$(LOGS)/test-all' race=all-race programs=all-programs soak=all-soak nested=all-nested \
		conformance='conformance SEQUENCES=100000 STATUSES=2000 MANIFESTS=2000' browser=browser clients=clients image=image fuzz='fuzz FUZZTIME=5m'

.PHONY: all-race
all-race:
	$(go_race) -v ./pkg/... ./internal/... ./cmd/... ./api/... ./hack/...

.PHONY: all-programs
all-programs: components
	$(go_plain) -v $(ALL_PROGRAMS)
	$(go_plain) -v ./test/e2e/kubelet # alone: a kubelet ends what runs in cgroups of pods that it does not have
	PODCONFIGD_TEST_CONTAINERD=containerd-1.7 $(go_plain) -v ./test/e2e/runtime ./pkg/pleg/cri
	$(go_plain) -v -run '^($(EXHAUSTIVE_TESTS))$$' $(sort $(dir $(EXHAUSTIVE)))

.PHONY: all-soak
all-soak: components
	$(go_race) -v ./test/soak/...

.PHONY: all-nested
all-nested: components
	@set -e; for m in $(nested); do \
		echo "==> short tests of $$m"; \
		(cd $$m && $(go_plain) -short -v ./...); \
	done

.PHONY: nightly
nightly: test-deps ## Run the long forms: soak, conformance, an hour of fuzzing, RUNS runs of the short tests on a busy machine, mutants, linux/arm64, and the export of a fleet
	@hack/test-parts.sh '$(LOGS)/nightly' flakes=flakes mutants=mutants soak=soak conformance=conformance fuzz='fuzz FUZZTIME=$(FUZZ_HOUR)s' arm64=test-arm64 \
		clients='clients EXPORT_NODES=20 EXPORT_CHANGES=20000 EXPORT_KILLS=100'

# Others take too long under emulation: those of pkg/journal/store more than seven minutes on a busy machine.
.PHONY: test-arm64
test-arm64: ## Run the short tests of the core for linux/arm64, under qemu
	@hack/test-deps.sh qemu-aarch64-static=qemu-user-static
	GOARCH=arm64 $(go_plain) -short -v -exec qemu-aarch64-static ./internal/... ./pkg/config ./pkg/journal

.PHONY: flakes
flakes: components ## Run the short tests RUNS times with one processor each and three busy loops beside, and list the tests that failed
	@rm -rf $(FLAKES_DIR)
	$(go_race) -exec '$(CURDIR)/hack/keep-test.sh $(CURDIR)/$(FLAKES_DIR)/race' $(CONCURRENT)
	$(go_plain) -short -exec '$(CURDIR)/hack/keep-test.sh $(CURDIR)/$(FLAKES_DIR)/plain' $(PROGRAMS) $(PLAIN)
	hack/flakes.sh '$(LOGS)/flakes' $(RUNS) $(PACKAGES) $(FLAKES_DIR)/race $(FLAKES_DIR)/plain
	@rm -rf $(FLAKES_DIR)

.PHONY: mutants
mutants: ## Put the defects of test/mutants into the last commit, one after another, and check that a test finds each
	hack/mutants.sh

.PHONY: test-deps
test-deps: ## Install the Debian packages that the tests need, if they are missing
	@hack/test-deps.sh

.PHONY: components
components: ## Build the servers that the tests need, if they are missing
	@CACHE='$(CACHE)' hack/components.sh >/dev/null

.PHONY: test-short
test-short: ## Run the fast tests of the packages, without the race detector
	$(LAZY) $(SHARED) test $(TAGS) $(FAST) -short -p $(PACKAGES) ./pkg/... ./internal/... ./cmd/... ./api/... ./hack/... ./test/merge ./test/script

.PHONY: demo
demo: build ## Build, then run examples/demo.sh
	examples/demo.sh $(BIN) $(CTL)

.PHONY: pictures
pictures: build ## Make the pictures of the README, docs/images/*.svg, from the program in tmux
	hack/pictures.sh $(BIN) $(CTL) docs/images
	axe=$$(CACHE='$(CACHE)' hack/browser.sh) && cd test/browser && \
		AXE=$$axe PODCONFIGD='$(CURDIR)/$(BIN)' PODCONFIGCTL='$(CURDIR)/$(CTL)' PICTURES='$(CURDIR)/docs/images' $(SHARED) test -count=1 -run '^TestPictures$$' .

.PHONY: lint
lint: $(GOLANGCI_LINT) $(PACKAGE_TOOLS)/actionlint lint-api lint-platforms ## Check formatting, linters, the interfaces, generated code, go.mod files, scripts and workflows
	@echo '==> formatting'
	@$(GOLANGCI_LINT) fmt --diff
	@set -e; for m in . $(nested) $(LINTED_MODULES); do \
		echo "==> golangci-lint in $$m"; \
		(cd $$m && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); \
	done
	@set -e; for m in . tools tools/packages $(OTHER_MODULES) $(nested) $(LINTED_MODULES); do \
		echo "==> go mod tidy -diff in $$m"; \
		(cd $$m && $(GO) mod tidy -diff); \
	done
	@echo '==> analyzers'
	@CGO_ENABLED=0 GOFLAGS='$(GOFLAGS) -trimpath $(TAGS)' $(GO) run ./hack/analyzers -test=false ./api/... ./cmd/... ./examples/... ./hack/... ./internal/... ./pkg/...
	@echo '==> bash -n'
	@find . -name .git -prune -o \( -name '*.sh' -o -path ./.ci/run \) -print | \
		xargs -n 1 bash -n
	@echo '==> actionlint'
	@$(PACKAGE_TOOLS)/actionlint -shellcheck= -pyflakes=

# File names keep the tests out, which run on Linux only.
.PHONY: lint-platforms
lint-platforms: ## Check that podconfigd compiles for the other platforms
	@set -e; for platform in $(PLATFORMS); do \
		echo "==> go vet for $$platform"; \
		for p in $(PORTABLE); do \
			(cd $$p && export GOOS=$${platform%/*} GOARCH=$${platform#*/} && \
				$(SHARED) vet $$($(GO) list -f '{{join .GoFiles " "}}')); \
		done; \
	done

.PHONY: lint-api
lint-api: $(BUF) $(PROTOC_PLUGINS) $(GENERATORS) ## Check the protobuf interface, and that the generated code is up to date
	@echo '==> buf lint, buf breaking'
	@$(BUF) lint
	@$(BUF) breaking --against $(API_BASELINE)
	@echo '==> generated code'
	@rm -rf bin/generated && mkdir -p bin/generated && PATH='$(TOOLS)':"$$PATH" $(BUF) generate -o bin/generated
	@for f in $$(cd bin/generated && find . -name '*.go'); do diff -u $$f bin/generated/$$f || exit 1; done
	@mkdir -p bin/generated/config/v1alpha1 && cp api/config/v1alpha1/[!z]*.go api/config/v1alpha1/zz_generated.options.go bin/generated/config/v1alpha1
	@$(call generate_config,bin/generated/config/v1alpha1)
	@for f in bin/generated/config/v1alpha1/zz_*.go; do diff -u api/config/v1alpha1/$${f##*/} $$f || exit 1; done
	@$(call generate_grpc,bin/generated/grpc.md)
	@diff -u docs/reference/grpc.md bin/generated/grpc.md
	@rm -rf bin/generated

.PHONY: api-baseline
api-baseline: $(BUF) ## Store the protobuf interface as the baseline for the check of breaking changes
	$(BUF) build --exclude-source-info -o $(API_BASELINE)

.PHONY: conformance
conformance: ## Compare SEQUENCES random sequences of sets, MANIFESTS random manifests, and STATUSES random lives of pods with kubelets; run podconfigd beside kubelets through upgrades, and beside an earlier version of itself
	hack/kubelets.sh '$(CACHE)/kubelets'
	$(SHARED) test $(TAGS) -count=1 -v ./test/kubelets -args -kubelets '$(CACHE)/kubelets' -seed $(SEED) -manifests $(MANIFESTS)
	CACHE='$(CACHE)' hack/components.sh kubelet kubelet-1.34 kubelet-1.36 >/dev/null
	cd test/conformance && $(SHARED) test $(TAGS) -count=1 -timeout 1h -v ./...
	cd test/conformance/merge && $(SHARED) vet . && $(SHARED) test -count=1 -timeout 0 -v . -sequences $(SEQUENCES)
	cd test/conformance/status && $(SHARED) vet . && $(SHARED) test -count=1 -timeout 1h -v . -rapid.checks=$(STATUSES)
	$(GO) test $(TAGS) -count=1 -v ./test/upgrade -earlier

.PHONY: kubelets-record
kubelets-record: ## Record the field lists of the kubelets of each minor version, and what they make of the manifests of test/kubelets
	hack/kubelets.sh '$(CACHE)/kubelets' --schemas
	$(SHARED) test $(TAGS) -count=1 ./test/kubelets -run TestRecorded -args -kubelets '$(CACHE)/kubelets' -update

.PHONY: browser
browser: build ## Drive the page in Chromium: live changes, restarts, hostile manifests, access rules, 5,000 pods, 200 updates a second
	axe=$$(CACHE='$(CACHE)' hack/browser.sh) && cd test/browser && \
		AXE=$$axe PODCONFIGD='$(CURDIR)/$(BIN)' PODCONFIGCTL='$(CURDIR)/$(CTL)' $(SHARED) test -count=1 -timeout 30m -v .

.PHONY: clients
clients: components ## Run clients of other projects during changes and kills; installs them into CACHE
	@CACHE='$(CACHE)' hack/clients.sh
	cd test/clients && CACHE='$(CACHE)' $(SHARED) test -count=1 -timeout 1h -v ./...

.PHONY: soak
soak: ## Change the sources STEPS times, kill the daemon KILLS times, check what subscribers receive; run STEPS metamorphic tests; update PODS pods for PRESS
	CGO_ENABLED=1 $(GO) test $(TAGS) -race -count=1 -timeout 0 -v ./test/soak -run '^Test(Durable)?Histories$$' \
		-args -seed $(SEED) -steps $(STEPS) -kills $(KILLS) -restarts $(KILLS)
	$(SHARED) test $(TAGS) -count=1 -timeout 0 -v ./test/metamorphic -args -seed $(SEED) -runs $(STEPS)
	$(GO) test $(TAGS) -count=1 -timeout 0 -v ./test/soak -run '^TestPressed$$' -args -seed $(SEED) -pods $(PODS) -press $(PRESS)

.PHONY: image
image: ## Build the Dockerfile with buildah, without a registry, start the image, and remove it
	GO='$(GO)' hack/image.sh '$(or $(VERSION),dev)'

.PHONY: packages
packages: $(PACKAGE_TOOLS)/nfpm ## Make the .deb and .rpm packages for ARCHES into bin/packages
	VERSION='$(PACKAGE_VERSION)' hack/packages.sh $< bin/packages $(ARCHES)

.PHONY: release-check
release-check: $(RELEASE_TOOLS)/goreleaser ## Check .goreleaser.yaml, and that no known vulnerability is in what both programs call
	$< check
	@$(MAKE) --no-print-directory vulncheck

.PHONY: vulncheck
vulncheck: $(PACKAGE_TOOLS)/govulncheck ## Look for known vulnerabilities in what both programs call; VULNDB=version of golang.org/x/vulndb
	hack/vulncheck.sh $< '$(VULNDB)'

.PHONY: release-snapshot
release-snapshot: $(RELEASE_TOOLS)/goreleaser $(PACKAGE_TOOLS)/cyclonedx-gomod $(PACKAGE_TOOLS)/nfpm ## Make all files of a release into dist, without a signature, and publish nothing
	PATH='$(PACKAGE_TOOLS)':"$$PATH" $< release --snapshot --clean --skip=sign
	cd dist && sha256sum --check --quiet --ignore-missing checksums.txt
	cmp dist/podconfigd_linux_amd64_v1/podconfigd bin/packages/files/amd64/podconfigd

# The signature is verified as docs/how-to/verify-a-release.md says. Until then, the files are only in a draft.
.PHONY: release
release: export GOTOOLCHAIN := $(shell sed -n 's/^toolchain //p' go.mod)
release: $(RELEASE_TOOLS)/goreleaser $(RELEASE_TOOLS)/cosign $(PACKAGE_TOOLS)/cyclonedx-gomod $(PACKAGE_TOOLS)/nfpm ## Make, sign and upload the files of the present tag as a draft; for .github/workflows/release.yaml
	PATH='$(RELEASE_TOOLS):$(PACKAGE_TOOLS)':"$$PATH" $< release --clean
	cd dist && $(RELEASE_TOOLS)/cosign verify-blob checksums.txt --bundle checksums.txt.sigstore.json \
		--certificate-oidc-issuer https://token.actions.githubusercontent.com \
		--certificate-identity 'https://$(MODULE)/.github/workflows/release.yaml@refs/tags/$(VERSION)'

.PHONY: bench
bench: $(BENCHSTAT) ## Run each benchmark BENCH_COUNT times and summarize; BASE=file compares with an earlier run
	@BENCHSTAT='$(BENCHSTAT)' BENCH='$(BENCH)' BENCH_COUNT='$(BENCH_COUNT)' BASE='$(BASE)' \
		hack/bench.sh '$(CACHE)/bench' . $(nested)

.PHONY: fleet
fleet: components ## Measure what agents on 20 nodes cost the apiserver and the nodes, with and without podconfigd, and draw it
	cd test/bench && $(SHARED) test $(TAGS) -run '^$$' -bench '^BenchmarkFleet$$' -benchtime 1x -timeout 1h -args -fleet '$(CURDIR)/bin/fleet.json'
	cd test/bench && $(SHARED) run ./fleet-plot '$(CURDIR)/bin/fleet.json' '$(CURDIR)/docs/images/fleet.svg'

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME, one on each processor
	@FUZZTIME='$(FUZZTIME)' hack/fuzz.sh

.PHONY: generate
generate: $(BUF) $(PROTOC_PLUGINS) $(GENERATORS) ## Regenerate the generated code
	PATH='$(TOOLS)':"$$PATH" $(BUF) generate
	$(call generate_config,api/config/v1alpha1)
	$(call generate_grpc,docs/reference/grpc.md)
	$(GO) generate ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code and its imports
	$(GOLANGCI_LINT) fmt

.PHONY: tidy
tidy: ## Run go mod tidy in every module
	@set -e; for m in . tools tools/packages tools/goreleaser $(OTHER_MODULES) $(nested) $(LINTED_MODULES); do \
		echo "==> go mod tidy in $$m"; \
		(cd $$m && $(GO) mod tidy); \
	done

.PHONY: clean
clean: ## Remove what was built into the tree, but not the cache
	rm -rf bin dist

# A tool is built only if it is missing, because the name of the folder identifies its
# version. Tools are built for this machine, even when cross-compiling. The final move
# prevents that an interrupted build leaves a partial binary.
$(PACKAGE_TOOLS)/%: TOOLS_MODULE := tools/packages
$(PACKAGE_TOOLS)/%:
	$(build_tool)

$(RELEASE_TOOLS)/%: TOOLS_MODULE := tools/goreleaser
$(RELEASE_TOOLS)/%:
	$(build_tool)

$(TOOLS)/%: TOOLS_MODULE := tools
$(TOOLS)/%:
	$(build_tool)

# Its module has other versions of what goreleaser needs.
$(RELEASE_TOOLS)/cosign:
	env -u GOOS -u GOARCH GOBIN='$(@D)' CGO_ENABLED=0 $(GO) install -trimpath github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN)

define build_tool
@echo '==> building $* into $(@D) (only once; takes minutes)'
@mkdir -p $(@D)
@cd $(TOOLS_MODULE) && env -u GOOS -u GOARCH CGO_ENABLED=0 $(GO) build -trimpath -o $@.tmp $(tool_$*)
@mv $@.tmp $@
endef

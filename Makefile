# `make` or `make help` lists the targets. Recipes are plain sh; what needs more
# lives in hack/.

MODULE := github.com/podconfigd/podconfigd
GO ?= go

# Modules below the root that ./... does not reach; one counts once it has a go.mod.
NESTED_MODULES := test/bench test/conformance test/conformance/merge
nested := $(patsubst %/go.mod,%,$(wildcard $(addsuffix /go.mod,$(NESTED_MODULES))))

# The go command with the flags that hack/components.sh and internal/testutil build with, so
# that no package is compiled a second time. The tests of the root module are compiled with
# the race detector, and nothing is compiled in a third way.
SHARED = CGO_ENABLED=0 GOFLAGS='$(GOFLAGS) -trimpath' $(GO)

# Everything that is built for development only stays out of the tree.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/podconfigd

# A new Go or a new version of any tool makes a new folder.
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

# The protobuf interface that changes are held to.
API_BASELINE := api/baseline.json

BIN ?= bin/podconfigd
VERSION ?= $(shell git describe --always --dirty --tags 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X $(MODULE)/internal/version.version=$(VERSION))

TEST_TIMEOUT ?= 15m
BENCH ?= .
BENCH_COUNT ?= 6
BASE ?=
FUZZTIME ?= 60s
SEQUENCES ?= 1000000

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  Variables: BIN VERSION CACHE TEST_TIMEOUT BENCH BENCH_COUNT BASE FUZZTIME SEQUENCES"

.PHONY: build
build: ## Build the static binary, bin/podconfigd
	$(SHARED) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/podconfigd

.PHONY: test
test: test-deps components ## Run all tests with the race detector, and the nested modules' short ones
	@echo '==> tests of the root module, with the race detector'
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout $(TEST_TIMEOUT) ./...
	@set -e; for m in $(nested); do \
		echo "==> vet and short tests of $$m"; \
		(cd $$m && $(SHARED) vet ./... && \
			$(SHARED) test -count=1 -short -timeout $(TEST_TIMEOUT) ./...); \
	done

.PHONY: test-deps
test-deps: ## Install the Debian packages that tests need, where they are missing
	@hack/test-deps.sh

.PHONY: components
components: ## Build the servers that tests run against, where they are missing
	@CACHE='$(CACHE)' hack/components.sh >/dev/null

.PHONY: test-short
test-short: ## Run the fast tests, without the race detector
	$(GO) test -short ./...

.PHONY: demo
demo: build ## Build, then run examples/demo.sh
	examples/demo.sh $(BIN)

.PHONY: lint
lint: $(GOLANGCI_LINT) lint-api ## Check formatting, linters, the protobuf interface, go.mod files and scripts
	@echo '==> formatting'
	@$(GOLANGCI_LINT) fmt --diff
	@set -e; for m in . $(nested); do \
		echo "==> golangci-lint in $$m"; \
		(cd $$m && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); \
	done
	@set -e; for m in . tools test/components/servers test/components/containerd $(nested); do \
		echo "==> go mod tidy -diff in $$m"; \
		(cd $$m && $(GO) mod tidy -diff); \
	done
	@echo '==> bash -n'
	@find . -name .git -prune -o \( -name '*.sh' -o -path ./.ci/run \) -print | \
		xargs -n 1 bash -n

.PHONY: lint-api
lint-api: $(BUF) $(PROTOC_PLUGINS) ## Check the protobuf interface, and that the code is what it generates
	@echo '==> buf lint, buf breaking'
	@$(BUF) lint
	@$(BUF) breaking --against $(API_BASELINE)
	@echo '==> generated code'
	@rm -rf bin/generated && mkdir -p bin/generated && PATH='$(TOOLS)':"$$PATH" $(BUF) generate -o bin/generated
	@for f in $$(cd bin/generated && find . -name '*.go'); do diff -u $$f bin/generated/$$f; done
	@rm -rf bin/generated

.PHONY: api-baseline
api-baseline: $(BUF) ## Take the protobuf interface as it is for what later changes must not break
	$(BUF) build --exclude-source-info -o $(API_BASELINE)

.PHONY: conformance
conformance: ## Compare SEQUENCES random sequences of sets with the kubelet's merge, and the manifests
	cd test/conformance && $(SHARED) test -count=1 ./...
	cd test/conformance/merge && $(SHARED) test -count=1 -timeout 0 -v . -sequences $(SEQUENCES)

.PHONY: bench
bench: $(BENCHSTAT) ## Run the benchmarks, BENCH_COUNT times each, and summarize; BASE=file compares
	@BENCHSTAT='$(BENCHSTAT)' BENCH='$(BENCH)' BENCH_COUNT='$(BENCH_COUNT)' BASE='$(BASE)' \
		hack/bench.sh '$(CACHE)/bench' . $(nested)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME
	@FUZZTIME='$(FUZZTIME)' hack/fuzz.sh . $(nested)

.PHONY: generate
generate: $(BUF) $(PROTOC_PLUGINS) ## Write generated code anew
	PATH='$(TOOLS)':"$$PATH" $(BUF) generate
	$(GO) generate ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go code and its imports
	$(GOLANGCI_LINT) fmt

.PHONY: tidy
tidy: ## Run go mod tidy in every module
	@set -e; for m in . tools test/components/servers test/components/containerd $(nested); do \
		echo "==> go mod tidy in $$m"; \
		(cd $$m && $(GO) mod tidy); \
	done

.PHONY: clean
clean: ## Remove what was built into the tree (the cache stays: rm -r it by hand)
	rm -rf bin

# Built when missing, and only then: the folder's name tells what it was built from.
# Tools run here, whatever is being cross-compiled. The move makes an interrupted
# build leave nothing that looks finished.
$(TOOLS)/%:
	@echo '==> building $* into $(TOOLS) (once; the first time it takes minutes)'
	@mkdir -p $(TOOLS)
	@cd tools && env -u GOOS -u GOARCH CGO_ENABLED=0 \
		$(GO) build -trimpath -o $@.tmp $(tool_$*)
	@mv $@.tmp $@

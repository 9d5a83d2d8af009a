#!/usr/bin/env bash
# Builds the config code of the kubelets of each minor version into a folder, and writes the lists of
# fields that pkg/manifest needs. Usage: hack/kubelets.sh OUT [--schemas]
#
# The sources come from the Go module proxy, in the versions of test/conformance/kubelets/*.mod.
set -euo pipefail

out=$(realpath -m "$1")
schemas=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../pkg/manifest/schemas")
cd "$(dirname "${BASH_SOURCE[0]}")/../test/conformance/kubelets"
mkdir -p "$out"
for mod in [0-9]*.mod go.mod; do
	minor=$(sed -nE 's/^\tk8s.io\/kubernetes v(1\.[0-9]+)\..*/\1/p' "$mod")
	tags=grpcnotrace
	case $minor in 1.33 | 1.34) tags+=,nologger ;; esac
	echo "==> building the config code of kubelet $minor" >&2
	CGO_ENABLED=0 GOFLAGS=-trimpath go build -modfile="$mod" -tags="$tags" -o "$out/$minor" ./config
	if [[ ${2-} == --schemas ]]; then
		CGO_ENABLED=0 GOFLAGS=-trimpath go run -modfile="$mod" -tags="$tags" ./schema >"$schemas/$minor.txt"
	fi
done

#!/usr/bin/env bash
# Looks for known vulnerabilities in what the two programs call, and fails if it finds one that is not accepted below.
# The Go vulnerability database is a module, so the module proxy has it. A version in the module cache needs no network.
#
# Usage: hack/vulncheck.sh GOVULNCHECK VERSION [FLAG...]   VERSION of golang.org/x/vulndb, FLAG of govulncheck
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
govulncheck=$1 version=$2
shift 2

# Vulnerabilities of k8s.io/kubernetes that no version mends. Their reports name no functions, so all of the module counts.
# podconfigd has only its validation of pods.
accepted=(
	GO-2025-3521 # the kubelet's gitRepo volumes
	GO-2025-3547 # the kube-apiserver's NetworkPolicies during the end of a namespace
)

db=$(go mod download -json "golang.org/x/vulndb@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
[[ -n $db ]] || { echo "vulncheck: golang.org/x/vulndb@$version can't be downloaded" >&2; exit 1; }
status=0
out=$(CGO_ENABLED=0 "$govulncheck" -db "file://$db/data/osv" -tags=grpcnotrace "$@" ./cmd/podconfigd ./cmd/podconfigctl) || status=$?
# Of each vulnerability, what it is, and where it is mended. There can be hundreds of traces.
found=$(sed -nE '/^Vulnerability/,/Example traces/p' <<<"$out" | sed '/Example traces/d')
[[ -z $found ]] || printf '%s\n' "$found"
if [[ $status != 0 && ($status != 3 || -z $found) ]]; then # 3: it found something
	printf 'vulncheck: exit code %s of govulncheck\n%s\n' "$status" "$out" >&2
	exit 1
fi
other=$(sed -nE 's/^Vulnerability #[0-9]+: //p' <<<"$found" | grep -vxF -f <(printf '%s\n' "${accepted[@]}") || true)
if [[ -n $other ]]; then
	echo "vulncheck: not accepted:" $other >&2
	exit 1
fi

#!/usr/bin/env bash
# Builds the servers and clients that tests run against, where they are missing, and prints the
# folder that they are in. Usage: hack/components.sh [NAME...]
#
# Sources come from the Go module proxy, in the versions of test/components/servers.
# CACHE  where they are kept (default ~/.cache/podconfigd)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../test/components/servers"

declare -A package=(
	[etcd]=go.etcd.io/etcd/server/v3
	[kube-apiserver]=k8s.io/kubernetes/cmd/kube-apiserver
	[kubectl]=k8s.io/kubernetes/cmd/kubectl
)
declare -A takes=([etcd]='half a minute' [kube-apiserver]='4 minutes' [kubectl]='1 minute')

if [[ $# -eq 0 ]]; then
	set -- etcd kube-apiserver kubectl
fi

# A new Go or a new version of a server makes a new folder.
cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podconfigd}
key=$({ go version; cat go.mod go.sum; } | sha256sum | cut -c1-12)
out=$cache/components/$key
mkdir -p "$out"

for name in "$@"; do
	if [[ -x $out/$name ]]; then
		continue
	fi
	# One at a time: several test programs may find it missing at once.
	exec 9>"$out/lock"
	flock 9
	if [[ -x $out/$name ]]; then
		continue
	fi
	path=${package[$name]?there is no component of the name $name}
	# k8s.io/kubernetes knows its version from the linker only.
	ldflags='-s -w'
	if [[ $name == kube* ]]; then
		version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
		minor=${version#v1.}
		ldflags+=" -X k8s.io/component-base/version.gitVersion=$version"
		ldflags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
	fi
	echo "==> building $name into $out (once; it takes about ${takes[$name]} from cold caches on 2 cores)" >&2
	begin=$SECONDS
	env -u GOOS -u GOARCH CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$out/$name.tmp" "$path" >&2
	mv "$out/$name.tmp" "$out/$name"
	echo "==> built $name in $((SECONDS - begin)) s" >&2
	exec 9>&-
done
echo "$out"

#!/usr/bin/env bash
# Builds the servers and clients that the tests need, unless they exist, and prints the
# folder of each. Usage: hack/components.sh [NAME...]
#
# The sources come from the Go module proxy, in the versions of test/components/servers,
# test/components/kubelet* and test/components/containerd*. Only `make test-all` and `make conformance` need the
# kubelets, and only the long tests need containerd 1.7: they are built if they are named. What
# follows @ in a name is not part of the name of the binary. debian-containerd is a package from apt-get. It is
# unpacked and not installed, so it does not run as a service and does not replace another
# containerd.
# CACHE  folder of the binaries (default ~/.cache/podconfigd)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../test/components"

declare -A package=(
	[etcd]=go.etcd.io/etcd/server/v3
	[kube-apiserver]=k8s.io/kubernetes/cmd/kube-apiserver
	[kubectl]=k8s.io/kubernetes/cmd/kubectl
	[kubelet]=k8s.io/kubernetes/cmd/kubelet
	[kubelet-1.34]=k8s.io/kubernetes/cmd/kubelet
	[kubelet-1.36]=k8s.io/kubernetes/cmd/kubelet
	[containerd]=github.com/containerd/containerd/v2/cmd/containerd
	[containerd-shim-runc-v2]=github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	[ctr]=github.com/containerd/containerd/v2/cmd/ctr
	[containerd-1.7]=github.com/containerd/containerd/cmd/containerd
	[containerd-shim-runc-v2@1.7]=github.com/containerd/containerd/cmd/containerd-shim-runc-v2
	[ctr@1.7]=github.com/containerd/containerd/cmd/ctr
)
declare -A module=(
	[etcd]=servers [kube-apiserver]=servers [kubectl]=servers [kubelet]=kubelet
	[kubelet-1.34]=kubelet-1.34 [kubelet-1.36]=kubelet-1.36
	[containerd]=containerd [containerd-shim-runc-v2]=containerd [ctr]=containerd
	[containerd-1.7]=containerd-1.7 [containerd-shim-runc-v2@1.7]=containerd-1.7 [ctr@1.7]=containerd-1.7
)

if [[ $# -eq 0 ]]; then
	set -- etcd kube-apiserver kubectl containerd containerd-shim-runc-v2 ctr debian-containerd
fi

debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg

cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podconfigd}/components

# build OUT NAME... builds from the Go module proxy. It builds all at once: linking uses only
# one processor, and the others compile.
build() {
	local out=$1 name packages=()
	shift
	for name in "$@"; do packages+=("${package[$name]}"); done
	# k8s.io/kubernetes gets its version only from the linker.
	local ldflags='-s -w' version minor
	if [[ " $* " == *' kube'* ]]; then
		version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
		minor=${version#v1.}
		ldflags+=" -X k8s.io/component-base/version.gitVersion=$version"
		ldflags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
	fi
	echo "==> building $* into $out (only once; all servers take about four minutes with cold caches on 2 cores)" >&2
	local begin=$SECONDS
	rm -rf "$out/tmp" && mkdir "$out/tmp"
	# The compilers take a sixth less time if they collect garbage less often. The tag is that of
	# "make build": with it, packages that import gRPC are compiled once for the servers and podconfigd.
	env -u GOOS -u GOARCH CGO_ENABLED=0 GOGC=400 GOMEMLIMIT=1GiB go build -trimpath -tags=grpcnotrace -ldflags "$ldflags" -o "$out/tmp/" "${packages[@]}" >&2
	for name in "$@"; do
		# go build names a binary after the last path element that is not a version.
		local built
		built=$(basename "${package[$name]%/v[0-9]}")
		mv "$out/tmp/$built" "$out/${name%@*}"
	done
	rm -r "$out/tmp"
	echo "==> built $* in $((SECONDS - begin)) s" >&2
}

# unpack OUT unpacks Debian's containerd 1.6, which has no event stream. If this Debian
# release has a later containerd, it takes the package of bookworm.
unpack() {
	local out=$1 temp
	command -v apt-get >/dev/null || {
		echo "components: downloading Debian's containerd: apt-get not found" >&2
		return 1
	}
	echo "==> apt-get download containerd into $out (once)" >&2
	temp=$(mktemp -d "$out/tmp.XXXXXX")
	(
		cd "$temp"
		download() { apt-get -qq -o APT::Sandbox::User=root "$@" download 'containerd=1.6.*' >&2; }
		download 2>/dev/null && exit
		[[ $(id -u) -ne 0 ]] || apt-get update -qq >&2
		download 2>/dev/null && exit
		echo '==> this release has no containerd 1.6; using the package of Debian bookworm' >&2
		mkdir -p lists/partial cache/archives/partial
		echo "deb [signed-by=$debian_keys] http://deb.debian.org/debian bookworm main" >sources
		options=(-o Dir::Etc::sourcelist="$PWD/sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache")
		apt-get -qq -o APT::Sandbox::User=root "${options[@]}" update >&2
		download "${options[@]}"
	)
	dpkg-deb -x "$temp"/containerd_*.deb "$temp/x"
	mv "$temp"/x/usr/bin/{ctr,containerd-shim-runc-v2} "$out/"
	mv "$temp/x/usr/bin/containerd" "$out/debian-containerd"
	rm -r "$temp"
}

# folder NAME prints the folder of a component. Each version of Go and of the servers has
# its own folder.
folder() {
	if [[ $1 == debian-containerd ]]; then
		echo "$cache/debian-$(. /etc/os-release && echo "${VERSION_CODENAME-none}")"
	else
		(
			cd "${module[$1]?unknown component $1}"
			echo "$cache/$({ go version; cat go.mod go.sum; } | sha256sum | cut -c1-12)"
		)
	fi
}

# provide NAME builds what is missing of the component's module: who needs containerd needs ctr and
# the shim too.
provide() {
	local out name names=("$1") missing=()
	for name in "${!module[@]}"; do [[ $name == "$1" || ${module[$name]} != "${module[$1]-}" ]] || names+=("$name"); done
	out=$(folder "$1")
	mkdir -p "$out"
	# The lock is necessary because several test programs may start at the same time.
	exec 9>"$out/lock"
	flock 9
	for name in "${names[@]}"; do [[ -x $out/${name%@*} ]] || missing+=("$name"); done
	if [[ ${#missing[@]} -eq 0 ]]; then
		:
	elif [[ $1 == debian-containerd ]]; then
		unpack "$out"
	else
		(cd "${module[$1]}" && build "$out" "${missing[@]}")
	fi
	exec 9>&-
}

for name in "$@"; do provide "$name"; done
for name in "$@"; do folder "$name"; done

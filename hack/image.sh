#!/usr/bin/env bash
# Builds the Dockerfile with buildah, checks the image, and removes all that it made:
#
#   hack/image.sh [VERSION]
#
# It needs no registry. The base image is made from this machine's Go, make and shell. The build gets
# the modules from this machine's module cache, uses its build cache, and has no network.
# It runs as root, since it mounts the image and starts its program as the image's user. If buildah is
# missing, it is installed from Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-dev}
go=${GO:-go}

fail() { echo "hack/image.sh: $*" >&2; exit 1; }
say() { echo "==> $*"; }

[ "$(id -u)" = 0 ] || fail "run it as root: it mounts the image and starts its program as the image's user"
if ! command -v buildah >/dev/null; then
	say 'installing buildah'
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends buildah >/dev/null
fi

# The script runs itself in namespaces of its own, whose processes and mounts end with them. So it
# removes $work where nothing is mounted, above all not the caches of Go.
work=${PODCONFIGD_IMAGE_WORK:-}
if [ -z "$work" ]; then
	work=$(mktemp -d)
	made=
	# shellcheck disable=SC2317 # called by the trap
	clean() {
		rm -rf --one-file-system "$work" 2>/dev/null || { sleep 1; rm -rf --one-file-system "$work"; }
		[ -z "$made" ] || rmdir "$made"
	}
	trap clean EXIT
	trap 'kill -KILL "$!"; exit 130' INT TERM
	[ -e /var/lib/containers ] || { mkdir /var/lib/containers && made=/var/lib/containers; }
	PODCONFIGD_IMAGE_WORK=$work unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$BASH" "hack/${0##*/}" "$version" &
	wait "$!"
	exit
fi

# Nothing is stored outside of $work: no image, no container, no cache. Buildah has no option for the
# cache in /var/lib/containers.
mkdir "$work/tmp" "$work/run" "$work/containers"
mount --bind "$work/containers" /var/lib/containers
export TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/run BUILDAH_ISOLATION=chroot
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json"
buildah() { command buildah --root "$work/root" --runroot "$work/run/storage" --storage-driver vfs "$@"; }

# base makes the base image: Go, and the programs that the Dockerfile and the Makefile run.
base() {
	local rootfs=$1 goroot program
	goroot=$($go env GOROOT)
	mkdir -p "$rootfs"/{bin,etc/ssl/certs,root,tmp,usr/local/go,go} && chmod 1777 "$rootfs/tmp"
	for program in sh make cat cut env git mkdir sha256sum; do
		program=$(command -v "$program") || fail "$program is missing"
		{ echo "$program"; ldd "$program" | grep -o '/[^ ]*' || true; } | while read -r file; do
			[ -e "$rootfs/$file" ] || { mkdir -p "$rootfs/${file%/*}" && cp -L "$file" "$rootfs/$file"; }
		done
	done
	[ -e "$rootfs/bin/sh" ] || cp -L "$(command -v sh)" "$rootfs/bin/sh"
	cp -L /etc/ssl/certs/ca-certificates.crt "$rootfs/etc/ssl/certs/"
	cp -r "$goroot"/{bin,go.env,lib,pkg,src,VERSION} "$rootfs/usr/local/go/"
}

say 'downloading the modules'
$go mod download

say 'making the base image'
base "$work/base"
cat >"$work/Dockerfile.base" <<-'EOF'
	FROM scratch
	COPY . /
	ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPATH=/go GOTOOLCHAIN=local GOPROXY=file:///modules GOSUMDB=off GOCACHE=/cache
EOF
buildah build --quiet --signature-policy "$work/policy.json" -f "$work/Dockerfile.base" -t localhost/go "$work/base" >/dev/null
rm -r "$work/base"

say 'building the Dockerfile'
buildah build --quiet --signature-policy "$work/policy.json" --pull=never --network none --platform "linux/$($go env GOARCH)" \
	--volume "$($go env GOMODCACHE)/cache/download:/modules:ro" --volume "$($go env GOCACHE):/cache" \
	--build-arg GO_IMAGE=localhost/go --build-arg "VERSION=$version" -t localhost/podconfigd . >/dev/null

say 'checking the image'
config() { buildah inspect --type image --format "{{$1}}" localhost/podconfigd; }
equal() { [ "$2" = "$3" ] || fail "the image's $1: expected $3, got $2"; }
user=$(config .OCIv1.Config.User)
entrypoint=$(config '(index .OCIv1.Config.Entrypoint 0)')
mapfile -t env < <(config 'range .OCIv1.Config.Env}}{{println .}}{{end')
equal user "$user" 65532:65532
equal entrypoint "$(config .OCIv1.Config.Entrypoint)" '[/podconfigd]'
equal version "$(config '(index .OCIv1.Config.Labels "org.opencontainers.image.version")')" "$version"
case ${env[*]} in *XDG_RUNTIME_DIR=/run*) ;; *) fail "the image's environment: expected XDG_RUNTIME_DIR=/run, got ${env[*]}" ;; esac
case ${env[*]} in *GO*) fail "the image's environment has variables of the base: ${env[*]}" ;; esac

rootfs=$(buildah mount "$(buildah from --quiet --signature-policy "$work/policy.json" --pull-never localhost/podconfigd)")
files=$(cd "$rootfs" && find . -type f | sort | tr '\n' ' ')
equal files "$files" './LICENSE ./etc/ssl/certs/ca-certificates.crt ./podconfigctl ./podconfigd '
for dir in run/podconfigd var/lib/podconfigd; do
	equal "owner of /$dir" "$(stat -c %u:%g "$rootfs/$dir")" "$user"
done
say "the image has $(du -sm "$rootfs" | cut -f1) MB, podconfigd $(du -m "$rootfs/podconfigd" | cut -f1) MB, podconfigctl $(du -m "$rootfs/podconfigctl" | cut -f1) MB"

# in_image runs a command of the image with its user and environment, and without a shell.
in_image() { exec env -i "${env[@]}" chroot --userspec="$user" "$rootfs" "$@"; }
say "$entrypoint version, --version and --help"
(in_image "$entrypoint" version)
(in_image "$entrypoint" version) | grep -qF -- "$version" || fail "the program's version is not $version"
(in_image "$entrypoint" --version)
(in_image "$entrypoint" --help) | grep -F -- --pod-manifest-path

say 'a start with a directory of static pods'
mkdir -p "$rootfs/etc/kubernetes/manifests" "$rootfs/proc"
mount -t proc proc "$rootfs/proc" # as in every container
printf '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}\n' \
	>"$rootfs/etc/kubernetes/manifests/web.json"
in_image "$entrypoint" --pod-manifest-path=/etc/kubernetes/manifests --state-dir=/var/lib/podconfigd --hostname-override=node1 2>"$work/log" &
daemon=$!
for _ in $(seq 100); do
	pods=$(in_image /podconfigctl get pods 2>&1) && [[ $pods == *web-node1* ]] && break
	kill -0 $daemon 2>/dev/null || break
	sleep 0.2
done
[[ $pods == *web-node1* ]] || { cat "$work/log" >&2; fail "get pods: $pods"; }
echo "$pods"
equal 'user of the daemon' "$(awk '/^Uid|^Gid/ { print $2 }' /proc/$daemon/status | paste -sd:)" "$user"
kill $daemon
wait $daemon || fail "the daemon ends with status $?: $(cat "$work/log")"
say 'the image is built, starts and stops. It is removed now'

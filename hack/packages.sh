#!/usr/bin/env bash
# Makes the packages for Debian and RPM distributions into a folder, from the tree.
# Usage: hack/packages.sh NFPM OUT ARCH...   ARCH is amd64 or arm64.
# VERSION  version of the packages (default: from git)
# CONFIG   configuration of nfpm (default: deploy/packages/nfpm.yaml)
# MAN      directory with the manual pages (default: they are written)
# PROGRAM  podconfigd for the architecture of this machine, and CTL its podconfigctl (default: they are built)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
nfpm=$1 out=$2
shift 2

# Versions of packages begin with a digit. A commit without a tag is older than every release.
version=${VERSION:-$(git describe --tags --dirty --match 'v[0-9]*' 2>/dev/null || echo "v0.0.0-$(git rev-parse --short HEAD)")}
files=bin/packages/files
# Files have the time of the commit: the same commit gives the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf "$files"
mkdir -p "$files/man" "$out"
native=$(go env GOHOSTARCH)

for arch in "$native" "$@"; do # the programs of this machine write the completions
	if [[ -n ${PROGRAM:-} && $arch == "$native" ]]; then
		mkdir -p "$files/$arch" && ln -f "$PROGRAM" "$files/$arch/podconfigd" && ln -f "$CTL" "$files/$arch/podconfigctl"
	elif [[ ! -e $files/$arch/podconfigd ]]; then
		echo "==> building podconfigd $version for linux/$arch"
		GOOS=linux GOARCH=$arch make --no-print-directory build BIN="$files/$arch/podconfigd" CTL="$files/$arch/podconfigctl" VERSION="$version"
	fi
done
for program in podconfigd podconfigctl; do
	"$files/$native/$program" completion bash >"$files/$program.bash"
	"$files/$native/$program" completion fish >"$files/$program.fish"
	"$files/$native/$program" completion zsh >"$files/_$program"
done
if [[ -n ${MAN:-} ]]; then
	cp "$MAN"/*.1 "$files/man/"
else
	CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" go test ./cmd/podconfigd ./cmd/podconfigctl -vet=off -run '^TestManPages$' -count=1 -man "$PWD/$files/man" >/dev/null
fi
gzip -9n "$files"/man/*.1

for arch in "$@"; do
	for packager in deb rpm; do
		ARCH=$arch VERSION=${version#v} "$nfpm" package --config "${CONFIG:-deploy/packages/nfpm.yaml}" --packager "$packager" --target "$out/"
	done
done

#!/usr/bin/env bash
# Installs the Debian packages whose commands the tests run, where a command is
# missing. Usage: hack/test-deps.sh
set -euo pipefail

# command=package. The editors and rsync each replace a file in a way of their own,
# curl is a client of the socket that isn't ours, with jq and Python examples are
# written, nginx serves a manifest URL, runc is what containerd runs containers with,
# and the race detector needs cgo.
deps=(
	vim.tiny=vim-tiny
	rsync=rsync
	curl=curl
	jq=jq
	python3=python3
	nginx=nginx
	runc=runc
	cc=gcc
)

packages=()
for dep in "${deps[@]}"; do
	if ! command -v "${dep%%=*}" >/dev/null; then
		packages+=("${dep#*=}")
		if [[ ${dep%%=*} == cc ]]; then
			packages+=(libc6-dev)
		fi
	fi
done
if [[ ${#packages[@]} -eq 0 ]]; then
	exit 0
fi

fail() {
	echo "test-deps: missing: ${packages[*]} (Debian's names): $1" >&2
	exit 1
}
command -v apt-get >/dev/null || fail "install them by hand, there is no apt-get here"
[[ $(id -u) -eq 0 ]] || fail "run: sudo apt-get install --no-install-recommends ${packages[*]}"

echo "==> apt-get install ${packages[*]}"
# RUNLEVEL keeps Debian from starting what it installs.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update -qq || fail "apt-get update failed"
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
	fail "apt-get install failed"

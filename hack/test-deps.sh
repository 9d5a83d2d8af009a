#!/usr/bin/env bash
# Installs the Debian packages of the commands that the tests need, if a command is missing.
# Usage: hack/test-deps.sh [COMMAND=PACKAGE...]   what is needed besides
set -euo pipefail

# command=package. vim and rsync replace files in different ways. curl is an independent
# client of the socket. Examples use jq and Python. nginx serves a manifest URL. containerd
# needs runc. strace makes system calls fail. Prometheus runs the dashboard's queries and the alerts. An ext4 becomes read-only at an error. The race
# detector needs cgo, and cgo needs a C compiler. tmux is the terminal of "podconfigctl top".
# systemd runs the units of deploy/systemd, and rpm installs a package.
# The documentation uses openssl.
deps=(
	vim.tiny=vim-tiny
	rsync=rsync
	curl=curl
	jq=jq
	python3=python3
	nginx=nginx
	runc=runc
	strace=strace
	prometheus=prometheus
	promtool=prometheus
	mkfs.ext4=e2fsprogs
	systemd-analyze=systemd
	rpm=rpm
	cc=gcc
	tmux=tmux
	openssl=openssl
	"$@"
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
	echo "test-deps: missing Debian packages: ${packages[*]}: $1" >&2
	exit 1
}
command -v apt-get >/dev/null || fail "apt-get not found; install them manually"
[[ $(id -u) -eq 0 ]] || fail "run: sudo apt-get install --no-install-recommends ${packages[*]}"

echo "==> apt-get install ${packages[*]}"
# With RUNLEVEL=1, Debian does not start the installed services.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update -qq || fail "apt-get update failed"
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
	fail "apt-get install failed"

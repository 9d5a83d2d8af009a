#!/usr/bin/env bash
# Installs clients for test/clients, unless they are installed, and prints the path of each.
# Usage: hack/clients.sh [NAME...]
#
# Go programs are built from the Go module proxy, with the go.mod of their own module, so
# with the dependencies that their project chose. The OpenTelemetry Collector is built from
# test/clients/otelcol, and Kepler's watcher from test/clients/kepler. The client for Node.js
# comes from the npm registry, that for Python from Debian.
# CACHE  folder of the clients (default ~/.cache/podconfigd)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podconfigd}/clients
modules=$root/test/clients

# module, checksum, build tags, and package of each Go program. Prometheus is built with
# only its Kubernetes discovery, and Telegraf with only the plugins of the test. The server of SPIRE has SQLite, which is C: its
# agent is built in the same way, so that their packages are compiled once.
declare -A program=(
	[grpcurl]='github.com/fullstorydev/grpcurl@v1.9.4 h1:7bC3tlRwS7dPyfhBo0Xmigns8hWH/K4fg9NrafpY57k= - ./cmd/grpcurl'
	[kube-state-metrics]='k8s.io/kube-state-metrics/v2@v2.16.0 h1:9odhnjtWSngkq/6Maw9m0Fi9dH8DM4M/lQw/XCspAqk= - .'
	[prometheus]='github.com/prometheus/prometheus@v0.316.0 h1:f1GRFerhTMKQma+awCoC9T820ecWeGSdF+xAlMHzZzM= remove_all_sd,enable_kubernetes_sd ./cmd/prometheus'
	[spire-agent]='github.com/spiffe/spire@v1.13.0 h1:xqpaVDwgmyRKw5yDs8xVRi5wM6nChXjLXxjDcSpA/rw= - ./cmd/spire-agent'
	[spire-server]='github.com/spiffe/spire@v1.13.0 h1:xqpaVDwgmyRKw5yDs8xVRi5wM6nChXjLXxjDcSpA/rw= - ./cmd/spire-server'
	[telegraf]='github.com/influxdata/telegraf@v1.37.2 h1:mYr0I/suEw9+UM4KrCFuYuzJuq/e99cINniIwqO6ykw= custom,inputs.prometheus,outputs.file,serializers.influx ./cmd/telegraf'
	[victoria-logs]='github.com/VictoriaMetrics/VictoriaLogs@v1.52.1 h1:B83xu4usTNPrpsFZFH/Dei3nWIsQizIeSRghFxj4ZJo= - ./app/victoria-logs'
)

if [[ $# -eq 0 ]]; then
	set -- grpcurl python node prometheus otelcol telegraf kube-state-metrics kepler spire-agent spire-server victoria-logs
fi

say() { echo "==> $*" >&2; }

fail() {
	echo "clients: installing $1: $2" >&2
	exit 1
}

# build NAME OUT PACKAGE FLAG... builds in the current folder.
build() {
	local name=$1 out=$2 package=$3 begin=$SECONDS
	shift 3
	say "building $name into $out (once)"
	env -u GOOS -u GOARCH GOWORK=off CGO_ENABLED="${cgo:-0}" \
		go build -trimpath -buildvcs=false -ldflags '-s -w' "$@" -o "$out.tmp" "$package" >&2 ||
		fail "$name" 'go build failed'
	mv "$out.tmp" "$out"
	say "built $name in $((SECONDS - begin)) s"
}

go_program() {
	local module sum tags package out dir cgo=0
	[[ $1 == spire-* ]] && cgo=1
	read -r module sum tags package <<<"${program[$1]}"
	out=$cache/$({ go version; echo "${program[$1]}"; } | sha256sum | cut -c1-12)/$1
	if [[ ! -x $out ]]; then
		mkdir -p "${out%/*}"
		# The checksum database does not have all of them. The checksum is above.
		dir=$(cd / && GOFLAGS=-mod=mod GONOSUMDB=k8s.io/kube-state-metrics go mod download -json "$module") || fail "$1" "go mod download $module failed: $dir"
		[[ $dir == *"\"Sum\": \"$sum\""* ]] || fail "$1" "$module does not have the checksum $sum: $dir"
		dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$dir")
		[[ $tags == - ]] && tags=
		(cd "$dir" && build "$1" "$out" "$package" -tags "$tags")
	fi
	echo "$out"
}

# module NAME builds the module test/clients/NAME.
module() {
	local out
	out=$cache/$({ go version; cat "$modules/$1"/*; } | sha256sum | cut -c1-12)/$1
	if [[ ! -x $out ]]; then
		mkdir -p "${out%/*}"
		(cd "$modules/$1" && build "$1" "$out" .)
	fi
	echo "$out"
}

# debian NAME PACKAGES COMMAND... installs the packages if the command fails.
debian() {
	local name=$1 packages=$2
	shift 2
	"$@" >/dev/null 2>&1 && return
	command -v apt-get >/dev/null || fail "$name" "apt-get not found; install $packages"
	[[ $(id -u) -eq 0 ]] || fail "$name" "run: sudo apt-get install --no-install-recommends $packages"
	say "apt-get install $packages"
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	apt-get update -qq >&2 || fail "$name" 'apt-get update failed'
	# shellcheck disable=SC2086 # several packages
	apt-get install -y -qq --no-install-recommends $packages >/dev/null || fail "$name" "apt-get install $packages failed"
	"$@" >/dev/null || fail "$name" "$* fails with $packages installed"
}

python() {
	debian python python3-kubernetes /usr/bin/python3 -c 'import kubernetes'
	echo /usr/bin/python3
}

node() {
	local out
	debian node 'nodejs npm' npm --version
	out=$cache/$({ command node --version; cat "$modules"/node/package-lock.json; } | sha256sum | cut -c1-12)/node
	if [[ ! -d $out ]]; then
		say "npm ci of $(sed -n 's/^ *"\(@.*\)".*"\(.*\)"/\1@\2/p' "$modules/node/package.json") into $out (once)"
		rm -rf "$out.tmp" && mkdir -p "$out.tmp"
		cp "$modules"/node/package*.json "$out.tmp/"
		(cd "$out.tmp" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) || fail node 'npm ci failed'
		mv "$out.tmp" "$out"
	fi
	echo "$out/node_modules"
}

mkdir -p "$cache"
# Several test programs may start at the same time.
exec 9>"$cache/lock"
flock 9
for name in "$@"; do
	case $name in
	grpcurl | kube-state-metrics | prometheus | spire-agent | spire-server | telegraf | victoria-logs) go_program "$name" ;;
	otelcol) module otelcol ;;
	kepler) cgo=1 module kepler ;; # its library for NVIDIA's devices is C
	python | node) "$name" ;;
	*) fail "$name" 'there is no such client' ;;
	esac
done

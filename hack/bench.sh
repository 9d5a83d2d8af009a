#!/usr/bin/env bash
# Runs the benchmarks of the modules and summarizes them with benchstat.
# Usage: hack/bench.sh OUTPUT-DIR MODULE-DIR...
# MODULE-DIR is relative to the root of the repository.
#
# BENCH        regular expression of the benchmarks to run (default .)
# BENCH_COUNT  number of runs of each benchmark (default 6)
# BASE         output of an earlier run to compare with, relative to the root (default none)
# BENCHSTAT    benchstat command (default benchstat)
set -euo pipefail

outdir=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p "$outdir"
out=$outdir/$(date +%Y%m%d-%H%M%S)-$(git describe --always --dirty 2>/dev/null || echo unknown).txt
: >"$out"
for module in "$@"; do
	# This reads the files, because `go test -list` links the test of every package first.
	found=$(cd "$module" && go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r path dir; do
		if grep -qs '^func Benchmark' "$dir"/*_test.go; then echo "$path"; fi
	done)
	if [[ -z $found ]]; then
		continue
	fi
	mapfile -t packages <<<"$found"
	echo "==> benchmarks of $module: ${packages[*]}"
	# Run one package at a time (-p 1), because parallel benchmarks disturb each other.
	(cd "$module" && go test -p 1 -run '^$' -bench "${BENCH:-.}" -benchmem \
		-count "${BENCH_COUNT:-6}" -timeout 0 "${packages[@]}") | tee -a "$out"
done
if [[ ! -s $out ]]; then
	rm "$out"
	echo "==> no benchmarks"
	exit 0
fi

echo "==> benchstat, of $out${BASE:+ against $BASE}"
"${BENCHSTAT:-benchstat}" ${BASE:+"base=$BASE"} "run=$out"

# For benchmarks that also run the kubelet: both results, and the ratio of the times.
peers=(-filter '/peer:(kubelet OR podconfigd)' -col '/peer@(kubelet podconfigd)')
if grep -q '/peer=kubelet' "$out"; then
	echo "==> podconfigd and the kubelet"
	"${BENCHSTAT:-benchstat}" "${peers[@]}" "$out"
	echo "==> time of the kubelet divided by time of podconfigd"
	"${BENCHSTAT:-benchstat}" -format csv "${peers[@]}" "$out" 2>/dev/null | awk -F, '
		$2 == "sec/op" { times = 1; next }
		$1 == "" || $1 == "geomean" { times = 0 }
		times && $2 > 0 && $4 > 0 { printf "%-40s %8.2f\n", $1, $2 / $4 }'
fi

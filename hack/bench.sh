#!/usr/bin/env bash
# Runs the benchmarks of the modules and summarizes them with benchstat.
# Usage: hack/bench.sh OUTPUT-DIR MODULE-DIR..., the modules relative to the root
#
# BENCH        which benchmarks, a regular expression (default .)
# BENCH_COUNT  how often each (default 6)
# BASE         the output of an earlier run to compare with (default none), relative
#              to the root
# BENCHSTAT    the benchstat command (default benchstat)
set -euo pipefail

outdir=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

mkdir -p "$outdir"
out=$outdir/$(date +%Y%m%d-%H%M%S)-$(git describe --always --dirty 2>/dev/null || echo unknown).txt
: >"$out"
for module in "$@"; do
	found=$(cd "$module" && "$root/hack/packages-with.sh" Benchmark)
	if [[ -z $found ]]; then
		continue
	fi
	mapfile -t packages <<<"$found"
	echo "==> benchmarks of $module: ${packages[*]}"
	# One package after the other (-p 1): two at once would measure each other.
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

# What has the kubelet as its peer, side by side, and how many times faster ours is.
peers=(-filter '/peer:(kubelet OR podconfigd)' -col '/peer@(kubelet podconfigd)')
if grep -q '/peer=kubelet' "$out"; then
	echo "==> beside the kubelet"
	"${BENCHSTAT:-benchstat}" "${peers[@]}" "$out"
	echo "==> the kubelet's time as a multiple of ours"
	"${BENCHSTAT:-benchstat}" -format csv "${peers[@]}" "$out" 2>/dev/null | awk -F, '
		$2 == "sec/op" { times = 1; next }
		$1 == "" || $1 == "geomean" { times = 0 }
		times && $2 > 0 && $4 > 0 { printf "%-40s %8.2f\n", $1, $2 / $4 }'
fi

#!/usr/bin/env bash
# Runs tests many times on a machine that is slow and busy: one processor for each program, and three busy loops
# beside. Prints the tests that failed in some run, and exits with 1 if there are any.
#
# Usage: hack/flakes.sh LOGS RUNS PACKAGES FOLDER...
# LOGS is a folder for the output of what failed. Each FOLDER has the programs that hack/keep-test.sh kept: PACKAGES of
# each FOLDER run at a time, in the order in which they were kept.
set -uo pipefail

logs=$1 runs=$2 packages=$3
shift 3
rm -rf "$logs" && mkdir -p "$logs"
flakes=$logs/flakes
loops=()
for _ in 1 2 3; do
	while :; do :; done &
	loops+=($!)
done
trap 'kill "${loops[@]}"' EXIT

# once LOG PACKAGE runs the tests of a package.
once() {
	local log=$1-$(basename "$2").log
	if GOMAXPROCS=1 bash "$2/run.sh" >"$log" 2>&1; then
		rm "$log"
	fi
}
export -f once

for ((i = 1; i <= runs; i++)); do
	begin=$SECONDS running=()
	echo "==> run $i of $runs under stress"
	for folder in "$@"; do
		ls -dtr "$folder"/*/ | xargs -d '\n' -n 1 -P "$packages" bash -c 'once "$0" "$1"' "$logs/$i" &
		running+=($!)
	done
	wait "${running[@]}"
	for log in "$logs/$i"-*.log; do
		[[ -e $log ]] || continue
		{ grep -aE '^ *--- FAIL|^panic:|^fatal error:' "$log" || echo 'failed without a failed test'; } |
			sed "s,^,run $(basename "$log" .log): ," | tee -a "$flakes"
	done
	echo "    $((SECONDS - begin)) s"
done
if [[ -s $flakes ]]; then
	echo "==> flakes (output in $logs):"
	sed -E 's/^run [0-9]+-//; s/ \([0-9.]+s\)$//' "$flakes" | sort | uniq -c | sort -rn
	exit 1
fi
echo '==> flakes: none'

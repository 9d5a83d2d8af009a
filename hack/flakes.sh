#!/usr/bin/env bash
# Runs the short tests many times on a machine that is slow and busy: one processor for each program,
# and three busy loops beside. Prints the tests that failed in some run, and exits with 1 if there are any.
#
# Usage: hack/flakes.sh RUNS COMMAND...
# COMMAND runs the tests once.
set -uo pipefail

runs=$1
shift
log=$(mktemp)
loops=()
for _ in 1 2 3; do
	while :; do :; done &
	loops+=($!)
done
trap 'kill "${loops[@]}"; rm -f "$log"' EXIT

for ((i = 1; i <= runs; i++)); do
	echo "==> run $i of $runs under stress"
	GOMAXPROCS=1 "$@" >"$log" 2>&1 || grep -aE '^ *--- FAIL|^FAIL|^panic:|Error ' "$log" | sed "s/^/run $i: /" | tee -a "$log.flakes"
done
if [[ -s $log.flakes ]]; then
	echo '==> flakes:'
	sed -E 's/^run [0-9]+: +//; s/ \([0-9.]+s\)$//; s/\t[0-9.]+s$//' "$log.flakes" | sort | uniq -c | sort -rn
	rm "$log.flakes"
	exit 1
fi
echo '==> flakes: none'

#!/usr/bin/env bash
# Runs the short tests many times on a machine that is slow and busy: one processor for each program,
# and three busy loops beside. Prints the tests that failed in some run, and exits with 1 if there are any.
#
# Usage: hack/flakes.sh LOGS RUNS COMMAND...
# COMMAND runs the tests once. LOGS is a folder for the output of the runs that failed.
set -uo pipefail

logs=$1 runs=$2
shift 2
rm -rf "$logs" && mkdir -p "$logs"
flakes=$logs/flakes
loops=()
for _ in 1 2 3; do
	while :; do :; done &
	loops+=($!)
done
trap 'kill "${loops[@]}"' EXIT

for ((i = 1; i <= runs; i++)); do
	log=$logs/$i.log begin=$SECONDS
	echo "==> run $i of $runs under stress"
	if GOMAXPROCS=1 "$@" >"$log" 2>&1; then
		rm "$log"
	else
		{ grep -aE '^ *--- FAIL|^FAIL|^panic:|Error ' "$log" || echo 'failed without a failed test'; } | sed "s/^/run $i: /" | tee -a "$flakes"
	fi
	echo "    $((SECONDS - begin)) s"
done
if [[ -s $flakes ]]; then
	echo "==> flakes (output in $logs):"
	sed -E 's/^run [0-9]+: +//; s/ \([0-9.]+s\)$//; s/\t[0-9.]+s$//' "$flakes" | sort | uniq -c | sort -rn
	exit 1
fi
echo '==> flakes: none'

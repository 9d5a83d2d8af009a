#!/usr/bin/env bash
# Runs parts of the tests one after another, and prints a summary: what ran, how long, and what was
# skipped and why. A part that fails does not end the run, but the script exits with 1 then.
#
# Usage: hack/test-parts.sh LOGS PART...
# LOGS is the folder of the parts' output. A PART is NAME=TARGET [VARIABLE=VALUE...], a target of make.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$1
shift
mkdir -p "$logs"
begin=$SECONDS failed=0 rows=()

for part in "$@"; do
	name=${part%%=*} start=$SECONDS result=passed
	log=$logs/$name.log
	read -ra arguments <<<"${part#*=}"
	printf '==> %s (make %s; output in %s)\n' "$name" "${arguments[*]}" "$log"
	if ! make --no-print-directory "${arguments[@]}" >"$log" 2>&1; then
		result=FAILED
		failed=1
		grep -aE -A 20 '^ *--- FAIL|^FAIL|^panic:|make.*Error' "$log" | tail -n 60
	fi
	# Each line "--- PASS: TestX (1.23s)" of a test that is no subtest.
	rows+=("$(printf '%-14s %-7s %6d s %6d tests %4d skipped' "$name" "$result" $((SECONDS - start)) \
		"$(grep -acE '^--- PASS' "$log")" "$(grep -acE '^ *--- SKIP' "$log")")")
	printf '    %s in %d s\n' "$result" $((SECONDS - start))
done

printf '\n==> summary, %d min %d s in all\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60))
printf '%s\n' "${rows[@]}"
skipped=$(for part in "$@"; do
	# The reason is the line before that of the test.
	awk -v part="${part%%=*}" '/^ *--- SKIP: / { sub(/^ *([a-z_0-9]+\.go:[0-9]+: )?/, "", last); print part ": " $3 ": " last } { last = $0 }' "$logs/${part%%=*}.log"
done)
[[ -z $skipped ]] || printf '\n==> skipped\n%s\n' "$skipped"
exit $failed

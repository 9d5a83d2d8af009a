#!/usr/bin/env bash
# Puts each defect of test/mutants into the last commit, runs the test that must find it, and prints a table. A
# defect that no test finds, a patch that does not apply any more, and a test that fails without the defect fail the run.
#
# Usage: hack/mutants.sh [PATCH...]   (default: all of test/mutants)
#
# A patch begins with lines "Defect: ", "Package: " and "Test: ", a regular expression. git diff -U1 makes the rest:
# with little context, and in one place, it applies also after changes beside it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -gt 0 ]] || set -- test/mutants/*.patch
patches=("${@/#/$PWD/}")

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git clone -q --shared . "$tree" || exit 1
cd "$tree" || exit 1

rows=() failed=0
field() { sed -n "s/^$1: //p" "$patch"; }
run() {
	CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" go test -tags=grpcnotrace -vet=off -timeout 3m "$@" -run "^($(field Test))\$" "$(field Package)" 2>&1
}
for patch in "${patches[@]}"; do
	start=$SECONDS
	if ! git apply --recount --check "$patch" 2>/dev/null; then
		result='DOES NOT APPLY'
	elif ! out=$(run); then
		result='FAILS WITHOUT'
		printf '%s\n' "$out" | tail -n 20
	else
		git apply --recount "$patch"
		out=$(run -count=1)
		# A test that does not compile finds nothing. One that hangs until the limit does.
		if grep -qE '^ *--- FAIL: |^panic: ' <<<"$out"; then
			result=found
		else
			result='NOT FOUND'
			printf '%s\n' "$out" | tail -n 20
		fi
		git checkout -q . && git clean -qfd
	fi
	[[ $result == found ]] || failed=1
	rows+=("$(printf '%-14s %4d s  %-60s %s' "$result" $((SECONDS - start)) "$(field Defect)" "$(field Package) $(field Test)")")
	printf '%s\n' "${rows[-1]}"
done
printf '\n==> %d of %d defects were found\n' "$(printf '%s\n' "${rows[@]}" | grep -c '^found')" ${#rows[@]}
exit $failed

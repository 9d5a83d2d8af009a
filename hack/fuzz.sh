#!/usr/bin/env bash
# Runs every fuzz target, as many at a time as there are processors. Prints a line for each target, and the output of
# those that failed. Go writes a failing input to testdata/fuzz of the package. Commit it together with the fix.
# Inputs that reach new code are kept in the folder fuzz of Go's cache (go env GOCACHE), and the next run begins with them.
#
# FUZZTIME  duration of each target (default 60s)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export FUZZTIME=${FUZZTIME:-60s} CGO_ENABLED=0 GOFLAGS="${GOFLAGS-} -trimpath"
LOGS=$(mktemp -d)
export LOGS
trap 'rm -rf "$LOGS"' EXIT

# Each line is a package and a target.
targets=$(git grep -E '^func Fuzz' -- '*_test.go' | sed -E 's|^(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]+).*|./\1 \2|')

# Packages are compiled for fuzzing one after another, so that no dependency is compiled twice.
begin=$SECONDS
while read -r package; do
	go test -tags=grpcnotrace -vet=off -c -o /dev/null -fuzz . "$package"
done < <(cut -d' ' -f1 <<<"$targets" | sort -u)
echo "==> compiled in $((SECONDS - begin)) s; each target for $FUZZTIME"

fuzz() {
	local log=$LOGS/$1/$2
	mkdir -p "$LOGS/$1"
	# Without the limit, a target whose inputs are large spends a minute on making each of them smaller, and finds nothing.
	if go test -tags=grpcnotrace -vet=off -v -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 100x -parallel 1 \
		"$1" >"$log" 2>&1; then
		printf '%s in %s: %s\n' "$(grep -a '^--- PASS' "$log")" "$1" "$(grep -a '^fuzz: elapsed' "$log" | tail -n 1)"
		rm "$log"
	fi
}
export -f fuzz
xargs -P "$(nproc)" -L 1 bash -c 'fuzz "$@"' fuzz <<<"$targets"

# What is left is the output of the targets that failed.
cd "$LOGS"
mapfile -t failed < <(find . -type f)
if [[ ${#failed[@]} -ne 0 ]]; then
	tail -n 100 -v "${failed[@]}"
	echo "failed: ${failed[*]}" >&2
	exit 1
fi

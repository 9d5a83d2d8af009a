#!/usr/bin/env bash
# Runs every fuzz target of the modules for a while, one after the other. A failing
# input is written below testdata/fuzz of its package, to be committed with the fix.
# Usage: hack/fuzz.sh MODULE-DIR..., relative to the root
#
# FUZZTIME  how long each target runs (default 60s)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fuzztime=${FUZZTIME:-60s}
failed=()

for module in "$@"; do
	cd "$root/$module"
	packages=$("$root/hack/packages-with.sh" Fuzz)
	for package in $packages; do
		listed=$(go test -list '^Fuzz' "$package")
		for target in $(grep '^Fuzz' <<<"$listed"); do
			echo "==> $package $target for $fuzztime"
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" ||
				failed+=("$package.$target")
		done
	done
done
if [[ ${#failed[@]} -ne 0 ]]; then
	echo "failed: ${failed[*]}" >&2
	exit 1
fi

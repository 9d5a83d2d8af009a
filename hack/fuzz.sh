#!/usr/bin/env bash
# Runs every fuzz target of the modules, one at a time. Go writes a failing input to
# testdata/fuzz of the package. Commit it together with the fix.
# Usage: hack/fuzz.sh MODULE-DIR...
# MODULE-DIR is relative to the root of the repository.
#
# FUZZTIME  duration of each target (default 60s)
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

#!/usr/bin/env bash
# Keeps a test program and how "go test -exec" runs it, and does not run it: FOLDER/PACKAGE/run.sh does.
#
# Usage: hack/keep-test.sh FOLDER PROGRAM ARGUMENT...
set -euo pipefail
folder=$1 program=$2 root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shift 2

kept=$folder/$(tr / - <<<"${PWD#"$root"/}")
mkdir -p "$kept"
cp "$program" "$kept/test"
{
	export -p
	printf 'cd %q && exec %q' "$PWD" "$kept/test"
	printf ' %q' "$@"
	echo
} >"$kept/run.sh"

#!/bin/bash -eu
# Builds every fuzz target into OUT, with the commands of the image base-builder-go of OSS-Fuzz.
set -o pipefail

# The build replaces a file of Go's package testing. Go refuses this in a toolchain that it has downloaded.
export GOTOOLCHAIN=local

grep -rE --include='*_test.go' '^func Fuzz' . | sed -E 's|^\./(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]+).*|\1 \2|' | sort |
	while read -r package target; do
		compile_native_go_fuzzer_v2 "github.com/podconfigd/podconfigd/$package" "$target" "$target"
		test -x "$OUT/$target" # a target that it does not find is no error
	done

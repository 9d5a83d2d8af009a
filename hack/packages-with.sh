#!/usr/bin/env bash
# Prints the import paths of the packages in the current module that have a test function
# with the prefix. Usage: hack/packages-with.sh Benchmark|Fuzz
#
# It reads the files, because `go test -list` links the test of every package first.
set -euo pipefail

prefix=$1
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r path dir; do
	if grep -Eqs "^func ${prefix}[A-Z0-9_(]" "$dir"/*_test.go; then
		echo "$path"
	fi
done

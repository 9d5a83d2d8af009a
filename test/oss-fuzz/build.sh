#!/bin/bash -eu
# Builds every fuzz target into OUT, with the commands of the image base-builder-go of OSS-Fuzz, and removes files of the clone that it
# runs in.
set -o pipefail
: "$OUT"

# The image can have an older Go than go.mod requires. The build replaces a file of Go's package testing, and Go refuses this in a toolchain
# that it has downloaded. So take a copy of it, and build the command that compiles fuzz targets with the same Go.
image=$(cd / && GOTOOLCHAIN=local go env GOROOT)
required=$(go env GOROOT)
if [[ $required != "$image" ]]; then
	export GOROOT=$WORK/go
	cp -r "$required" "$GOROOT"
	chmod -R u+w "$GOROOT"
	export PATH=$GOROOT/bin:$WORK/bin:$PATH
	git clone -q https://github.com/AdamKorcz/go-118-fuzz-build "$WORK/fuzz-build"
	(
		cd "$WORK/fuzz-build"
		git checkout -q fc5dc53b9db8a38c394c53d6e439a1410cf8fc19 # as in the image, from the branch v2
		GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o "$WORK/bin/go-118-fuzz-build_v2" .
	)
fi
export GOTOOLCHAIN=local

# The build takes all tests of a folder for one package.
grep -rlE --include='*_test.go' '^package \w+_test$' . | xargs rm

grep -rE --include='*_test.go' '^func Fuzz' . | sed -E 's|^\./(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]+).*|\1 \2|' | sort |
	while read -r package target; do
		# What the command writes into the present folder imports the package, which can be internal to a folder above.
		mkdir -p "$package/libfuzzer"
		(cd "$package/libfuzzer" && compile_native_go_fuzzer_v2 "github.com/podconfigd/podconfigd/$package" "$target" "$target")
		test -x "$OUT/$target" # a target that it does not find is no error
	done

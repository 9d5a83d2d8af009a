#!/usr/bin/env bash
# Lists the folders of the packages in which goroutines of this module meet: their code starts a goroutine,
# or has a lock, an atomic variable or a channel. "make test" runs their tests with the race detector.
#
# Usage: hack/concurrent.sh FOLDER...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
grep -lrE --include='*.go' --exclude='*_test.go' --exclude='*.pb.go' \
	'^[^/]*(\bgo (func|[A-Za-z_.]+)\(|\.Go\(|\bsync\.(Mutex|RWMutex|WaitGroup|Cond)|\batomic\.|\bmake\(chan )' "$@" |
	xargs -n1 dirname | sort -u | sed 's,^,./,'

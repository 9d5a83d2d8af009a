#!/usr/bin/env bash
# Demonstrates podconfigd. Starts the daemon on a copy of examples/manifests, and prints the
# stream while it adds, edits, breaks, fixes and removes manifests, and while the daemon is
# killed. Removes its files when it ends.
#
#   examples/demo.sh [path of podconfigd] [path of podconfigctl]
set -euo pipefail

bin=$(realpath "${1:-bin/podconfigd}")
ctl=$(realpath "${2:-bin/podconfigctl}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d "${TMPDIR:-/tmp}/podconfigd-demo.XXXXXX")
export PODCONFIGD_SOCKET="$work/podconfigd.sock"
manifests="$work/manifests"
daemon='' stream=''

cleanup() {
	[ -z "$stream" ] || kill "$stream" 2>/dev/null || true
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n# %s\n' "$*"; }

# run prints a command, runs it, and waits a moment for the stream.
run() {
	printf '$ %s\n' "$*"
	(cd "$work" && eval "$*")
	sleep 0.7
}

# status shows the status. The command exits with 2 while something is wrong.
status() { "$ctl" status || [ $? -eq 2 ]; }

# await runs a command until it succeeds, for at most 10 s.
await() {
	for _ in $(seq 100); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		if ! kill -0 "$daemon" 2>/dev/null; then break; fi
		sleep 0.1
	done
	echo "demo: '$*' did not succeed; the log of the daemon:" >&2
	cat "$work/log" >&2
	return 1
}

mkdir "$manifests"
cp "$here"/manifests/* "$manifests/"

# start starts the daemon in the background.
start() {
	"$bin" --pod-manifest-path "$manifests" --hostname-override node1 --socket "$PODCONFIGD_SOCKET" \
		--state-dir "$work/state" >>"$work/log" 2>&1 &
	daemon=$!
	await "$ctl" get pods
}

say "podconfigd --pod-manifest-path $manifests --state-dir $work/state"
start

say 'podconfigctl watch, in the background'
"$ctl" watch &
stream=$!
sleep 0.7

say 'Add a pod: rename its manifest into the directory.'
run "sed 's/name: web/name: shop/; s/8080/9090/' manifests/web.yaml > shop.yaml && mv shop.yaml manifests/"

say 'Edit the manifest. The UID of a static pod changes with its manifest, so there is a REMOVE and an ADD.'
run "sed -i 's/nginx:1.27/nginx:1.28/' manifests/shop.yaml"

say 'Break the manifest. The pod does not change, and the status shows the fault.'
run "echo 'spec: [' >> manifests/shop.yaml"
status | sed -n '/^MANIFEST/,/^$/p'

say 'Fix the manifest, with a third image.'
run "sed 's/name: web/name: shop/; s/8080/9090/; s/nginx:1.27/nginx:1.29/' manifests/web.yaml > shop.yaml && mv shop.yaml manifests/"

say 'Add a second file with the same pod. The first file has priority until it is removed.'
run "cp manifests/shop.yaml manifests/second.yaml"
status | sed -n '/^MANIFEST/p; / Shadowed /p'
run "rm manifests/shop.yaml"

say 'Kill the daemon, and edit a manifest while it is down. The stream resumes: it has this change, and no other.'
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
run "sed -i 's/nginx:1.29/nginx:1.30/' manifests/second.yaml"
start
sleep 1.5

say 'Show the history of this pod, with the owner and the mode of its file.'
"$ctl" history --pod default/shop-node1

say 'Move the directory away: no pod is removed. Create an empty directory: all pods are removed.'
run "mv manifests elsewhere"
status | sed -n '/^SOURCE/,/^$/p'
run "mkdir manifests"

say 'Check the readiness with curl, or list the pods without curl'
if command -v curl >/dev/null; then
	curl -s --unix-socket "$PODCONFIGD_SOCKET" 'http://localhost/readyz?verbose'
else
	"$ctl" get pods
fi

say 'SIGTERM'
kill "$stream" && wait "$stream" 2>/dev/null || true
stream=''
kill "$daemon"
wait "$daemon"
daemon=''
[ ! -e "$PODCONFIGD_SOCKET" ]
say 'The daemon exited with 0 and removed its socket.'

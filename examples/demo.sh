#!/usr/bin/env bash
# Shows podconfigd at work: starts it on a copy of examples/manifests, and shows its
# stream while manifests are added, edited, broken, mended and removed. It ends by
# itself and leaves nothing behind.
#
#   examples/demo.sh [path of the podconfigd binary]
set -euo pipefail

bin=$(realpath "${1:-bin/podconfigd}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d "${TMPDIR:-/tmp}/podconfigd-demo.XXXXXX")
export PODCONFIGD_SOCKET="$work/podconfigd.sock"
manifests="$work/manifests"
daemon='' watcher=''

cleanup() {
	[ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n# %s\n' "$*"; }

# run shows a command, runs it, and gives the stream a moment to be read.
run() {
	printf '$ %s\n' "$*"
	(cd "$work" && eval "$*")
	sleep 0.7
}

# await runs a command until it succeeds, for 10 s at most.
await() {
	for _ in $(seq 100); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		if ! kill -0 "$daemon" 2>/dev/null; then break; fi
		sleep 0.1
	done
	echo "demo: '$*' did not succeed; the daemon said:" >&2
	cat "$work/log" >&2
	return 1
}

mkdir "$manifests"
cp "$here"/manifests/* "$manifests/"

say "podconfigd --pod-manifest-path $manifests"
"$bin" --pod-manifest-path "$manifests" --hostname-override node1 --socket "$PODCONFIGD_SOCKET" >"$work/log" 2>&1 &
daemon=$!
await "$bin" status

say 'podconfigd watch, in the background from here on'
"$bin" watch &
watcher=$!
sleep 0.7

say 'A pod is added: its manifest is renamed into the directory.'
run "sed 's/name: web/name: shop/; s/8080/9090/' manifests/web.yaml > shop.yaml && mv shop.yaml manifests/"

say 'It is edited. A static pod has another UID then, so it is removed and added, in two revisions.'
run "sed -i 's/nginx:1.27/nginx:1.28/' manifests/shop.yaml"

say 'It is broken. The pod stays as it was, and the status says what is wrong.'
run "echo 'spec: [' >> manifests/shop.yaml"
"$bin" status | sed -n '/^MANIFEST/,/^$/p'

say 'It is mended, with a third image.'
run "sed 's/name: web/name: shop/; s/8080/9090/; s/nginx:1.27/nginx:1.29/' manifests/web.yaml > shop.yaml && mv shop.yaml manifests/"

say 'Another file claims the same pod. The first keeps it, until it is gone.'
run "cp manifests/shop.yaml manifests/usurper.yaml"
"$bin" status | sed -n '/^MANIFEST/p; / Shadowed /p'
run "rm manifests/shop.yaml"

say 'The directory vanishes: nothing is removed. An empty one says that there is nothing.'
run "mv manifests elsewhere"
"$bin" status | sed -n '/^SOURCE/,/^$/p'
run "mkdir manifests"

say "curl --unix-socket $PODCONFIGD_SOCKET http://localhost/readyz?verbose, or the like of it"
if command -v curl >/dev/null; then
	curl -s --unix-socket "$PODCONFIGD_SOCKET" 'http://localhost/readyz?verbose'
else
	"$bin" get pods
fi

say 'SIGTERM'
kill "$watcher" && wait "$watcher" 2>/dev/null || true
watcher=''
kill "$daemon"
wait "$daemon"
daemon=''
[ ! -e "$PODCONFIGD_SOCKET" ]
say 'That was it: the daemon ended with 0 and took its socket away.'

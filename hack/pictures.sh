#!/usr/bin/env bash
# Makes the pictures of the README from the real program: top.svg shows "podconfigctl top" in a
# terminal, demo.svg the output of examples/demo.sh.
#
#   hack/pictures.sh PODCONFIGD PODCONFIGCTL FOLDER [top|demo]...
set -euo pipefail

bin=$(realpath "$1") ctl=$(realpath "$2") out=$(realpath "$3")
shift 3
[ $# -gt 0 ] || set -- top demo
root=$(dirname "$(dirname "$(realpath "$0")")")
work=$(mktemp -d "${TMPDIR:-/tmp}/podconfigd-pictures.XXXXXX")
daemon=''

cleanup() {
	tmux -S "$work/tmux" kill-server 2>/dev/null || true
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

(cd "$root" && go build -o "$work/ansisvg" ./hack/ansisvg)
cd "$work"
ln -s "$bin" podconfigd # the pictures show the names of the programs
ln -s "$ctl" podconfigctl
bin="$work/podconfigd" ctl="$work/podconfigctl"
export PODCONFIGD_SOCKET="$work/podconfigd.sock" LC_ALL=C.UTF-8

# shows waits until the screen shows a text, for at most two minutes.
shows() {
	for _ in $(seq 1200); do
		if tmux -S tmux capture-pane -p | grep -qF -- "$1"; then return 0; fi
		sleep 0.1
	done
	echo "pictures: the screen does not show '$1':" >&2
	tmux -S tmux capture-pane -p >&2
	return 1
}

# move puts a manifest into the directory at once, from standard input.
move() { cat >"$work/new" && mv "$work/new" "manifests/$1"; }

shop() { sed "s/name: web/name: shop/; s/8080/9090/; s/nginx:1.27/nginx:$1/" manifests/web.yaml; }

top() {
	mkdir manifests
	cp "$root"/examples/manifests/* manifests/
	"$bin" --pod-manifest-path manifests --hostname-override node1 --socket "$PODCONFIGD_SOCKET" --state-dir state 2>log &
	daemon=$!
	for _ in $(seq 1200); do # so that the first pods are no updates
		if "$ctl" get pods 2>/dev/null | grep -q node-exporter-node1; then break; fi
		sleep 0.1
	done
	env -u NO_COLOR tmux -u -S tmux -f /dev/null new-session -d -x 116 -y 25 "TERM=screen-256color '$ctl' top"
	shows 'default/web-node1'
	shows 'Subscribers 1'
	shop 1.27 | move shop.yaml
	shows 'nginx:1.27'
	shop 1.28 | move shop.yaml
	shows 'nginx:1.28'
	shop 1.28 | sed 's/containerPort: 9090/containerPort: "9090"/' | move shop.yaml
	shows 'Held'
	cp manifests/web.yaml copy && mv copy manifests/second.yaml
	shows 'Shadowed'
	rm manifests/log-shipper.json
	shows 'REMOVE  kube-system/log-shipper-node1'
	shows 'Manifests 4, 2 not accepted'
	tmux -S tmux capture-pane -p -e | ./ansisvg 'podconfigctl top' >"$out/top.svg"
}

# The folder of the demo has a random name. Another one of the same length keeps the columns.
demo() {
	TMPDIR=/tmp "$root/examples/demo.sh" "$bin" "$ctl" 2>&1 |
		sed -E "s,podconfigd-demo\.[A-Za-z0-9]{6},podconfigd-demo.shown0,g
			s/^# .*/\x1b[36m&\x1b[0m/; s/^\\$ .*/\x1b[1m&\x1b[0m/; s/^(TIME|MANIFEST|SOURCE) .*/\x1b[2m&\x1b[0m/
			/^[0-9]/ s/ ADD /\x1b[32m&\x1b[0m/; /^[0-9]/ s/ REMOVE /\x1b[31m&\x1b[0m/" | ./ansisvg 'make demo' >"$out/demo.svg"
}

for picture; do "$picture"; done

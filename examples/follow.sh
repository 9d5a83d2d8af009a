#!/usr/bin/env bash
# Follows podconfigd's stream with curl and jq, and prints a line for each pod that
# comes, changes or goes. A lost connection is taken up again where it was lost.
#
#   examples/follow.sh [query, as in 'namespace=kube-system&mirrorPods=false']
set -euo pipefail

socket=${PODCONFIGD_SOCKET:-/run/podconfigd/podconfigd.sock}
query=${1:-}

# What to resume from: the instance and revision of the last line that had a revision.
instance='' since='' told=''

while true; do
	[[ $told && ! $since ]] && echo "RESET: forget every pod" # it begins again with all pods
	resume=${since:+instance=$instance&since=$since}
	while read -r op flag at revision pods; do
		case $flag in
		reset) echo "RESET: forget every pod" ;;
		refused)
			echo "podconfigd: $at $revision $pods" >&2
			# All places are taken: who had one waits until there is one again.
			[[ $op == 429 && $since ]] || exit 1
			continue
			;;
		esac
		for pod in $pods; do
			printf '%s\t%s\n' "$op" "$pod"
			told=yes
		done
		if [[ $revision != - ]]; then
			instance=$at since=$revision
		fi
	done < <(curl -sSN --unix-socket "$socket" "http://localhost/v1alpha1/updates?$resume&$query" |
		jq --unbuffered -r '
			if .op == null then [.code, "refused", (.message | gsub("\n"; "; "))]
			else [
				.op,
				(if .reset then "reset" else "-" end),
				.instance, (.revision // "-"),
				(.pods // [] | map(.metadata.namespace + "/" + .metadata.name) | join(" "))
			] end | join(" ")')
	echo "the connection was lost; trying again" >&2
	sleep 1
done

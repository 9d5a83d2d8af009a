#!/usr/bin/env bash
# Reads the stream of podconfigd with curl and jq, and prints a line for each pod that is
# added, changed or removed. After a lost connection, it reconnects and resumes the stream.
#
#   examples/follow.sh [query, for example 'namespace=kube-system&mirrorPods=false']
set -euo pipefail

socket=${PODCONFIGD_SOCKET:-/run/podconfigd/podconfigd.sock}
query=${1:-}

# To resume, pass the instance and revision of the last line with a revision.
instance='' since='' printed='' opened=''

while true; do
	[[ $printed && ! $since ]] && echo "RESET: forget every pod" # the stream starts with all pods
	resume=${since:+instance=$instance&since=$since}
	while read -r op flag at revision pods; do
		case $flag in
		reset)
			echo "RESET: forget every pod"
			instance='' since='' printed='' # if the connection ends now, all pods are needed again
			;;
		refused)
			echo "podconfigd: $at $revision $pods" >&2
			# There are too many subscribers. Retry only if the stream was open before.
			[[ $op == 429 && $opened ]] || exit 1
			continue
			;;
		esac
		opened=yes
		for pod in $pods; do
			printf '%s\t%s\n' "$op" "$pod"
			printed=yes
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
	echo "connection lost; reconnecting" >&2
	sleep 1
done

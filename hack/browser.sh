#!/usr/bin/env bash
# Installs what test/browser needs, unless it is installed, and prints the path of axe-core's script: Chromium
# from Debian (as root), and axe-core from the npm registry, outside of the tree.
# CACHE  folder (default ~/.cache/podconfigd)
set -euo pipefail

axe=4.10.3
cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podconfigd}/browser

if ! command -v chromium >/dev/null; then
	if [[ $EUID -ne 0 ]]; then
		echo 'browser: install the package chromium' >&2
		exit 1
	fi
	apt-get install -y --no-install-recommends chromium fonts-dejavu-core >&2
fi
script=$cache/axe-$axe/node_modules/axe-core/axe.min.js
if [[ ! -e $script ]]; then
	echo "==> installing axe-core $axe into $cache (once)" >&2
	npm install --silent --no-save --ignore-scripts --prefix "$cache/axe-$axe" "axe-core@$axe" >&2
fi
echo "$script"

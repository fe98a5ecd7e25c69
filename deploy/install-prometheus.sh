#!/bin/sh
# Sees to it that there are `prometheus` and `promtool`: the tests have a real Prometheus read a
# real broker, and check the alert rules. Where it may, it installs Debian's package.
# usage: install-prometheus.sh

command -v prometheus > /dev/null && command -v promtool > /dev/null && exit 0

what="The tests need prometheus and promtool on the PATH (2.42 or newer)"
if ! command -v apt-get > /dev/null; then
    echo "$what, and there is no apt-get here to install them with: install Prometheus and run this again." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "$what, and only root may install them: run 'sudo apt-get install prometheus' and this again." >&2
    exit 1
fi

echo "$what, and they are missing: installing the package 'prometheus'." >&2
log=$(mktemp)
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends prometheus; } > "$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "$what, and apt-get could not install them; all it said is in $log." >&2
    exit 1
fi
rm -f "$log"

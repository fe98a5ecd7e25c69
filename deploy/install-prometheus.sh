#!/bin/sh
# Sees to it that there are `prometheus` and `promtool`: the tests have a real Prometheus read a
# real broker, and check the alert rules. Where it may, it installs Debian's package; where it may
# not, those tests are skipped, and it says what to do about that.
# usage: install-prometheus.sh

command -v prometheus > /dev/null && command -v promtool > /dev/null && exit 0

what="Tests of dashboards and alerts need prometheus and promtool on the PATH (2.42 or newer)"
if ! command -v apt-get > /dev/null; then
    echo "$what and are skipped: there is no apt-get here to install them with; install Prometheus for them." >&2
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "$what and are skipped: only root may install them; run 'sudo apt-get install prometheus' for them." >&2
    exit 0
fi

echo "$what, and they are missing: installing the package 'prometheus'." >&2
log=$(mktemp)
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends prometheus; } > "$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "$what and are skipped: apt-get could not install them; all it said is in $log." >&2
    exit 0
fi
rm -f "$log"

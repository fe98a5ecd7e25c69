#!/bin/sh
# Makes all that the image has of xmlbroker, as deploy/Dockerfile does: in DESTINATION/venv the
# broker with what it needs to run, in DESTINATION/cache the jars that connect Spark to Kafka, in
# DESTINATION/bin what starts an executor. It then starts without a network.
# usage, at the top of a checkout: build-image-root.sh DESTINATION [PYTHON]

set -eu
destination=$1
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What builds wheels stays out of the image, and pip with it.
"$python" -m venv "$work/tools"
pip() {
    "$work/tools/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}
pip install --require-hashes -r deploy/build.lock
pip wheel --no-build-isolation --require-hashes --wheel-dir "$work/wheels" -r deploy/requirements.lock
pip wheel --no-build-isolation --no-deps --wheel-dir "$work/wheels" .

"$python" -m venv --without-pip "$destination/venv"
pip --python "$destination/venv/bin/python" install --no-index --no-deps "$work"/wheels/*.whl

# A fifth of what is installed are tests, examples and C headers.
packages=$("$destination/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$packages/pyspark/examples" "$packages/pyspark/data" "$packages/pyarrow/include"
find "$packages" -type d -name tests -prune -exec rm -rf {} +

XDG_CACHE_HOME="$destination/cache" "$destination/venv/bin/python" -c \
    'from streaming_jobs.local.jars import jars; jars("spark")'
rm -rf "$destination/cache/xmlbroker/jars/ivy" "$destination/cache/xmlbroker/jars/lock"

mkdir -p "$destination/bin"
cp deploy/spark-executor.sh "$destination/bin/spark-executor"
chmod 755 "$destination/bin/spark-executor"

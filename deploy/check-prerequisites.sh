#!/bin/sh
# Says in one sentence what is missing: Python 3.11 or newer, Java 17 or newer.
# usage: check-prerequisites.sh [PYTHON]

python=${1:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "xmlbroker needs Python 3.11 or newer as '$python': install it, or name another with 'make PYTHON=/path/to/python3 ...'." >&2
    exit 1
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
if [ "${version:-0}" -lt 17 ]; then
    echo "xmlbroker needs Java 17 or newer as '$java': install a JDK or JRE (OpenJDK 17 or 21), or set JAVA_HOME to one." >&2
    exit 1
fi

"""The Java that Spark, Kafka and Ivy run on: found, and asked for its version once."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from broker.errors import BrokerError

OLDEST_JAVA = 17


class JavaError(BrokerError):
    """There is no Java that Spark and Kafka can run on."""


def find_java() -> Path:
    """The `java` of JAVA_HOME, which Spark prefers too, else the one on the PATH.

    Raises `JavaError`, with what to do in one sentence, if there is none or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None:
        where = f"no bin/java in JAVA_HOME ({home})" if home else "no java on the PATH"
        raise JavaError("java-missing", f"Java 17 or newer is needed, and there is {where}")
    version = _version(java)
    if version < OLDEST_JAVA:
        found = f"is Java {version}" if version else "does not say its version"
        raise JavaError("java-too-old", f"Java 17 or newer is needed, and {java} {found}")
    return Path(java)


@cache
def _version(java: str) -> int:
    """The major version, or 0 if it can't be told."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    # Java 8 and older call themselves 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    return int(found[1]) if found else 0

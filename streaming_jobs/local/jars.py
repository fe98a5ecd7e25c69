"""The jars that the pyspark wheel lacks: Spark's Kafka connector, and a Kafka broker.

Ivy, which is in the wheel, resolves `ivy.xml` and fetches them, so that there is no download code
here and no repository's address. Each jar must have the checksum in `jars.sha256`. They are kept in
the user's cache, in a directory named after both files, so that other versions never mix:

    $XDG_CACHE_HOME/xmlbroker/jars/ivy/             what Ivy fetched; makes a second try quick
    $XDG_CACHE_HOME/xmlbroker/jars/<hash>/spark/    the connector, and a stamp with the sizes
    $XDG_CACHE_HOME/xmlbroker/jars/<hash>/kafka/    the broker, likewise
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal

from broker.errors import BrokerError
from streaming_jobs.local.java import JavaError, find_java

Conf = Literal["spark", "kafka"]
Progress = Callable[[str, int, int], None]  # what is being done, steps done, steps in all

HERE = Path(__file__).parent
STAMP = "complete"
# Ivy's two lines for each jar: the module is known, the file is here.
_STEP = re.compile(r"\s*(?:found \S+?#(?P<found>\S+) in |\[SUCCESSFUL \] \S+?#(?P<fetched>[^!]+))")


class JarsError(BrokerError):
    """The jars can't be had; the text says what to do."""


def jars(conf: Conf, progress: Progress | None = None) -> list[Path]:
    """The jars of a configuration of `ivy.xml`, fetched and checked the first time.

    That first time takes up to a minute, and `progress` is told of each step. Later calls look at
    names and sizes only. Any number of processes may call this at once: one fetches, others wait.
    """
    tell = progress or _be_silent
    pins = read_pins(conf)
    directory = cache_directory() / _version() / conf
    if not _is_complete(directory, pins):
        with _locked(cache_directory(), tell):
            # Another process may have made it while this one waited.
            if not _is_complete(directory, pins):
                _make(directory, conf, pins, tell)
    return [directory / name for name in pins]


def cache_directory() -> Path:
    """Where all versions of the jars are kept."""
    # A relative XDG_CACHE_HOME is to be ignored, says the XDG specification.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "xmlbroker" / "jars"


def read_pins(conf: Conf) -> dict[str, str]:
    """The checksum of each jar of a configuration, in the order of the names."""
    pins = {}
    for line in (HERE / "jars.sha256").read_text(encoding="ascii").splitlines():
        checksum, path = line.split()
        if path.startswith(f"{conf}/"):
            pins[path.removeprefix(f"{conf}/")] = checksum
    return pins


def _be_silent(text: str, done: int, total: int) -> None:
    """The progress of a caller who doesn't want to see any."""


def _version() -> str:
    """A name for this set of jars: other dependencies or checksums give another."""
    contents = (HERE / "ivy.xml").read_bytes() + (HERE / "jars.sha256").read_bytes()
    return hashlib.sha256(contents).hexdigest()[:16]


def _is_complete(directory: Path, pins: Mapping[str, str]) -> bool:
    """Whether the directory holds the pinned files and each has the size that was checked."""
    try:
        stamp = (directory / STAMP).read_text(encoding="ascii")
        found = {entry.name: entry.stat().st_size for entry in os.scandir(directory)}
    except (OSError, UnicodeDecodeError):
        return False
    del found[STAMP]
    return found.keys() == pins.keys() and stamp == _stamp(found)


def _stamp(sizes: Mapping[str, int]) -> str:
    return "".join(f"{size} {name}\n" for name, size in sorted(sizes.items()))


@contextmanager
def _locked(cache: Path, tell: Progress) -> Iterator[None]:
    """Hold the cache's lock. It ends with the process, so a killed one leaves nothing behind."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        file = (cache / "lock").open("w", encoding="ascii")
    except OSError as error:
        raise JarsError(
            "jars-cache", f"can't write the cache of jars: {error}; XDG_CACHE_HOME sets its place"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another process that fetches the jars", 0, 1)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(directory: Path, conf: Conf, pins: Mapping[str, str], tell: Progress) -> None:
    """Fetch and check the jars beside `directory`, then rename: it is there whole or not at all."""
    directory.parent.mkdir(exist_ok=True)
    for left_behind in directory.parent.glob(f".{conf}-*"):  # by a process that was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{conf}-") as temporary:
        made = Path(temporary)
        _run_ivy(made, [conf], 2 * len(pins), tell)
        _check(made / conf, pins)
        sizes = {name: (made / conf / name).stat().st_size for name in pins}
        (made / conf / STAMP).write_text(_stamp(sizes), encoding="ascii")
        if directory.exists():
            directory.rename(made / "replaced")
        (made / conf).rename(directory)
    tell("the jars are here", 2 * len(pins), 2 * len(pins))


def _check(directory: Path, pins: Mapping[str, str]) -> None:
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.glob("*.jar")
    }
    wrong = sorted(name for name, _ in found.items() ^ pins.items())
    if wrong:
        # The next call must not take the same files from Ivy's cache again.
        shutil.rmtree(cache_directory() / "ivy", ignore_errors=True)
        names = ", ".join(dict.fromkeys(wrong))
        raise JarsError(
            "jars-checksum",
            f"these jars are not the ones in jars.sha256, and none is used: {names}; "
            "try again, and if that fails ask who provides them on your network",
        )


def _run_ivy(target: Path, confs: list[Conf], steps: int, tell: Progress) -> None:
    """Have Ivy fetch the jars into a directory of `target` for each configuration."""
    try:
        java = find_java()
    except JavaError as error:
        raise JarsError(error.code, error.detail) from None
    home = cache_directory() / "ivy"
    command = [
        str(java),
        f"-Divy.default.ivy.user.dir={home}",  # else jars in ~/.ivy2 would be taken
        *("-jar", str(_find_ivy())),
        *("-ivy", str(HERE / "ivy.xml")),
        *("-cache", str(home / "cache")),
        *("-confs", *confs),
        *("-types", "jar", "bundle"),
        *("-retrieve", f"{target}/[conf]/[artifact]-[revision].[ext]"),
    ]
    tell("looking for the jars", 0, steps)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with process:
        try:
            assert process.stdout is not None
            last_lines = _follow(process.stdout, steps, tell)
        except BaseException:
            process.kill()  # Ctrl-C must not leave Ivy at work
            raise
    if process.returncode != 0:
        raise JarsError(
            "jars-download",
            "the jars could not be fetched: is there a network? A proxy is named with "
            "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=… -Dhttps.proxyPort=…'. "
            "Ivy's last lines:\n" + "".join(f"    {line}\n" for line in last_lines).rstrip(),
        )


def _follow(output: IO[str], steps: int, tell: Progress) -> list[str]:
    """Turn Ivy's lines into progress, and keep the last ones for an error."""
    last_lines: deque[str] = deque(maxlen=15)
    done = 0
    for line in output:
        step = _STEP.match(line)
        if step:
            done = min(done + 1, steps)
            text = f"found {step['found']}" if step["found"] else f"fetched {step['fetched']}"
            tell(text, done, steps)
        elif line.strip(" \t.\n"):
            last_lines.append(line.rstrip())
    return list(last_lines)


def _find_ivy() -> Path:
    pyspark = find_spec("pyspark")  # importing it would take a second
    places = pyspark.submodule_search_locations or [] if pyspark else []
    found = [jar for place in places for jar in Path(place).glob("jars/ivy-*.jar")]
    if not found:
        raise JarsError(
            "jars-download", "the installed pyspark has no Ivy: install it from a wheel"
        )
    return found[-1]


def write_pins() -> None:
    """Write `jars.sha256` anew, from what Ivy fetches after a change of `ivy.xml`."""
    with _locked(cache_directory(), _be_silent), tempfile.TemporaryDirectory() as temporary:
        target = Path(temporary)
        _run_ivy(target, ["spark", "kafka"], 0, _be_silent)
        files = sorted(target.glob("*/*.jar"))
        lines = [
            f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(target)}\n"
            for file in files
        ]
    (HERE / "jars.sha256").write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    write_pins()

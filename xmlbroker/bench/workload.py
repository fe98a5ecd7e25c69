"""Inputs for benchmarks: YFilter's NITF messages and queries where they are, else our own."""

import gzip
import random
from pathlib import Path
from typing import NamedTuple

from lxml import etree

NITF = Path("../shared/data/nitf")


class Workload(NamedTuple):
    """What a benchmark runs on."""

    name: str
    messages: list[bytes]
    queries: list[str]


def load(generated_queries: int) -> Workload:
    """The NITF workload, or as many generated queries and a hundred generated messages."""
    messages, queries = nitf_messages(), nitf_queries()
    if messages and queries:
        return Workload("NITF", messages, queries)
    return Workload("generated", random_messages(100), random_queries(generated_queries))


def nitf_messages() -> list[bytes] | None:
    """YFilter 1.0's hundred NITF messages, or None where they are not at hand."""
    files = sorted((NITF / "documents").glob("*.xml"))
    return [file.read_bytes() for file in files] or None


def nitf_queries() -> list[str] | None:
    """YFilter 1.0's 153,928 distinct NITF queries, or None where they are not at hand."""
    file = NITF / "queries-153928-distinct.txt.gz"
    if not file.is_file():
        return None
    return gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()


def random_messages(count: int, seed: int = 1) -> list[bytes]:
    """Messages of about 70 elements over a small vocabulary, each different."""
    rng = random.Random(seed)
    return [_random_message(rng) for _ in range(count)]


def random_queries(count: int, seed: int = 2) -> list[str]:
    """Distinct linear paths over the same vocabulary."""
    rng = random.Random(seed)
    queries: dict[str, None] = {}
    while len(queries) < count:
        steps = rng.randint(1, 6)
        queries["".join(rng.choice(("/", "/", "//")) + _random_test(rng) for _ in range(steps))] = (
            None
        )
    return list(queries)


_DROPPED = 0.06
_NAMES = [f"{first}{second}" for first in ("head", "body", "item", "note") for second in "abcdef"]


def _random_test(rng: random.Random) -> str:
    return "*" if rng.random() < 0.15 else rng.choice(_NAMES)


def _random_message(rng: random.Random) -> bytes:
    budget = rng.randint(50, 90)

    def element(depth: int) -> str:
        nonlocal budget
        budget -= 1
        name = rng.choice(_NAMES)
        attributes = "".join(
            f' {key}="{rng.randint(1, 20)}"' for key in ("id", "type") if rng.random() < 0.6
        )
        inner = str(rng.randint(1, 1000))
        while depth < 8 and budget > 0 and rng.random() < 0.75:
            inner += element(depth + 1)
        return f"<{name}{attributes}>{inner}</{name}>"

    content = ""
    while budget > 0:
        content += element(2)
    return f"<news>{content}</news>".encode()


class Feed:
    """Messages that differ from round to round: each is one of the given without some parts.

    So their label paths are known, as in a feed, and the sets of those that a message has, or an
    element of it has below, are not.
    """

    def __init__(self, messages: list[bytes], seed: int = 4) -> None:
        self.originals = messages
        self._rng = random.Random(seed)

    def renewed(self, _round: int = 0) -> list[bytes]:
        """Other messages made of the given ones."""
        return [self._without_parts(data) for data in self.originals]

    def _without_parts(self, data: bytes) -> bytes:
        root = etree.fromstring(data)
        for element in list(root.iter(etree.Element)):
            parent = element.getparent()
            if parent is not None and self._rng.random() < _DROPPED:
                parent.remove(element)
        return etree.tostring(root)


def attribute_names(messages: list[bytes]) -> list[str]:
    """The names of the attributes that messages have, sorted."""
    names: set[str] = set()
    for data in messages:
        for element in etree.fromstring(data).iter(etree.Element):
            names.update(str(name) for name in element.keys())  # noqa: SIM118 - no mapping
    return sorted(names)

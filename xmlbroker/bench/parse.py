"""`xmlbroker bench parse`: reading queries and messages, against lxml doing the same.

- queries: the syntax tree of each query, against `lxml.etree.XPath` compiling the same text;
- messages: the node table of each message, against bare lxml parsing with the same options;
- memory: what a node table holds, against the bare tree.
"""

import gc
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from lxml import etree

from broker.documents import LabelPaths, parse_message
from broker.query import check, parse, unparse
from xmlbroker.bench import workload
from xmlbroker.bench.measure import Timing, compare


def run(rounds: int) -> dict[str, object]:
    """The figures, with the names of what was measured."""
    source, messages, queries = workload.load(20_000)
    return {
        "bench": "parse",
        "workload": source,
        "queries": {"count": len(queries), "timings": _asdicts(time_queries(queries, rounds))},
        "messages": {"count": len(messages), "timings": _asdicts(time_messages(messages, rounds))},
        "memory": measure_memory(messages),
    }


def time_queries(queries: list[str], rounds: int) -> list[Timing]:
    """Time parsing of query texts, in slices that differ from round to round."""
    return compare(
        {
            "lxml.etree.XPath": etree.XPath,
            "parse": parse,
            "parse and charge": check,
            "parse and unparse": lambda text: unparse(parse(text)),
        },
        lambda number: queries[number % rounds :: rounds],
        rounds,
    )


def time_messages(messages: list[bytes], rounds: int) -> list[Timing]:
    """Time the making of node tables."""
    parser = bare_parser()
    labels = LabelPaths()
    return compare(
        {
            "bare lxml parsing": lambda data: etree.fromstring(data, parser),
            "node table": lambda data: parse_message(data, labels=labels),
            "node table with intervals": lambda data: parse_message(data, labels=labels).ends,
        },
        lambda _: messages,
        rounds * 3,
    )


def measure_memory(messages: list[bytes]) -> dict[str, float]:
    """Resident kilobytes for each message held, as a bare tree and as a node table.

    Each is measured in a process of its own, whose heap has no room left from other work.
    """
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        tree, table = pool.map(_HeldKilobytes(messages), ["tree", "table"], chunksize=1)
    return {"bare_tree_kb": tree, "node_table_kb": table, "ratio": table / tree}


@dataclass(frozen=True)
class _HeldKilobytes:
    """What holding parsed messages takes, per message, in the process where it is called."""

    messages: list[bytes]

    def __call__(self, form: str, copies: int = 20) -> float:
        parser = bare_parser()
        labels = LabelPaths()
        held: list[object] = []
        before = _resident_kilobytes()
        for data in self.messages * copies:
            if form == "tree":
                held.append(etree.fromstring(data, parser))
            else:
                held.append(parse_message(data, labels=labels))
        return (_resident_kilobytes() - before) / len(held)


def _resident_kilobytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4


def bare_parser() -> etree.XMLParser:
    """What messages are parsed with as a yardstick."""
    return etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)


def _asdicts(timings: list[Timing]) -> list[dict[str, object]]:
    return [asdict(timing) for timing in timings]

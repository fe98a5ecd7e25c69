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

from broker.documents import LabelPaths, Message
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
    slices = [queries[start::rounds] for start in range(rounds)]
    turn = {"lxml": 0, "parse": 0, "check": 0, "unparse": 0}

    def next_slice(name: str) -> list[str]:
        turn[name] += 1
        return slices[turn[name] % rounds]

    def compile_with_lxml() -> None:
        for text in next_slice("lxml"):
            etree.XPath(text)

    def parse_all() -> None:
        for text in next_slice("parse"):
            parse(text)

    def check_all() -> None:
        for text in next_slice("check"):
            check(text)

    def unparse_all() -> None:
        for text in next_slice("unparse"):
            unparse(parse(text))

    return compare(
        {
            "lxml.etree.XPath": compile_with_lxml,
            "parse": parse_all,
            "parse and charge": check_all,
            "parse and unparse": unparse_all,
        },
        len(slices[0]),
        rounds,
    )


def time_messages(messages: list[bytes], rounds: int) -> list[Timing]:
    """Time the making of node tables."""
    parser = _bare_parser()
    labels = LabelPaths()

    def parse_bare() -> None:
        for data in messages:
            etree.fromstring(data, parser)

    def make_tables() -> None:
        for data in messages:
            Message.parse(data, labels=labels)

    def make_tables_and_intervals() -> None:
        for data in messages:
            Message.parse(data, labels=labels).ends  # noqa: B018 - made when asked for

    contestants = {
        "bare lxml parsing": parse_bare,
        "node table": make_tables,
        "node table with intervals": make_tables_and_intervals,
    }
    return compare(contestants, len(messages), rounds * 3)


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
        parser = _bare_parser()
        labels = LabelPaths()
        held: list[object] = []
        before = _resident_kilobytes()
        for data in self.messages * copies:
            if form == "tree":
                held.append(etree.fromstring(data, parser))
            else:
                held.append(Message.parse(data, labels=labels))
        return (_resident_kilobytes() - before) / len(held)


def _resident_kilobytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4


def _bare_parser() -> etree.XMLParser:
    return etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)


def _asdicts(timings: list[Timing]) -> list[dict[str, object]]:
    return [asdict(timing) for timing in timings]

"""OuterJoin-Select: for each bound node the last fields of a stream's tuples that have it.

The pseudo-code is in BROKER, appendix A; here a stream at a time, since lists are put into groups
by who calls.
"""

from broker.runtime.path_stream import Rows


def merge(bound: list[int], rows: Rows, field: int) -> list[list[int]]:
    """For streams that are ordered by the binding field."""
    lists: list[list[int]] = []
    place = 0
    for node in bound:
        while place < len(rows) and rows[place][field - 1] < node:
            place += 1
        found = []
        while place < len(rows) and rows[place][field - 1] == node:
            found.append(rows[place][-1])
            place += 1
        lists.append(found)
    return lists


def hashed(bound: list[int], rows: Rows, field: int) -> list[list[int]]:
    """For any stream: a table of its tuples by the binding field, probed."""
    table: dict[int, list[int]] = {}
    for row in rows:
        table.setdefault(row[field - 1], []).append(row[-1])
    return [table.get(node, []) for node in bound]

"""GroupBy: the last fields of a stream's tuples by their binding field (BROKER 5.2)."""

from broker.runtime.path_stream import Rows

Lists = dict[int, list[int]]


def scan(rows: Rows, field: int, *, eliminates: bool) -> Lists:
    """For streams that are ordered by the binding field: equal ones are neighbours."""
    lists: Lists = {}
    before = None
    current: list[int] = []
    for row in rows:
        bound = row[field - 1]
        if bound != before:
            current = lists[bound] = []
            before = bound
        # Ordered by the last field within a group.
        if not (eliminates and current and current[-1] == row[-1]):
            current.append(row[-1])
    return lists


def hashed(rows: Rows, field: int, *, eliminates: bool) -> Lists:
    """For any stream. It is ordered by the last field, so each group is."""
    lists: Lists = {}
    for row in rows:
        current = lists.setdefault(row[field - 1], [])
        if not (eliminates and current and current[-1] == row[-1]):
            current.append(row[-1])
    return lists

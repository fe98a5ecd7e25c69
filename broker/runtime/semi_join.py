"""SemiJoin: the left tuples that have a partner on the right, in their order."""

from broker.runtime.path_stream import Rows


def merge(left: Rows, right: Rows, field: int) -> Rows:
    """For right streams that are ordered by the binding field, as the left one is."""
    joined: Rows = []
    place = 0
    for row in left:
        bound = row[field - 1]
        while place < len(right) and right[place][field - 1] < bound:
            place += 1
        if place == len(right):
            break
        if right[place][field - 1] == bound:
            joined.append(row)
    return joined


def hashed(left: Rows, right: Rows, field: int) -> Rows:
    """For any right stream."""
    bound = {row[field - 1] for row in right}
    return [row for row in left if row[field - 1] in bound]

"""SharedJoin: pairs of tuples with the same binding field, in the order of the left (BROKER 5.2).

For each left tuple the right ones that go with it, since selections come afterwards.
"""

from broker.runtime.path_stream import Row, Rows

Pairs = list[tuple[Row, Rows]]


def merge(left: Rows, right: Rows, field: int) -> Pairs:
    """For right streams that are ordered by the binding field, as the left one is."""
    pairs: Pairs = []
    place = 0
    for row in left:
        bound = row[-1]
        while place < len(right) and right[place][field - 1] < bound:
            place += 1
        end = place
        while end < len(right) and right[end][field - 1] == bound:
            end += 1
        if end > place:
            pairs.append((row, right[place:end]))
        # Not beyond them: another left tuple may have the same node.
    return pairs


def hashed(left: Rows, right: Rows, field: int) -> Pairs:
    """For any right stream."""
    table: dict[int, Rows] = {}
    for row in right:
        table.setdefault(row[field - 1], []).append(row)
    return [(row, table[row[-1]]) for row in left if row[-1] in table]

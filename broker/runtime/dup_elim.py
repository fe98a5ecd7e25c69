"""DupElim: the first of the tuples that agree in some fields."""

from broker.runtime.path_stream import Row, Rows


def scan(rows: Rows, fields: tuple[int, ...]) -> Rows:
    """For streams in which such tuples are neighbours."""
    kept: Rows = []
    before: Row | None = None
    for row in rows:
        key = tuple(row[field - 1] for field in fields)
        if key != before:
            kept.append(row)
            before = key
    return kept


def hashed(rows: Rows, fields: tuple[int, ...]) -> Rows:
    """For any stream."""
    kept: dict[Row, Row] = {}
    for row in rows:
        kept.setdefault(tuple(row[field - 1] for field in fields), row)
    return list(kept.values())

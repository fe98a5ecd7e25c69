"""Numbers for queries: equal queries have one, and it counts how often they were added."""

from broker.query import Filter


class Numbering:
    """Distinct queries by number. Numbers rise and are never given out again."""

    __slots__ = ("_counts", "_next", "_numbers", "queries")

    def __init__(self) -> None:
        self.queries: dict[int, Filter] = {}
        self._next = 0
        self._numbers: dict[Filter, int] = {}
        self._counts: dict[int, int] = {}
        """How often those were added that were more than once."""

    def add(self, query: Filter) -> tuple[int, bool]:
        """The number of a query, and whether it is a new one."""
        number = self._numbers.setdefault(query, self._next)
        if number != self._next:
            self._counts[number] = self._counts.get(number, 1) + 1
            return number, False
        self._next += 1
        self.queries[number] = query
        return number, True

    def remove(self, number: int) -> bool:
        """Take one adding back; True if the query is gone with it."""
        count = self._counts.get(number, 1)
        if count > 1:
            if count == 2:
                del self._counts[number]
            else:
                self._counts[number] = count - 1
            return False
        del self._numbers[self.queries.pop(number)]
        return True

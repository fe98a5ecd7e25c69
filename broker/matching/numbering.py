"""Numbers for queries: equal queries have one, and it counts how often they were added."""

from broker.query import Filter


class Numbering:
    """Distinct queries by number. Numbers of dropped queries are given out again."""

    __slots__ = ("_counts", "_free", "_numbers", "queries", "universe")

    def __init__(self) -> None:
        self.queries: dict[int, Filter] = {}
        self.universe = 0
        """One more than the highest number ever given out."""
        self._numbers: dict[Filter, int] = {}
        self._counts: dict[int, int] = {}
        self._free: list[int] = []

    def add(self, query: Filter) -> tuple[int, bool]:
        """The number of a query, and whether it is a new one."""
        number = self._numbers.get(query)
        if number is not None:
            self._counts[number] = self._counts.get(number, 1) + 1
            return number, False
        if self._free:
            number = self._free.pop()
        else:
            number = self.universe
            self.universe += 1
        self._numbers[query] = number
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
        query = self.queries.pop(number)
        del self._numbers[query]
        return True

    def release(self, number: int) -> None:
        """Let the number of a query that is gone be given out again."""
        self._free.append(number)

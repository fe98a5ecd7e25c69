"""What all filters of an engine are charged for together."""

from broker.query import Filter, cost


class Charges:
    """The sum of the charges of filters, made up when it is read: adding has to be quick."""

    def __init__(self) -> None:
        self._active_states = 0
        self._cache_bytes = 0
        self._added: dict[Filter, None] = {}
        self._removed: list[Filter] = []

    def add(self, query: Filter) -> None:
        """Charge for a filter."""
        self._added[query] = None

    def remove(self, query: Filter) -> None:
        """Take the charge for a filter back."""
        if query in self._added:
            del self._added[query]
        else:
            self._removed.append(query)

    @property
    def active_states(self) -> int:
        """How many states can be active at once, if everything comes together."""
        self._make_up()
        return self._active_states

    @property
    def cache_bytes(self) -> int:
        """How much of the cache one label path can demand, if everything comes together."""
        self._make_up()
        return self._cache_bytes

    def _make_up(self) -> None:
        for sign, queries in ((1, list(self._added)), (-1, self._removed)):
            for query in queries:
                charge = cost(query)
                self._active_states += sign * charge.active_states
                self._cache_bytes += sign * charge.cache_bytes
        self._added.clear()
        self._removed.clear()

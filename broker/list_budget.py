"""What the lists of one result may have, counted while they are made.

A query of a few bytes can ask for more than the memory holds, long before there is output that
could be measured: the text of elements in each other is repeated at each level, and again by each
expression that asks for it. But strings end up in the output, and are no shorter there. So when
they have more characters than the output may have bytes, the result is too large, whatever else it
has. Elements are ids until then, and are counted, with the lists that they are in.
"""

from collections.abc import Iterable

from broker.documents.message import Message
from broker.limits import ResultLimits
from broker.results import GroupList, keys_too_long, too_large, too_many_items


class ListBudget:
    """The budget of one result. What exceeds it raises a `ResultError`."""

    __slots__ = ("_characters", "_characters_of_keys", "_items", "_limits", "_most_keys", "most")

    def __init__(self, limits: ResultLimits, message: Message) -> None:
        self._limits = limits
        self.most = limits.max_output_bytes(len(message.data))
        """The bytes that the output may have."""
        self._most_keys = limits.uncapped_output_bytes(len(message.data))
        self._items = 0
        self._characters = 0
        self._characters_of_keys = 0

    def take(self, made: GroupList) -> None:
        """One more list."""
        self._items += 1 + len(made)
        if self._items > self._limits.max_items:
            raise too_many_items(self._limits.max_items)
        if made and not isinstance(made[0], int):
            for each in made:
                if not isinstance(each, int | float):
                    self._characters += len(each if isinstance(each, str) else each.value)
            if self._characters > self.most:
                raise too_large(self.most)

    def take_all(self, lists: Iterable[GroupList]) -> None:
        """Some more."""
        for each in lists:
            self.take(each)

    def take_key(self, key: str | float) -> None:
        """One more key to order by; those are all there before the first result is."""
        if isinstance(key, str):
            self._characters_of_keys += len(key)
            if self._characters_of_keys > self._most_keys:
                raise keys_too_long(self._most_keys)

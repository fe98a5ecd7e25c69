"""Path streams: the tuples of a path, one node for each step, ordered by the last (BROKER 3).

A path's tuples are those of its beginning, each with all nodes that the last step reaches from it;
beginnings are kept for the message, so that paths share them. Tuples can be many more than nodes:
`//*//*//*` has one for each choice of three ancestors. Where they get too many, a plan gives up,
and the reference engine, which goes from nodes to nodes, answers in its place (`executor.py`).
"""

from broker.documents import DOCUMENT, Message
from broker.query.syntax import Axis, NameTest, Step

_MOST_FOR_EACH_NODE = 8
_MOST_IN_ANY_CASE = 20_000
"""So many tuples a path may have."""

Row = tuple[int, ...]
Rows = list[Row]


class TooManyTuplesError(Exception):
    """A path has more tuples than are worth it."""


class PathStreams:
    """The streams of one message."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self._max_tuples = _MOST_FOR_EACH_NODE * message.last + _MOST_IN_ANY_CASE
        self._rows: dict[tuple[Step, ...], Rows | None] = {(): [()]}
        """By steps; None where there are too many, which no other plan has to find out again."""

    def rows(self, steps: tuple[Step, ...]) -> Rows:
        """The tuples of a path, ordered by the last field, or a `TooManyTuplesError`."""
        if steps not in self._rows:
            before = self.rows(steps[:-1])
            self._rows[steps] = None
            made = self._extend(before, steps[-1])
            made.sort(key=lambda row: row[-1])
            self._rows[steps] = made
        known = self._rows[steps]
        if known is None:
            raise TooManyTuplesError
        return known

    def _extend(self, rows: Rows, step: Step) -> Rows:
        assert isinstance(step.test, NameTest)
        accepts, name, ends = step.test.accepts, self.message.name, self.message.ends
        extended: Rows = []
        for row in rows:
            origin = row[-1] if row else DOCUMENT
            below = (
                range(origin + 1, ends[origin] + 1)
                if step.axis is Axis.DESCENDANT
                else self.message.children(origin)
            )
            extended += [(*row, node) for node in below if accepts(name(node))]
            if len(extended) > self._max_tuples:
                raise TooManyTuplesError
        return extended

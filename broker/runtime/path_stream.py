"""Path streams: the tuples of a path, one node for each step, ordered by the last (BROKER 3).

A path's tuples are those of its beginning, each with all nodes that the last step reaches from it;
beginnings are kept for the message, so that paths share them. Tuples can be many more than nodes:
`//*//*//*` has one for each choice of three ancestors. So they are counted against a budget.
"""

from broker.documents import DOCUMENT, Message
from broker.errors import ResultError
from broker.query.syntax import Axis, NameTest, Step

Row = tuple[int, ...]
Rows = list[Row]


class PathStreams:
    """The streams of one message."""

    def __init__(self, message: Message, max_tuples: int) -> None:
        self.message = message
        self.max_tuples = max_tuples
        self._rows: dict[tuple[Step, ...], Rows] = {(): [()]}

    def rows(self, steps: tuple[Step, ...]) -> Rows:
        """The tuples of a path, ordered by the last field."""
        known = self._rows.get(steps)
        if known is None:
            known = self._extend(self.rows(steps[:-1]), steps[-1])
            known.sort(key=lambda row: row[-1])
            self._rows[steps] = known
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
            if len(extended) > self.max_tuples:
                detail = f"more than {self.max_tuples} tuples of a path"
                raise ResultError("budget-exceeded", detail)
        return extended

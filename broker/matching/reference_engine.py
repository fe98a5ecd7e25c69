"""The reference evaluator behind the port: every query on its own, for comparison."""

from broker import reference
from broker.documents import Message
from broker.errors import ResultError
from broker.matching.match_set import MatchSet
from broker.matching.numbering import Numbering
from broker.matching.port import Description
from broker.query import Filter


class ReferenceEngine:
    """Evaluates each distinct filter by walking the message."""

    def __init__(self) -> None:
        self.numbering = Numbering()

    def add(self, query: Filter) -> int:
        """Take a filter."""
        return self.numbering.add(query)[0]

    def remove(self, number: int) -> None:
        """Drop a filter."""
        self.numbering.remove(number)

    def match(self, message: Message) -> MatchSet:
        """The numbers of the filters that take a message."""
        matched, undecided = [], []
        for number, query in self.numbering.queries.items():
            try:
                if reference.matches(query, message):
                    matched.append(number)
            except ResultError:
                undecided.append(number)
        made = MatchSet.of(matched)
        made.undecided = undecided
        return made

    def describe(self) -> Description:
        """Its size: it has no states."""
        return Description("reference", len(self.numbering.queries), 0, 0, 0, 0, 0)

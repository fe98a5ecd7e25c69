"""The names of the broker's topics; imports no client, since Spark's workers need no more."""

import re
from hashlib import blake2b

from subscriptions.errors import RecordError, TopicError
from subscriptions.model import is_id, shown

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_KEPT = 100_000
"""Names of outputs; subscribers come and go."""


class TopicNames:
    """The names of all topics, made from a prefix and from ids that need no rewriting.

    A Kafka broker carries some thousand topics. For more subscribers, a number of them is shared by
    all: records have the subscriber as their key there.

    >>> TopicNames("xmlbroker").output("acme")
    'xmlbroker.out.acme'
    >>> TopicNames("xmlbroker", shared=8).output("acme")
    'xmlbroker.shared-out.5'
    """

    def __init__(self, prefix: str = "xmlbroker", shared: int = 0) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise TopicError("bad-prefix", f"`{shown(prefix)}` is no prefix of topic names")
        self.prefix = prefix
        self.shared = shared
        self._outputs: dict[str, str] = {}
        self.messages = f"{prefix}.messages"
        self.subscriptions = f"{prefix}.subscriptions"
        self.status = f"{prefix}.subscription-status"
        self.dead_letters = f"{prefix}.dead-letters"
        self._own = {self.subscriptions, self.status, self.dead_letters}
        self.outputs = f"{prefix}.shared-out." if shared else f"{prefix}.out."
        """What the names of all output topics start with."""

    def inputs(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """The topics to read: those that were chosen, or the usual one. None may be one that the
        broker writes to: what it reads of itself, it would write again for ever.
        """
        for topic in chosen:
            if topic in self._own or topic.startswith(self.outputs):
                raise TopicError(
                    "bad-input",
                    f"the broker itself writes to {shown(topic)}, or keeps its subscriptions "
                    "there: it can't be one of job.input_topics",
                )
        return chosen or (self.messages,)

    def output(self, subscriber: str) -> str:
        """The topic of a subscriber's results."""
        known = self._outputs.get(subscriber)
        if known is None:
            if len(self._outputs) >= _MOST_KEPT:
                self._outputs.clear()
            known = self._outputs[subscriber] = self._output(subscriber)
        return known

    def _output(self, subscriber: str) -> str:
        if not is_id(subscriber):
            raise RecordError("bad-key", f"`{shown(subscriber)}` is no id of a subscriber")
        if not self.shared:
            return f"{self.outputs}{subscriber}"
        number = int.from_bytes(blake2b(subscriber.encode(), digest_size=4).digest())
        return f"{self.outputs}{number % self.shared}"

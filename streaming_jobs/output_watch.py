"""Sees to it that there is a topic for every subscriber who gets results, and for dead letters,
while batches run.

A row for a topic that isn't there, or takes no record of that size, fails its task, and with it the
batch, for all subscribers. So topics are looked at before batches, as often as that costs little,
and after a write that failed.
"""

import logging
import math
import re
import time
from collections.abc import Callable, Iterable

from streaming_jobs.output_limits import OutputLimits
from streaming_jobs.sink import LARGEST_RECORD_BYTES
from subscriptions.topics import NO_LEADER, TopicAdmin

_LOGGER = logging.getLogger(__name__)
_LEAST_SECONDS = 1.0
_SHARE = 20
"""Looking may take a twentieth of the time."""

_LEADERLESS_SECONDS = 20.0
"""A topic may be without a leader for so long: others take over within seconds, if there are any,
and a Kafka broker that is started again is back by then."""

_UNAUTHORISED = re.compile(r"Not authorized to access topics: \[([^\]]*)\]")


class OutputWatch:
    """The output topics of a job."""

    def __init__(
        self,
        admin: TopicAdmin,
        usual_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._next = 0.0
        self._leaderless: dict[str, float] = {}
        """Topics without a leader, and since when."""
        self.lacks_dead_letters = False
        """Whether their topic could not be written to when it was last looked at."""
        self.limits = OutputLimits(usual_bytes)
        """What the topics take, as of the last look."""
        self.measure(())

    def check_if_due(self, subscribers: Iterable[str]) -> dict[str, str]:
        """Make the topics that are gone, and see what all take; the reasons for those that
        can't be made, or written to.
        """
        started = self._clock()
        if started < self._next:
            return {}
        subscribers = list(subscribers)
        failed = self.check(subscribers)
        self.measure(subscribers)
        spent = self._clock() - started
        self._next = self._clock() + max(_LEAST_SECONDS, _SHARE * spent)
        return failed

    def check(self, subscribers: Iterable[str]) -> dict[str, str]:
        """Look now."""
        owners = self._owners(subscribers)
        dead_letters = self._admin.names.dead_letters
        lost = self._without_elections(self._admin.unwritable([*owners, dead_letters]))
        self.lacks_dead_letters = lost.pop(dead_letters, None) is not None
        if not lost:
            return {}
        failed = self._admin.ensure_outputs(owner for topic in lost for owner in owners[topic])
        for topic, reason in sorted(lost.items()):
            is_lost = any(owner in failed for owner in owners[topic])
            then = "its subscribers are suspended" if is_lost else "it was made again"
            _LOGGER.warning("output topic %s: %s; %s", topic, reason, then)
        return failed

    def mend_dead_letters(self) -> bool:
        """Make the topic of dead letters if it is gone; whether it was. Raises if it can't be made:
        that is everybody's trouble.
        """
        topic = self._admin.names.dead_letters
        made = self._admin.ensure({topic: self._admin.control_topics()[topic]})
        if made:
            _LOGGER.warning("the topic %s was gone; it was made again", topic)
        self.lacks_dead_letters = False
        return bool(made)

    def _without_elections(self, lost: dict[str, str]) -> dict[str, str]:
        """Topics that can't be written to, but for those that have no leader for a moment."""
        now = self._clock()
        self._leaderless = {
            topic: self._leaderless.get(topic, now)
            for topic, reason in lost.items()
            if reason == NO_LEADER
        }
        return {
            topic: reason
            for topic, reason in lost.items()
            if now - self._leaderless.get(topic, -math.inf) >= _LEADERLESS_SECONDS
        }

    def refused(self, failure: str, subscribers: Iterable[str]) -> dict[str, str]:
        """The subscribers whose topics a failed write was not allowed to write to."""
        owners = self._owners(subscribers)
        return {
            owner: "the broker is not authorised to write to it"
            for listed in _UNAUTHORISED.findall(failure)
            for topic in listed.split(", ")
            for owner in owners.get(topic, ())
        }

    def measure(self, subscribers: Iterable[str]) -> None:
        """See what topics take."""
        names = self._admin.names
        topics = {names.dead_letters, *(names.output(each) for each in subscribers)}
        usual, known, keyed = self.limits.usual, self.limits.largest, self.limits.keyed & topics
        largest = {topic: known[topic] for topic in topics & known.keys()}
        for topic, accepted in self._admin.accepted(topics).items():
            if topic == names.dead_letters or accepted.largest < usual:
                largest[topic] = min(accepted.largest, LARGEST_RECORD_BYTES)
            else:
                largest.pop(topic, None)
            keyed = keyed | {topic} if accepted.needs_keys else keyed - {topic}
        self.limits = OutputLimits(usual, largest, keyed)

    def _owners(self, subscribers: Iterable[str]) -> dict[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for subscriber in subscribers:
            owners.setdefault(self._admin.names.output(subscriber), []).append(subscriber)
        return owners

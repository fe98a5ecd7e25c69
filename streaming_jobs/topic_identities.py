"""Whether topics are the ones that they were.

Kafka gives each topic an id. One that is deleted and made again has its name and another id, and
its records have places from 0 on again: whoever goes on at the place where it was skips as many of
them as it had read of the topic before.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence

from streaming_jobs.failures import JobError
from streaming_jobs.storage import Storage
from subscriptions.kafka_client import topic_missing
from subscriptions.topics import TopicAdmin

DIRECTORY = "xmlbroker-inputs"
"""Where the ids of the input topics are, in a checkpoint."""

_FILE = "topics.json"
_SECONDS = 1.0


class TopicIdentities:
    """The input topics of a checkpoint, and the subscription topic of a job.

    Raises `JobError` at the start if an input topic is not the one that the checkpoint is about.
    """

    def __init__(
        self,
        admin: TopicAdmin,
        inputs: Sequence[str],
        storage: Storage,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = admin
        self._inputs = inputs
        self._subscriptions = admin.names.subscriptions
        self._clock = clock
        self._next = clock() + _SECONDS
        written = _read(storage)
        self._known = dict(written)
        self._compare(admin.ids([*inputs, self._subscriptions]))
        ids = {topic: id for topic, id in self._known.items() if topic != self._subscriptions}
        if ids != written:
            storage.write(_FILE, json.dumps(ids).encode())

    def check_if_due(self) -> None:
        """Look again. Raises `JobError` if one is another topic now, and a `KafkaError` if there is
        no subscription topic. Input topics that are gone are noticed by who reads them.
        """
        if self._clock() < self._next:
            return
        found = self._admin.ids([*self._inputs, self._subscriptions])
        if self._subscriptions not in found:
            raise topic_missing(self._subscriptions)
        self._compare(found)
        self._next = self._clock() + _SECONDS

    def _compare(self, found: Mapping[str, str | None]) -> None:
        for topic, id in found.items():
            if id is None or self._known.setdefault(topic, id) == id:
                continue
            if topic == self._subscriptions:
                raise JobError(
                    "subscriptions-lost",
                    f"the topic {topic} was deleted and made again: the subscriptions that were in "
                    "it are not there any more. Put them into it from a copy (`xmlbroker admin "
                    "restore`), then start again",
                )
            raise JobError(
                "input-lost",
                f"the input topic {topic} was deleted and made again: the checkpoint counts "
                "messages of the one before, and would skip as many of this one. Start with a new "
                "checkpoint, which reads all of it",
            )


def _read(storage: Storage) -> dict[str, str]:
    data = storage.read(_FILE)
    try:
        return {str(topic): str(id) for topic, id in json.loads(data or b"{}").items()}
    except (ValueError, AttributeError):
        raise JobError(
            "torn-checkpoint",
            f"{storage.shown(_FILE)} should say which topics the checkpoint is about, and can't be "
            "read. Nothing was skipped. Restore it from a copy, or start with a new one",
        ) from None

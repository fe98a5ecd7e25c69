"""Subscriptions of the demo: written to their topic, and what the broker says of them."""

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from subscriptions.kafka_log import KafkaStatusLog, KafkaSubscriptionLog
from subscriptions.model import State, Status, SubscriptionKey
from subscriptions.topics import TopicNames

PATIENCE_SECONDS = 60.0


class Registrar:
    """Writes records, and waits for their statuses or asks now and then. A context."""

    def __init__(self, client: Mapping[str, object], names: TopicNames) -> None:
        self._client = client
        self._names = names
        self._written: dict[str, int] = {}
        """The version of each subscription that was written last."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            log = KafkaSubscriptionLog(self._client, self._names.subscriptions)
            self._log = stack.enter_context(log)
            status_log = KafkaStatusLog(self._client, self._names.status)
            self._statuses = stack.enter_context(status_log)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def write(self, records: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
        """Write some; their versions."""
        keys = [SubscriptionKey.parse(key).to_bytes() for key in records]
        values = [json.dumps(record).encode() for record in records.values()]
        offsets = self._log.append_all(zip(keys, values, strict=True))
        versions = dict(zip(records, offsets, strict=True))
        self._written.update(versions)
        return versions

    def told(self, *keys: str) -> dict[str, Status] | None:
        """What the broker says of the last versions of some; None until it has of all."""
        statuses = self._statuses.read_all()
        found = {key: statuses.get(SubscriptionKey.parse(key).to_bytes()) for key in keys}
        known = {
            key: status
            for key, status in found.items()
            if status is not None and status.version == self._written[key]
        }
        return known if len(known) == len(keys) else None

    def await_told(self, *keys: str) -> dict[str, Status]:
        """The same, as soon as it has."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            statuses = self.told(*keys)
            if statuses is not None:
                return statuses
            time.sleep(0.1)
        raise SystemExit("the broker did not say what became of the subscriptions")


def expect_status(key: str, status: Status, refused: str | None = None) -> None:
    """End the demo if a subscription is not accepted, or not refused with the code it should."""
    code = None if status.error is None else status.error.get("code")
    state = State.ACTIVE if refused is None else State.REJECTED
    if (status.state, code) != (state, refused):
        raise SystemExit(f"{key} is {status.state} ({code}), and should be {state} ({refused})")

"""How many subscriptions are in which state, kept up one by one, and the last refusals.

For those who watch a broker: counting a hundred thousand anew each time would cost more than
following them.
"""

from collections import Counter, deque
from datetime import datetime
from typing import NamedTuple

from subscriptions.model import State, Status, SubscriptionKey, shown

_REFUSALS_KEPT = 20


class Refusal(NamedTuple):
    """A record that was refused."""

    key: str
    version: int
    since: datetime
    code: str
    detail: str


class Census:
    """The states of all subscriptions of a registry."""

    def __init__(self) -> None:
        self.states: Counter[State] = Counter()
        self.refused_records = 0
        """Records that were refused since the replay."""
        self.refusals: deque[Refusal] = deque(maxlen=_REFUSALS_KEPT)
        """The last of them."""
        self._known: dict[SubscriptionKey, State] = {}

    def note(self, key: SubscriptionKey, state: State | None) -> None:
        """The state of a subscription now; None if there is none any more."""
        before = self._known.pop(key, None)
        if before is not None:
            self.states[before] -= 1
        if state is not None:
            self._known[key] = state
            self.states[state] += 1

    def refuse(self, key: bytes, status: Status) -> None:
        """A record was refused."""
        self.refused_records += 1
        error = status.error or {}
        self.refusals.append(
            Refusal(
                shown(key.decode("utf-8", "replace")),
                status.version,
                status.since,
                str(error.get("code", "")),
                str(error.get("detail", "")).partition("\n")[0],
            )
        )

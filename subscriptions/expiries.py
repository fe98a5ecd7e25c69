"""Which subscriptions come to their end, and when: whose time has come is known without a look at
all the others.
"""

import heapq
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from subscriptions.model import Subscription, SubscriptionKey

_SPARE = 1000


class Expiries:
    """The times of some subscriptions. What is registered anew has to be added."""

    def __init__(self, subscriptions: Mapping[SubscriptionKey, Subscription]) -> None:
        self._subscriptions = subscriptions
        """Those that are registered; others keep it."""
        self._entries: list[tuple[datetime, SubscriptionKey, int]] = []
        self._now = datetime.min.replace(tzinfo=UTC)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, subscription: Subscription) -> None:
        """One that is registered from here on."""
        if subscription.record.expires is None:
            return
        heapq.heappush(self._entries, _entry(subscription))
        # Each update leaves an entry behind; one that is repeated for years must not pile up.
        if len(self._entries) > 2 * len(self._subscriptions) + _SPARE:
            self._entries = [each for each in self._entries if self._wants(each) is not None]
            heapq.heapify(self._entries)

    def pass_to(self, now: datetime) -> Iterator[Subscription]:
        """Those that the time makes a difference to, from the last one asked about to this one; no
        paused ones.

        If the clock was put back, because it had been wrong, they are not expired any more.
        """
        before, self._now = self._now, now
        if now < before:
            for each in self._subscriptions.values():
                if each.is_expired(before) and not each.is_expired(now):
                    heapq.heappush(self._entries, _entry(each))
                    if not each.record.paused:
                        yield each
        while self._entries and self._entries[0][0] <= now:
            subscription = self._wants(heapq.heappop(self._entries))
            if subscription is not None:
                yield subscription

    def _wants(self, entry: tuple[datetime, SubscriptionKey, int]) -> Subscription | None:
        """What an entry is about, if that is still registered and wants results."""
        _, key, version = entry
        subscription = self._subscriptions.get(key)
        if subscription is None or subscription.version != version or subscription.record.paused:
            return None
        return subscription


def _entry(subscription: Subscription) -> tuple[datetime, SubscriptionKey, int]:
    assert subscription.record.expires is not None
    return (subscription.record.expires, subscription.key, subscription.version)

"""The subscriptions in force: those of the registry now, and those that a batch is pinned to.

The job's main thread keeps them up to date, and batches use them on a thread of Spark's. To keep
them up to date is to ask Kafka, under a lock; what comes of it is left for batches in one piece,
which they take without.
"""

import gc
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from broker.loading import keep_loaded
from streaming_jobs import topic_identities
from streaming_jobs.failures import explain_failure
from streaming_jobs.output_limits import OutputLimits
from streaming_jobs.output_watch import OutputWatch
from streaming_jobs.pins import DIRECTORY, Pin, Pins
from streaming_jobs.settings import JobSettings
from streaming_jobs.snapshot import Snapshot, Snapshots
from streaming_jobs.storage import storage_of
from streaming_jobs.topic_identities import TopicIdentities
from streaming_jobs.worker import EngineLimits
from subscriptions.connection import KafkaSettings
from subscriptions.kafka_log import KafkaStatusLog, KafkaSubscriptionLog
from subscriptions.records import RecordLimits
from subscriptions.registry import Registry
from subscriptions.subscription_set import NO_VERSION
from subscriptions.topics import TopicAdmin, TopicSettings, message_settings

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_STALE_SECONDS = 1.0
"""A batch takes the subscriptions as `follow` left them, so that messages don't wait while Kafka is
asked about subscriptions; unless that was so long ago, and nobody is about to."""

_REST = 4.0
"""When there are many changes at once, so much longer than taking some takes they are left alone: a
fifth of a core's time is enough for them, the rest is for messages."""

_UNKEPT = 5_000
"""After so many changes the collector is told again to pass over what is loaded."""


class Selected(NamedTuple):
    """The subscriptions of a batch."""

    version: int
    snapshot: Snapshot
    suspended: frozenset[str]
    """Subscribers that have no topic to write to."""
    output_limits: OutputLimits
    """What the topics take."""


class _Next(NamedTuple):
    """What the next batch takes, all of one version; unless the snapshot is that of a batch which
    came again, and has to be the registry's first.
    """

    pin: Pin
    snapshot: Snapshot
    subscribers: frozenset[str]


class InForce:
    """The subscriptions of a job. What it opens is closed with the stack that it is given."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaSettings,
        job: JobSettings,
        *,
        limits: EngineLimits,
        show: Callable[[Registry], None],
        give_up: Callable[[], None],
        stack: ExitStack,
    ) -> None:
        client, self._names = kafka.client_settings(), kafka.names
        self._show = show
        """Called when the registry may have changed."""
        self._give_up = give_up
        """Ends a write that waits for a topic which can't be had, so that it is tried without."""
        outputs = TopicSettings(partitions=1)
        self._admin = stack.enter_context(TopicAdmin(client, self._names, outputs=outputs))
        topics = self._admin.control_topics()
        if job.input_topics:
            del topics[self._names.messages]
            topics.update(dict.fromkeys(job.input_topics, message_settings()))
        self._admin.ensure(topics)
        self._identities = TopicIdentities(
            self._admin,
            self._names.inputs(job.input_topics),
            storage_of(spark, job.checkpoint, topic_identities.DIRECTORY),
        )
        self._outputs = OutputWatch(self._admin, job.max_record_bytes)
        self._now = datetime.now(UTC)
        """The registry's time: a pin has the very moment that decided about `expires`."""
        self.registry = Registry(
            stack.enter_context(KafkaSubscriptionLog(client, self._names.subscriptions)),
            stack.enter_context(KafkaStatusLog(client, self._names.status)),
            prepare=self._admin.ensure_outputs,
            clock=lambda: self._now,
            limits=RecordLimits(query=limits.query),
        )
        self._pins = Pins(storage_of(spark, job.checkpoint, DIRECTORY))
        self._snapshots = Snapshots(spark.sparkContext)
        self._keeping = threading.Lock()
        """For the registry, the snapshots, the output topics and all that Kafka is asked about."""
        self._next = _Next(Pin(NO_VERSION, "", ""), self._snapshots.current, frozenset())
        self._is_rebuilt = False
        """Whether the snapshot is that of a batch that came again, not the registry's."""
        self._in_batch: frozenset[str] | None = None
        """Those who get results of the batch that is under way."""
        self._beginning = threading.Lock()
        """For a batch to take what there is, and be seen to have it."""
        self._kept_version = -1
        """When the collector was last told to pass over what is loaded."""
        stack.callback(gc.unfreeze)
        self._followed = -math.inf
        """When they were last brought up to date."""
        self._follow_seconds = 0.0
        """How long that took."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._snapshots)

    @property
    def version(self) -> int:
        """The version that the next batch has."""
        return self._next.pin.version

    # Kept up to date

    def catch_up(self, progress: Callable[[int, int], None]) -> None:
        """Replay all that was registered."""
        self.registry.catch_up(progress)
        self._snapshots.replace(self.registry.active)
        self._leave(self._pin_of_now())
        self._outputs.measure(self._snapshots.subscribers)
        self._keep_loaded()
        self._followed = time.monotonic()

    def follow(self) -> None:
        """Take some of the changes that there are now, and look after the output topics."""
        with self._keeping:
            self._follow()

    def _follow(self) -> None:
        started = time.monotonic()
        self._identities.check_if_due()
        self._follow_registry()
        self._watch_outputs()
        self._free_if_idle()
        if self.registry.version > self._kept_version + _UNKEPT:
            self._keep_loaded()
        self._followed = time.monotonic()
        self._follow_seconds = self._followed - started

    def _free_if_idle(self) -> None:
        """Free what only earlier batches used: there may be no other one for days."""
        with self._beginning:
            if self.is_in_batch:
                return
        self._snapshots.release(self._next.snapshot)

    def _keep_loaded(self) -> None:
        keep_loaded()
        self._kept_version = self.registry.version

    @property
    def pause_seconds(self) -> float:
        """How long to wait before `follow` is called again."""
        rest = _REST * self._follow_seconds
        return min(rest, _POLL_SECONDS) if self.registry.is_behind else _POLL_SECONDS

    def current(self) -> Snapshot:
        """What a batch would have now."""
        return self._snapshots.current

    def _follow_registry(self) -> None:
        self._now = datetime.now(UTC)
        changes = self.registry.take()
        if changes and not self._is_rebuilt:
            self._snapshots.update((each.key, each.subscription) for each in changes)
        pin, before = self._pin_of_now(), self._next.pin
        # If nothing has changed, nothing has expired either, and the time makes no difference.
        if changes or replace(pin, time=before.time) != before:
            self._leave(pin)
        self.registry.publish()
        self._show(self.registry)

    def _leave(self, pin: Pin) -> None:
        """Let the next batch have what there is now."""
        self._pins.prepare(pin)
        self._next = _Next(pin, self._snapshots.current, self._snapshots.subscribers)

    def _pin_of_now(self) -> Pin:
        registry = self.registry
        return Pin(
            registry.version,
            registry.digest(),
            self._now.isoformat(),
            tuple(registry.suspended),
            registry.kept,
        )

    def _watch_outputs(self) -> None:
        """Make output topics that are gone, also while a batch is written: the producer tries again
        until they are there. The batch may have subscribers that have left meanwhile. If a topic of
        its can't be had, its write is given up.
        """
        in_batch = self._in_batch or frozenset()
        failed = self._outputs.check_if_due(self._snapshots.subscribers | in_batch)
        if failed:
            self.registry.suspend(failed)
            self._follow_registry()
            in_batch = self._in_batch or frozenset()
            if not in_batch.isdisjoint(failed):
                self._give_up()
        if self._outputs.lacks_dead_letters:
            self._outputs.mend_dead_letters()

    # For a batch

    @property
    def is_in_batch(self) -> bool:
        """Whether a batch is under way."""
        return self._in_batch is not None

    @property
    def topics(self) -> int:
        """To how many topics the batch that is under way may write."""
        return self._names.shared or len(self._in_batch or ())

    @contextmanager
    def selected(self, batch: int) -> Iterator[Selected]:
        """The subscriptions of a batch, pinned; what only earlier ones used is freed after it."""
        try:
            yield self._pinned(batch)
        finally:
            self._in_batch = None
        self._snapshots.release(self._next.snapshot)

    def _pinned(self, batch: int) -> Selected:
        """Those it had if it was begun before, else those of now."""
        pin = self._pins.read(batch)
        if pin is not None:
            _LOGGER.info("batch %d comes again, with version %d", batch, pin.version)
            with self._keeping:
                selected = self._rebuilt(pin)
                self._begin(self._snapshots.subscribers, selected.suspended)
            return selected
        is_stale = time.monotonic() - self._followed > _STALE_SECONDS
        if is_stale and not self._keeping.locked():
            self.follow()
        if self._is_rebuilt:
            self._return_to_now()
        with self._beginning:
            pin, snapshot, subscribers = self._next
            suspended = frozenset(pin.suspended)
            self._begin(subscribers, suspended)
        self._pins.write(batch, pin)
        return Selected(pin.version, snapshot, suspended, self._outputs.limits)

    def _begin(self, subscribers: frozenset[str], suspended: frozenset[str]) -> None:
        self._in_batch = subscribers - suspended if suspended else subscribers

    def _return_to_now(self) -> None:
        """Let the snapshot be the registry's again."""
        with self._keeping:
            self._follow_registry()
            self._snapshots.replace(self.registry.active)
            self._is_rebuilt = False
            self._leave(self._next.pin)

    def _rebuilt(self, pin: Pin) -> Selected:
        """Those of a batch that was begun before."""
        set_then = self.registry.rebuild(pin.version, pin.digest, pin.kept)
        active = {
            key: each
            for key, each in set_then.active_at(pin.moment).items()
            if key.subscriber not in pin.suspended
        }
        snapshot = self._snapshots.replace(active)
        self._is_rebuilt = True
        # Those whose topic is gone since then have nowhere to get it.
        failed = self._outputs.check(self._snapshots.subscribers)
        suspended = frozenset({*pin.suspended, *failed})
        return Selected(pin.version, snapshot, suspended, self._outputs.limits)

    def without_failed(self, selected: Selected, error: Py4JJavaError) -> Selected:
        """The same for another try: without those whose topics made a write fail, or with less for
        them. Raises if it was not theirs.
        """
        # Not those of now: a subscriber may have gone, and taken the topic away.
        subscribers = selected.snapshot.subscribers() - selected.suspended
        text = str(error)
        with self._keeping:
            lost = self._admin.unwritable(self._names.output(each) for each in subscribers)
            failed = self._outputs.refused(text, subscribers)
            self._outputs.measure(subscribers)
            is_mended = self._outputs.mend_dead_letters()
            limits = self._outputs.limits
            # Who was suspended while it was written may have a topic again by now.
            given_up = subscribers & self.registry.suspended.keys()
            is_known = lost or failed or given_up or is_mended
            if not is_known and limits == selected.output_limits:
                raise explain_failure(error)
            failed.update(self._outputs.check(subscribers))
            if failed:
                self.registry.suspend(failed)
                self._follow_registry()
            suspended = selected.suspended.union(self.registry.suspended, failed)
            self._in_batch = frozenset(subscribers) - suspended
        return selected._replace(suspended=suspended, output_limits=limits)

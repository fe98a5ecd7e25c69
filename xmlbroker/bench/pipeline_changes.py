"""`xmlbroker bench pipeline --changes`: subscriptions change while messages are answered.

A process of its own writes the changes, as the load is one: the driver must not be slowed down by
what is not its work. Batches far from the changes show how much they differ by themselves.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from subscriptions.kafka_client import KafkaConsumer, TopicPartition, open_client
from subscriptions.kafka_log import KafkaSubscriptionLog
from xmlbroker.bench import books
from xmlbroker.bench.pipeline import SUBSCRIBERS, Bench, following, running, start_load

_WARM = timedelta(seconds=10)
"""So long after the first batch they are slower than those that follow: Java's code is still being
compiled."""
_AFTER_SECONDS = 5.0
"""Batches so long after the last change are still taken for those that have to do with it."""


def run(
    subscriptions: int, filters: float, changed: int, rate: int, seconds: float
) -> dict[str, object]:
    """What changes under load do to batches, and when they are effective."""
    with running(subscriptions, filters) as bench:
        phases: dict[str, float] = {}
        with bench.broker(phases) as (job, query), following(job):
            load = start_load(bench, seconds, rate, seed=7)
            first = first_delivery(bench)
            writer = bench.module(
                "pipeline_changes",
                *(bench.kafka.bootstrap_servers, bench.names.subscriptions),
                *map(str, (changed, bench.values, seconds / 3)),
            )
            assert writer.stdout is not None
            begun = datetime.fromisoformat(writer.stdout.readline().strip())
            wanted = int(writer.stdout.readline())
            written = time.perf_counter()
            while job.in_force.version < wanted:
                time.sleep(0.01)
            effective = time.perf_counter() - written
            until = datetime.now(UTC) + timedelta(seconds=_AFTER_SECONDS)
            load.communicate()
            done = [each for each in query.recentProgress if each["numInputRows"]]
        return {
            "bench": "pipeline changes",
            "subscriptions": subscriptions,
            "filters": filters,
            "changes": changed,
            "messages_a_second": rate,
            "start_seconds": {**phases, "first_delivery": first},
            "effective_seconds": effective,
            **_compared(done, begun, until),
        }


def first_delivery(bench: Bench) -> float:
    """The seconds until a first record is in an output topic."""
    started = time.perf_counter()
    consumer = open_client(KafkaConsumer, bench.kafka.client_settings())
    partitions = [TopicPartition(topic, 0) for topic in bench.outputs]
    while not any(consumer.end_offsets(partitions).values()):
        time.sleep(0.02)
    consumer.close()
    return time.perf_counter() - started


def _compared(batches: list[Any], begun: datetime, until: datetime) -> dict[str, float]:
    """The slowest batches between two moments, and of the others, against the median of those."""
    warm = datetime.fromisoformat(batches[0]["timestamp"]) + _WARM
    during: list[int] = []
    others: list[int] = []
    for each in batches:
        started = datetime.fromisoformat(each["timestamp"])
        if started >= warm:
            is_during = begun <= started <= until
            (during if is_during else others).append(int(each["durationMs"]["triggerExecution"]))
    median = statistics.median(others)
    return {
        "median_batch_milliseconds": median,
        "batches_while_changing": len(during),
        "slowest_while_changing": max(during) / median,
        "other_batches": len(others),
        "slowest_of_others": max(others) / median,
    }


def _changes(count: int, values: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Half of them new subscriptions, a quarter replaced, a quarter removed."""
    for number, query in enumerate(books.book_queries(count, values, seed=99)):
        known = f"subscriber-{number % SUBSCRIBERS:02}/s{number}".encode()
        value = json.dumps({"query": query}).encode()
        match number % 4:
            case 0:
                yield known, value
            case 1:
                yield known, None
            case _:
                yield f"subscriber-00/new{number}".encode(), value


def main() -> None:
    """`python -m xmlbroker.bench.pipeline_changes SERVERS TOPIC COUNT VALUES WAIT`."""
    servers, topic, count, values, wait = sys.argv[1:]
    changes = list(_changes(int(count), int(values)))
    time.sleep(float(wait))
    with KafkaSubscriptionLog({"bootstrap_servers": servers}, topic) as log:
        sys.stdout.write(f"{datetime.now(UTC).isoformat()}\n")
        log.append_all(changes)
        sys.stdout.write(f"{log.end() - 1}\n")


if __name__ == "__main__":
    main()

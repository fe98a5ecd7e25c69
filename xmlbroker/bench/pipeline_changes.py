"""`xmlbroker bench pipeline --changes`: subscriptions change while messages are answered.

A process of its own writes the changes, as the load is one: the driver must not be slowed down by
what is not its work. Seconds with changes and seconds without take turns, as many of either: so it
is seen how much batches differ by themselves, on a machine that may be slower for a while.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs.broker_job import BrokerJob
from subscriptions.kafka_client import KafkaConsumer, TopicPartition, open_client
from subscriptions.kafka_log import KafkaSubscriptionLog
from xmlbroker.bench import books
from xmlbroker.bench.measure import progress
from xmlbroker.bench.pipeline import SUBSCRIBERS, Bench, following, running, start_load

_WARM_SECONDS = 20.0
"""So long after the first batch they are slower than those that follow: Java's code is still being
compiled."""


class Turn(NamedTuple):
    """Seconds without changes, and as many in which they are written and taken."""

    begun: datetime
    changing: datetime
    ended: datetime
    effective_seconds: float


def run(
    subscriptions: int, filters: float, changed: int, rate: int, *, seconds: float, rounds: int
) -> dict[str, object]:
    """What changes under load do to batches, and when they are effective."""
    with running(subscriptions, filters) as bench:
        phases: dict[str, float] = {}
        with bench.broker(phases) as (job, query), following(job):
            # The first turn is not counted: it has Java compile what changes need.
            turns = rounds + 1
            most = 60 + _WARM_SECONDS + turns * (2 * seconds + 10)  # it is ended before
            load = start_load(bench, most, rate, seed=7)
            first = first_delivery(bench)
            done = _take_turns(bench, job, changed, seconds, turns)
            batches = _batches(query)
            load.kill()
            load.communicate()
        compared = [_compared(batches, turn) for turn in done[1:]]
        return {
            "bench": "pipeline changes",
            "subscriptions": subscriptions,
            "filters": filters,
            "changes": changed,
            "messages_a_second": rate,
            "start_seconds": {**phases, "first_delivery": first},
            "effective_seconds": [turn.effective_seconds for turn in done[1:]],
            **{name: statistics.median(each[name] for each in compared) for name in compared[0]},
            "rounds": compared,
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


def _take_turns(
    bench: Bench, job: BrokerJob, changed: int, seconds: float, turns: int
) -> list[Turn]:
    servers, topic = bench.kafka.bootstrap_servers, bench.names.subscriptions
    writer = bench.module(
        "pipeline_changes", servers, topic, *map(str, (changed, bench.values, turns))
    )
    assert writer.stdin is not None and writer.stdout is not None  # noqa: PT018
    writer.stdout.readline()
    time.sleep(_WARM_SECONDS)
    done: list[Turn] = []
    for number in range(turns):
        progress(f"changes: round {number} of {turns - 1}")
        begun = datetime.now(UTC)
        time.sleep(seconds)
        changing = datetime.now(UTC)
        started = time.monotonic()
        writer.stdin.write("\n")
        writer.stdin.flush()
        wanted = int(writer.stdout.readline())
        written = time.monotonic()
        while job.in_force.version < wanted:
            time.sleep(0.01)
        effective = time.monotonic() - written
        time.sleep(max(0.0, started + seconds - time.monotonic()))
        done.append(Turn(begun, changing, datetime.now(UTC), effective))
    writer.communicate()
    return done


def _batches(query: StreamingQuery) -> list[tuple[datetime, int]]:
    """When batches began, and the milliseconds that they took."""
    return [
        (datetime.fromisoformat(each["timestamp"]), int(each["durationMs"]["triggerExecution"]))
        for each in query.recentProgress
        if each["numInputRows"]
    ]


def _compared(batches: list[tuple[datetime, int]], turn: Turn) -> dict[str, Any]:
    """The slowest batches of a turn, with changes and without, against the median without."""
    calm = [spent for began, spent in batches if turn.begun <= began < turn.changing]
    changing = [spent for began, spent in batches if turn.changing <= began < turn.ended]
    median = statistics.median(calm)
    return {
        "median_milliseconds": median,
        "median_while_changing": statistics.median(changing) / median,
        "slowest_while_changing": max(changing) / median,
        "slowest_without_changes": max(calm) / median,
        "batches_while_changing": len(changing),
        "batches_without_changes": len(calm),
    }


def _changes(count: int, values: int, turn: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Half of them new subscriptions, a quarter replaced, a quarter removed."""
    queries = books.book_queries(count, values, seed=99 + turn)
    for number, query in enumerate(queries, start=turn * count):
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
    """`python -m xmlbroker.bench.pipeline_changes SERVERS TOPIC COUNT VALUES TURNS`.

    Writes the changes of a turn whenever there is a line on standard input.
    """
    servers, topic, count, values, turns = sys.argv[1:]
    changes = [list(_changes(int(count), int(values), turn)) for turn in range(int(turns))]
    with KafkaSubscriptionLog({"bootstrap_servers": servers}, topic) as log:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for each in changes:
            sys.stdin.readline()
            log.append_all(each)
            sys.stdout.write(f"{log.end() - 1}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""`xmlbroker bench soak`: the broker under a steady load for long, and whether anything grows.

Subscriptions change all the time, as they do. What is looked at every minute: the memory of the
driver, of its JVM and of the largest worker, what is live in the JVM's heap, open files, threads,
the checkpoint's size, lag and latency. Each is compared between the first quarter, after a warm-up,
and the last.
"""

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from streaming_jobs.broker_job import BrokerJob
from streaming_jobs.statistics import resident_bytes
from subscriptions.kafka_log import KafkaSubscriptionLog
from xmlbroker.bench import books
from xmlbroker.bench.measure import progress
from xmlbroker.bench.pipeline import Bench, following, running, start_load

_CHANGES_A_MINUTE = 60
_PROGRESS_KEPT = 100
"""As Spark has it by itself: to keep more would be growth."""


def run(subscriptions: int, rate: int, minutes: float, every: float = 60.0) -> dict[str, object]:
    """The figures of a soak; a line of them on standard error each time they are taken."""
    with (
        running(subscriptions, progress_kept=_PROGRESS_KEPT) as bench,
        bench.broker() as (job, _),
        following(job),
    ):
        load = start_load(bench, minutes * 60, rate, seed=1)
        try:
            samples = list(_samples(bench, job, minutes * 60, every))
        finally:
            load.terminate()
            load.communicate()
    quarter = max(1, (len(samples) - 1) // 4)
    first, last = samples[1 : 1 + quarter], samples[-quarter:]
    return {
        "bench": "soak",
        "subscriptions": subscriptions,
        "messages_a_second": rate,
        "minutes": minutes,
        "samples": samples,
        "growth": {name: _median(last, name) / (_median(first, name) or 1) for name in samples[0]},
    }


def _samples(
    bench: Bench, job: BrokerJob, seconds: float, every: float
) -> Iterator[dict[str, float]]:
    started = time.monotonic()
    changes = _changes(bench.values)
    with KafkaSubscriptionLog(bench.kafka.client_settings(), bench.names.subscriptions) as log:
        while time.monotonic() - started < seconds:
            for _ in range(max(1, round(_CHANGES_A_MINUTE * every / 60))):
                log.append(*next(changes))
                time.sleep(every / max(1, round(_CHANGES_A_MINUTE * every / 60)))
            sample = _sample(bench, job)
            text = json.dumps({name: round(each, 1) for name, each in sample.items()})
            sys.stderr.write(f"{time.monotonic() - started:6.0f} s {text}\n")
            progress("")
            yield sample


def _changes(values: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Subscriptions that come, change and go, without an end and without growing in number."""
    number = 0
    while True:
        for query in books.book_queries(200, values, seed=number + 1_000):
            number += 1
            key = f"subscriber-{number % 20:02}/soak{number % 97}".encode()
            yield key, None if number % 5 == 0 else json.dumps({"query": query}).encode()


def _sample(bench: Bench, job: BrokerJob) -> dict[str, float]:
    data = job.overview.to_data()
    latency = data["latency_milliseconds"] or {"p50": 0.0, "p99": 0.0}
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way to the JVM's process
    assert gateway is not None
    memory = job.metrics.memory.labels("worker")._value.get()  # noqa: SLF001
    checkpoint = bench.directory / f"checkpoint-{bench.runs}"
    files = [each for each in checkpoint.rglob("*") if each.is_file()]
    return {
        "messages_a_second": data["per_second"]["messages"],
        "p50_ms": latency["p50"],
        "p99_ms": latency["p99"],
        "lag": float(sum(data.get("lag", {}).values())),
        "driver_mb": resident_bytes() / 1e6,
        "jvm_mb": _resident(gateway.proc.pid) / 1e6,
        "jvm_live_mb": _live(bench) / 1e6,
        "worker_mb": memory / 1e6,
        "open_files": float(len(os.listdir("/proc/self/fd"))),  # noqa: PTH208
        "threads": float(threading.active_count()),
        "checkpoint_files": float(len(files)),
    }


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _live(bench: Bench) -> float:
    """What is left in the JVM's heap after a collection: its size says little, it grows to what it
    may have before Java looks for garbage.
    """
    jvm: Any = bench.spark.sparkContext._jvm  # noqa: SLF001 - there is no public name for it
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory())


def _median(samples: list[dict[str, float]], name: str) -> float:
    return statistics.median(each[name] for each in samples)

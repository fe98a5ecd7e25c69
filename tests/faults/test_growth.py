"""Nothing grows with the number of batches (point 8 of the ledger): counted, in one job that lives
long enough to forget what it kept of its first batches.
"""

import os
import threading
from typing import NamedTuple

import pytest

from streaming_jobs.statistics import resident_bytes
from tests.faults.bench import Bench
from tests.faults.traffic import wait_until

_KEPT = 130
"""Batches after which Spark and the pins have their fill of old ones: both keep a hundred."""


class Size(NamedTuple):
    """How much of everything there is."""

    files: int
    threads: int
    checkpoint: int
    accumulators: int
    memory: int


def size_of(bench: Bench) -> Size:
    from pyspark.accumulators import _accumulatorRegistry  # noqa: PLC0415 - made with a context

    return Size(
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        threading.active_count(),
        sum(each.is_file() for each in bench.checkpoint.rglob("*")),
        len(_accumulatorRegistry),
        resident_bytes(),
    )


@pytest.mark.slow
def test_nothing_grows_with_the_number_of_batches(bench: Bench) -> None:
    bench.subscribe_some()
    sizes = []
    with bench.job(max_messages_per_batch=10) as job:
        for batches in (_KEPT, 2 * _KEPT):
            while job.job.batches < batches:
                bench.publish(50)
                bench.change_something()
                bench.traffic.settle()
                wait_until(lambda: bench.scenario.lag() == 0, "all is read")
            sizes.append(size_of(bench))
        bench.scenario.come_to_rest(job)
    bench.scenario.verify(repeated_batches=0)
    first, second = sizes
    assert second.files <= first.files + 5
    assert second.threads <= first.threads + 2
    # Spark cleans up behind itself every now and then, so there may be some more.
    assert second.checkpoint <= first.checkpoint * 1.2
    assert second.accumulators <= first.accumulators
    assert second.memory <= first.memory * 1.1

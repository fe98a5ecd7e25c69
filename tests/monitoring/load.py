"""A broker under a load that has some of everything that is measured: the demo's subscriptions and
messages, bad ones among them, a subscription that asks for too much, others that come, change and
go, one that is refused again and again.
"""

import json
import threading
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pyspark.sql import SparkSession

from samples.demo.feed import messages
from streaming_jobs.health import HealthServer
from tests.faults.jobs import JobHere
from tests.faults.traffic import Message, Traffic

SUBSCRIPTIONS = Path(__file__).parents[2] / "samples" / "demo" / "subscriptions.toml"
GREEDY = "for $s in //deep return <all>{$s}</all>"
DEEP = b"<deep>" * 150 + b"x" * 3_000 + b"</deep>" * 150
"""Its text is in each of its 150 elements, so GREEDY gives it 150 times."""

WRONG = b'{"query": "for $p in //section/p[place return <at>{$p}</at>"}'
IN_A_BATCH = 50
"""So few that some have to wait, at the latest when a batch is slow."""

PAUSE_SECONDS = 0.25
MESSAGES_AT_ONCE = 20


class LoadedBroker:
    """A job with its endpoints; from `press` on it has work until its context ends."""

    def __init__(self, spark: SparkSession, servers: str, prefix: str, checkpoint: Path) -> None:
        self._stack = ExitStack()
        self._here = JobHere(spark, servers, prefix, checkpoint, max_messages_per_batch=IN_A_BATCH)
        self.job = self._here.job
        self._traffic = Traffic(servers, prefix)
        self._health = HealthServer(
            self.job.metrics.registry,
            self.job.why_not_live,
            self.job.why_not_ready,
            self.job.overview.to_data,
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._press, name="load")
        self.failure: BaseException | None = None

    @property
    def target(self) -> str:
        """What Prometheus scrapes."""
        return self._health.address.removeprefix("http://")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._traffic)
            self._traffic.make_topics()
            stack.enter_context(self._health)
            stack.enter_context(self._here)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._stack.close()

    def press(self) -> None:
        """Begin."""
        for subscriber, own in tomllib.loads(SUBSCRIPTIONS.read_text()).items():
            for name, record in own.items():
                fields = {key: record[key] for key in ("query", "format") if key in record}
                self._write(f"{subscriber}/{name}", json.dumps(fields).encode())
        self._traffic.subscribe("greedy/all", GREEDY)
        self._thread.start()

    def _press(self) -> None:
        try:
            number = 0
            while not self._ending.wait(PAUSE_SECONDS):
                self._publish(number)
                if number % 4 == 3:
                    self._change(number)
                number += 1
        except BaseException as error:
            self.failure = error

    def _publish(self, number: int) -> None:
        values = [*messages(MESSAGES_AT_ONCE, seed=number)]
        if number % 2:
            values.append(DEEP)
        self._traffic.publish(Message(each) for each in values)

    def _change(self, number: int) -> None:
        amount = 6_000 + number
        query = f"for $t in /trades/trade where $t/amount > {amount} return <big>{{$t/@id}}</big>"
        self._traffic.subscribe("finance/big-trades", query)
        self._traffic.subscribe(f"guest/n{number}", "//trade")
        if number > 4:
            self._traffic.unsubscribe(f"guest/n{number - 4}")
        self._write("research/mistake", WRONG)

    def _write(self, key: str, value: bytes) -> None:
        self._traffic.write_record(key, value, is_right=False)


def wait_for(seconds: float, broker: LoadedBroker) -> None:
    """Let it work so long; a load that has failed is an error at once."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert broker.failure is None, broker.failure
        time.sleep(0.2)

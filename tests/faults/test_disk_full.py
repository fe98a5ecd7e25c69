"""No space left under the checkpoint, or under Kafka (F4)."""

import time
from pathlib import Path

import pytest

from tests.faults.bench import Bench
from tests.faults.jobs import JobProcess
from tests.faults.scenario import Scenario
from tests.faults.small_disk import small_disk
from tests.faults.test_up import PATIENCE_SECONDS, up
from tests.faults.traffic import Message, Traffic
from tests.live import RunningKafka


def publish_until_it_ends(bench: Bench, job: JobProcess) -> None:
    while job.is_alive:
        bench.publish(5)
        bench.scenario.batches.collect()
        time.sleep(0.1)  # the oracle has to answer all of them, too


@pytest.mark.slow
def test_the_disk_of_the_checkpoint_is_full(
    kafka: RunningKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """It ends and says so, again and again until there is space, and then goes on."""
    with small_disk(tmp_path / "small", 4_000_000) as disk:
        bench = Bench(None, kafka.bootstrap_servers, topic_prefix, disk.seen)

        def job() -> JobProcess:
            traffic, log = bench.traffic, tmp_path / "log"
            return JobProcess(
                *(traffic.bootstrap_servers, traffic.prefix, disk.path / "checkpoint", log),
                entering=disk.entering,
            )

        with bench.traffic:
            bench.traffic.make_topics()
            bench.subscribe_some()
            with job() as first:
                assert first.await_ready(), first.log()
                bench.publish(50)
                bench.scenario.come_to_rest(first)
                # Enough for some files of the next batches, but not for all of one of them.
                disk.fill(but=4096 * bench.scenario.rng.randrange(12))
                publish_until_it_ends(bench, first)
                assert first.await_end() == 1
                assert "disk-full: there is no space left" in first.log()
            with job() as second:
                # What little is left may be enough for the batch that comes again, but not for all.
                second.await_ready()
                publish_until_it_ends(bench, second)
                assert second.await_end() == 1
                assert second.log().count("disk-full: there is no space left") == 2
            disk.make_space()
            with job() as third:
                assert third.await_ready(), third.log()
                bench.publish(50)
                bench.scenario.come_to_rest(third)
                assert third.stop() == 0
            bench.scenario.verify(repeated_batches=2, attempts=2)


@pytest.mark.slow
def test_the_disk_of_kafka_is_full(tmp_path: Path) -> None:
    """`up` ends when its Kafka can't go on; what Kafka had acknowledged is delivered afterwards."""
    with small_disk(tmp_path / "small", 40_000_000) as disk:
        log = tmp_path / "log"
        large = b"<m>%s</m>" % (b"<n/>" * 5_000)
        disk.fill(but=10_000_000)
        with up(disk.path / "data", log, disk.entering) as first:
            traffic = Traffic(first.servers, "xmlbroker")
            scenario = Scenario(traffic, disk.seen / "data" / "checkpoint")
            traffic.subscribe("desk/all", "for $m in /m return <got>{count($m/n)}</got>")
            for _ in range(60):  # twelve megabytes
                traffic.publish([Message(large)] * 10, partitions=1)
                scenario.batches.collect()
                time.sleep(0.1)
            assert first.process.wait(PATIENCE_SECONDS) == 1
            assert "No space left on device" in log.read_text(encoding="utf-8")
            first.await_end_of_all()
        disk.make_space()
        with traffic, up(disk.path / "data", log, disk.entering) as second:
            assert second.servers == first.servers
            traffic.publish([Message(large)], partitions=1)
            scenario.come_to_rest(second)
            scenario.verify(repeated_batches=2, attempts=4)
            second.process.terminate()
            assert second.process.wait(PATIENCE_SECONDS) == 0

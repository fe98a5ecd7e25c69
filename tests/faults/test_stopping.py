"""Jobs that are stopped on purpose: between two batches if that can be."""

import os
import signal
from pathlib import Path

import pytest

from streaming_jobs.local.kafka_broker import EmbeddedKafka
from tests.faults.bench import Bench, is_in_batch
from tests.faults.traffic import wait_until


def test_a_job_with_a_backlog_is_stopped_between_two_batches(bench_without_spark: Bench) -> None:
    """There is always data for another batch, and no moment in which the stream waits for some."""
    bench = bench_without_spark
    bench.subscribe_some()
    bench.publish(3_000)
    small = {"XMLBROKER_JOB__MAX_MESSAGES_PER_BATCH": "50"}
    with bench.process(**small) as job:
        assert job.await_ready(), job.log()[-3000:]
        wait_until(lambda: bench.scenario.lag() < 2_800, "some batches")
        assert job.stop() == 0, job.log()[-3000:]
        assert "stopped between batches" in job.log()
        assert "Traceback" not in job.log(), job.log()[-3000:]
    assert bench.scenario.lag() > 0, "it left some to the next one"
    with bench.process() as job:
        assert job.await_ready(), job.log()[-3000:]
        bench.scenario.come_to_rest(job)
        assert job.stop() == 0
    bench.scenario.verify()


@pytest.mark.slow
def test_a_job_whose_kafka_does_not_answer_is_stopped(tmp_path: Path) -> None:
    """Its batch can't be finished: it comes again."""
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        bench = Bench(None, kafka.bootstrap_servers, "frozen", tmp_path)
        assert kafka.pid is not None
        with bench.traffic:
            bench.traffic.make_topics()
            bench.subscribe_some()
            with bench.process() as job:
                assert job.await_ready(), job.log()[-3000:]
                bench.publish(3_000)
                bench.traffic.settle()
                wait_until(lambda: is_in_batch(bench.checkpoint), "a batch is under way")
                os.killpg(kafka.pid, signal.SIGSTOP)
                try:
                    wait_until(lambda: "waiting for Kafka" in job.log(), "it is seen", 120)
                    assert job.stop() == 0, job.log()[-3000:]
                    assert "stopped within a batch" in job.log()
                finally:
                    os.killpg(kafka.pid, signal.SIGCONT)
            with bench.process() as job:
                assert job.await_ready(), job.log()[-3000:]
                bench.scenario.come_to_rest(job)
                assert job.stop() == 0
            bench.scenario.verify(repeated_batches=1)

"""Jobs that are stopped on purpose: between two batches, however many messages wait."""

from tests.faults.bench import Bench
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

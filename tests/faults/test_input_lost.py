"""Messages that retention took before they were read (F12)."""

from kafka import TopicPartition

from tests.faults.bench import Bench, refusal_of


def test_the_job_stops_and_says_so(bench: Bench) -> None:
    """F12: nothing is skipped in silence."""
    bench.subscribe_some()
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.publish(40)
    bench.traffic.settle()
    ends = bench.traffic.ends([bench.traffic.input])
    bench.traffic.admin.delete_records(
        {TopicPartition(each.topic, each.partition): end - 5 for each, end in ends.items()}
    )
    failure = refusal_of(bench.job())
    assert failure.code == "input-lost"
    assert "start with a new checkpoint" in failure.detail

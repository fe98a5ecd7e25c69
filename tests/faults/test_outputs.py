"""Output topics that are deleted, or take less than a result (F7)."""

import threading
from collections.abc import Iterable
from dataclasses import replace

import pytest

from subscriptions.topics import TopicAdmin
from tests.faults.bench import Bench, is_in_batch
from tests.faults.traffic import Message, wait_until


def test_an_output_topic_is_deleted(bench: Bench) -> None:
    """F7: it is made again, and other subscribers of the batch notice nothing."""
    bench.subscribe_some()
    bench.traffic.subscribe("unlucky/all", "//*")
    topic = f"{bench.traffic.prefix}.out.unlucky"
    with bench.job() as job:
        for _ in range(3):
            bench.publish(200)
            bench.traffic.admin.delete_topics([topic])
            bench.publish(200)
            bench.scenario.come_to_rest(job)
        wait_until(lambda: topic in bench.traffic.topics(), "the topic is made again")
        version = bench.traffic.subscribe("unlucky/again", "//*")
        bench.traffic.wait_for_status("unlucky/again", version)
        bench.publish(20)
        bench.scenario.come_to_rest(job)
        records = bench.traffic.drain([topic])
        assert sum(each.header("xb-subscription") == "unlucky/again" for each in records) == 20
    bench.scenario.verify(repeated_batches=3, attempts=4, may_lack=frozenset({"unlucky"}))


def test_the_topic_of_dead_letters_is_deleted(bench: Bench) -> None:
    """F7: it is made again, and nobody waits for it longer than that takes."""
    bench.traffic.subscribe("all/all", "//*")
    topic = f"{bench.traffic.prefix}.dead-letters"
    refused = Message(b"no XML", "not-well-formed")
    with bench.job() as job:
        bench.traffic.publish([refused])
        bench.scenario.come_to_rest(job)
        bench.traffic.admin.delete_topics([topic])
        bench.traffic.publish([refused] * 20)
        bench.publish(20)
        bench.scenario.come_to_rest(job, 60)
    left = {delivered.header("xb-source") for delivered in bench.traffic.drain([topic])}
    sent = {str(each.place) for each in bench.traffic.sent[1:21]}
    assert left == sent


def test_a_subscriber_leaves_and_takes_the_topic_along(bench: Bench) -> None:
    """F7: a batch that is under way still has the subscription, and no topic for it."""
    bench.subscribe_some()
    with bench.job() as job:
        for number in range(3):
            name = f"leaving{number}"
            version = bench.traffic.subscribe(f"{name}/all", "//*")
            bench.traffic.wait_for_status(f"{name}/all", version)
            bench.publish(500)
            wait_until(lambda: is_in_batch(bench.checkpoint), "a batch is under way")
            bench.traffic.unsubscribe(f"{name}/all")
            bench.traffic.admin.delete_topics([f"{bench.traffic.prefix}.out.{name}"])
            bench.publish(100)
            bench.scenario.come_to_rest(job)
    leaving = frozenset(f"leaving{number}" for number in range(3))
    bench.scenario.verify(repeated_batches=3, attempts=4, may_lack=leaving)


@pytest.mark.parametrize("is_back", [False, True])
def test_a_topic_that_is_deleted_in_a_write_can_not_be_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_back: bool
) -> None:
    """F7: its subscriber is suspended, and the write that waits for it is given up: Kafka's
    producer would wait for ten minutes, four times. The topic may be back when that is done.
    """
    bench.subscribe_some()
    bench.traffic.subscribe("unlucky/all", "//*")
    topic = f"{bench.traffic.prefix}.out.unlucky"
    is_forbidden = threading.Event()
    ensure = TopicAdmin.ensure_outputs

    def ensure_outputs(admin: TopicAdmin, subscribers: Iterable[str]) -> dict[str, str]:
        wanted = set(subscribers)
        forbidden = wanted & {"unlucky"} if is_forbidden.is_set() else set()
        made = ensure(admin, wanted if is_back else wanted - forbidden)
        return {**made, **dict.fromkeys(forbidden, "forbidden")}

    monkeypatch.setattr(TopicAdmin, "ensure_outputs", ensure_outputs)
    with bench.job(max_messages_per_batch=2_000) as job:
        bench.publish(10)
        bench.scenario.come_to_rest(job)
        is_forbidden.set()
        bench.publish(4_000)
        wait_until(lambda: is_in_batch(bench.checkpoint), "a batch is under way")
        bench.traffic.admin.delete_topics([topic])
        bench.scenario.come_to_rest(job)
        assert list(job.job.in_force.registry.suspended) == ["unlucky"]
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.scenario.verify(repeated_batches=1, attempts=4, may_lack=frozenset({"unlucky"}))


def test_results_that_are_too_large_for_their_topic(bench: Bench) -> None:
    """F7: they are dead letters of their subscription; all others get theirs."""
    bench.subscribe_some()
    bench.traffic.subscribe("small/all", "//*")
    bench.scenario.largest_results["small"] = 20_000
    topic = f"{bench.traffic.prefix}.out.small"
    large = [Message(b"<a>%s</a>" % (b"x" * size)) for size in (10_000, 50_000, 1_500_000)]
    with bench.job() as job:
        version = bench.traffic.subscribe("small/b", "//b")
        bench.traffic.wait_for_status("small/b", version)
        bench.traffic.set_config(topic, "max.message.bytes", "20000")
        bench.traffic.publish([*large, *bench.scenario.messages(40), *large])
        bench.scenario.come_to_rest(job)
    report = bench.scenario.verify(repeated_batches=2, attempts=4)
    assert report.dead == 0


def test_a_topic_that_takes_no_record_without_a_key(bench: Bench) -> None:
    """F7: Kafka refuses such records of compacted topics, and would refuse the batch for ever."""
    bench.subscribe_some()
    bench.traffic.subscribe("keyed/all", "//*")
    with bench.job() as job:
        version = bench.traffic.subscribe("keyed/b", "//b")
        bench.traffic.wait_for_status("keyed/b", version)
        bench.traffic.set_config(f"{bench.traffic.prefix}.out.keyed", "cleanup.policy", "compact")
        bench.scenario.keyed.add("keyed")
        # None with keys yet: of a write that fails, Kafka may have later ones and not earlier ones.
        bench.traffic.publish(replace(each, key=None) for each in bench.scenario.messages(50))
        bench.scenario.come_to_rest(job)
        bench.publish(100)
        bench.scenario.come_to_rest(job)
    report = bench.scenario.verify(repeated_batches=2, attempts=4)
    assert report.dead == 0


def test_a_topic_that_takes_less_than_a_batch_of_the_producer(bench: Bench) -> None:
    """F7: Kafka's producer would never get such a batch written, and would not say so."""
    bench.subscribe_some()
    bench.traffic.subscribe("tiny/all", "//*")
    bench.scenario.largest_results["tiny"] = 2_000
    topic = f"{bench.traffic.prefix}.out.tiny"
    with bench.job() as job:
        version = bench.traffic.subscribe("tiny/b", "//b")
        bench.traffic.wait_for_status("tiny/b", version)
        bench.traffic.set_config(topic, "max.message.bytes", "2000")
    with bench.job() as job:
        bench.publish(300)
        bench.scenario.come_to_rest(job)
    bench.scenario.verify()

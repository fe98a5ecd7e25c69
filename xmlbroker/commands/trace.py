"""`xmlbroker trace`: where one message went."""

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.errors import BrokerError
from streaming_jobs.settings import local_if_file
from subscriptions.errors import TopicError
from subscriptions.model import State, moment_of, written
from xmlbroker.commands.dead_letters import parse_source
from xmlbroker.context import Context, print_json
from xmlbroker.kafka_access import BOOTSTRAP_SERVERS, KafkaAccess, print_foreign_table

if TYPE_CHECKING:
    from streaming_jobs.history import Judged
    from streaming_jobs.tracing import Expected, Outcome
    from xmlbroker.topic_reader import Received


SUSPENDED = State.SUSPENDED.value

_CLOCKS_DIFFER_MS = 60 * 60 * 1000
_CLOCKS_OF_CLUSTERS_DIFFER_MS = 60 * 1000
"""Those of the machines of one cluster, which are looked after together."""


class TraceError(BrokerError):
    """A message that can't be followed."""


@dataclass(frozen=True)
class Trace:
    """What is known of a message."""

    source: str
    published: datetime
    state: str
    """waiting, dead-letter, unmatched, delivered; suspended: delivered, but not to those who were;
    or incomplete: something is not found."""
    batch: int | None
    version: int
    is_recorded: bool
    """Whether the version is the one that the batch had; else it is that of now."""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "source": self.source,
            "published": written(self.published),
            "state": self.state,
            "batch": self.batch,
            "version": self.version,
            "version_is_recorded": self.is_recorded,
            "results": self.rows,
        }


@click.command()
@click.argument("source", type=parse_source)
@click.option(
    "--checkpoint",
    help="The job's checkpoint, in place of the setting job.checkpoint: it says which batch had "
    "the message, with which version of the subscriptions.",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON line.")
@BOOTSTRAP_SERVERS
@click.pass_obj
def trace(
    context: Context, *, source: str, checkpoint: str | None, as_json: bool, servers: str | None
) -> None:
    """Tell where the message at SOURCE, topic/partition/offset, went.

    The version of the subscriptions that it was judged by, which of them matched, the ids of the
    deliveries and where they are; or why it is a dead letter. Status 1 if something that had to
    come out is not found.
    """
    kafka = KafkaAccess.of(context, servers)
    with kafka.advised():
        found = follow(context, kafka, source, checkpoint or context.settings.job.checkpoint)
    if as_json:
        print_json(found.as_data())
    else:
        show(found)
    sys.exit(1 if found.state == "incomplete" else 0)


def follow(context: Context, kafka: KafkaAccess, source: str, checkpoint: Path | str) -> Trace:
    """Find out what became of a message."""
    from streaming_jobs.history import BatchHistory  # noqa: PLC0415 - imports Spark
    from streaming_jobs.tracing import outcome_of  # noqa: PLC0415
    from streaming_jobs.worker import EngineLimits  # noqa: PLC0415

    record = read_source(kafka, source)
    published = moment_of(record.timestamp_ms)
    judged: Judged | None = None
    directory = Path(local_if_file(checkpoint))
    if (directory / "offsets").is_dir():
        history = BatchHistory(directory)
        judged = history.find(record.topic, record.partition, record.offset)
        is_behind = record.offset >= history.end(record.topic, record.partition)
        if is_behind and (judged is None or not judged.is_committed):
            batch = None if judged is None else judged.batch
            version = -1 if judged is None else judged.pin.version
            return Trace(source, published, "waiting", batch, version, judged is not None)
    settings = context.settings
    limits = EngineLimits(settings.query, settings.message, settings.result)
    version, subscriptions, suspended = in_force(kafka, judged, limits)
    outcome = outcome_of(source, record.value, subscriptions, limits)
    since = earliest(record.timestamp_ms, judged)
    rows = look_for(kafka, since, source, outcome, suspended)
    return Trace(
        source,
        published,
        state_of(outcome, rows),
        None if judged is None else judged.batch,
        version,
        judged is not None,
        rows,
    )


def earliest(published_ms: int, judged: "Judged | None") -> int:
    """The time before which there is no result of a message. It has the publisher's clock, results
    have the broker's, and so has the batch.
    """
    if judged is None:
        return max(0, published_ms - _CLOCKS_DIFFER_MS)
    begun = int(judged.pin.moment.timestamp() * 1000)
    return max(0, min(published_ms, begun - _CLOCKS_OF_CLUSTERS_DIFFER_MS))


def state_of(outcome: "Outcome", rows: list[dict[str, Any]]) -> str:
    """What became of a message, in a word."""
    kept = [row for row in rows if row.get("error") == SUSPENDED]
    if any(row["found"] is None for row in rows if row not in kept):
        return "incomplete"
    if outcome.refused is not None:
        return "dead-letter"
    if kept:
        return SUSPENDED
    return "delivered" if rows else "unmatched"


def read_source(kafka: KafkaAccess, source: str) -> "Received":
    """The message itself."""
    from xmlbroker.topic_reader import TopicReader  # noqa: PLC0415 - imports Kafka's client

    topic, number, place = source.rsplit("/", 2)
    partition, offset = int(number), int(place)
    with TopicReader(kafka.client_settings, topic) as reader:
        starts, ends = reader.starts(), reader.ends()
        if partition not in ends:
            raise TraceError("no-such-message", f"{topic} has no partition {partition}")
        if not starts[partition] <= offset < ends[partition]:
            known = f"has offsets {starts[partition]} to {ends[partition] - 1} now"
            if starts[partition] == ends[partition]:
                known = f"is empty now; the next message will be at {ends[partition]}"
            raise TraceError("no-such-message", f"partition {partition} of {topic} {known}")
        reader.seek({**ends, partition: offset})
        for record in reader.until({partition: offset + 1}):
            if (record.partition, record.offset) == (partition, offset):
                return record
    raise TraceError("no-such-message", f"there is no record at {source}")


def in_force(
    kafka: KafkaAccess,
    judged: "Judged | None",
    limits: Any,  # noqa: ANN401 - imports Spark
) -> tuple[int, list[Any], set[str]]:
    """The version, the subscriptions that were in force for a message, those of now if that is not
    known, and who was suspended then, or is now: a write may have told it, after the pin.
    """
    from subscriptions.kafka_log import (  # noqa: PLC0415 - imports Kafka's client
        KafkaStatusLog,
        KafkaSubscriptionLog,
    )
    from subscriptions.records import RecordLimits  # noqa: PLC0415
    from subscriptions.subscription_set import registry_at  # noqa: PLC0415

    settings, names = kafka.client_settings, kafka.names
    checked = RecordLimits(query=limits.query)
    with (
        KafkaSubscriptionLog(settings, names.subscriptions) as log,
        KafkaStatusLog(settings, names.status) as status_log,
    ):
        statuses = status_log.read_all()
        suspended = {
            key.decode().partition("/")[0]
            for key, each in statuses.items()
            if each.state is State.SUSPENDED
        }
        if judged is None:
            version, now = log.end() - 1, datetime.now(UTC)
            if version < 0:
                return version, [], suspended
            known = registry_at(log, version, limits=checked, statuses=statuses)
            return version, list(known.active_at(now).values()), suspended
        pin = judged.pin
        known = registry_at(
            log,
            pin.version,
            digest=pin.digest,
            limits=checked,
            statuses={**statuses, **pin.kept},
        )
        in_force = list(known.active_at(pin.moment).values())
        return pin.version, in_force, suspended.union(pin.suspended)


def look_for(
    kafka: KafkaAccess,
    since: int,
    source: str,
    outcome: "Outcome",
    suspended: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Where the results of a message are, each with its topic, partition and offset.

    What subscribers lack who are suspended was not written.
    """
    names = kafka.names
    if outcome.refused is not None:
        letters = scan(kafka, names.dead_letters, since, source)
        code = outcome.refused.code
        found = next((each for each in letters if each.header("xb-error") == code), None)
        return [
            {"error": code, "detail": outcome.refused.detail, "found": found and place_of(found)}
        ]
    by_topic: dict[str, list[Expected]] = {}
    for each in outcome.results:
        topic = names.output(each.subscription.partition("/")[0])
        by_topic.setdefault(names.dead_letters if each.error else topic, []).append(each)
    rows = [
        row
        for topic, wanted in by_topic.items()
        for row in _rows_of(wanted, scan(kafka, topic, since, source))
    ]
    lost = {row["subscription"]: row for row in rows if row["found"] is None}
    if lost:
        # Results that don't fit into their topic are refused only when they are to be written.
        for letter in scan(kafka, names.dead_letters, since, source):
            row = lost.get(letter.header("xb-subscription"))
            if row is not None:
                row["found"] = place_of(letter)
                row["error"] = letter.header("xb-error")
                row["detail"] = letter.header("xb-error-detail")
    for row in rows:
        if row["found"] is None and row["subscription"].partition("/")[0] in suspended:
            row["error"] = SUSPENDED
            row["detail"] = "its topic can't be written to, and what it misses is not made up for"
    return sorted(rows, key=lambda row: str(row["subscription"]))


def _rows_of(wanted: Iterable["Expected"], records: Iterable["Received"]) -> list[dict[str, Any]]:
    """Results with where they are, among the records of their topic that came of the message."""
    places: dict[str | None, Received] = {}
    for record in records:
        places.setdefault(record.header("xb-id") or record.header("xb-subscription"), record)
    rows: list[dict[str, Any]] = []
    for each in wanted:
        there = places.get(each.subscription if each.error else each.id)
        rows.append(
            {
                "subscription": each.subscription,
                "version": each.version,
                "id": each.id,
                "bytes": each.bytes,
                "found": None if there is None else place_of(there),
            }
        )
        if each.error is not None:
            rows[-1] |= {"error": each.error.code, "detail": each.error.detail}
    return rows


def scan(kafka: KafkaAccess, topic: str, since: int, source: str) -> Iterable["Received"]:
    """The records of a topic that came of a message; none is older than so many milliseconds."""
    from xmlbroker.topic_reader import TopicReader  # noqa: PLC0415 - imports Kafka's client

    try:
        with TopicReader(kafka.client_settings, topic) as reader:
            ends = reader.ends()
            reader.seek(reader.at_time(since))
            return [each for each in reader.until(ends) if each.header("xb-source") == source]
    except TopicError as error:
        if error.code == "topic-missing":
            return []
        raise


def place_of(record: "Received") -> str:
    """Where a record is."""
    return f"{record.topic}/{record.partition}/{record.offset}"


def show(trace: Trace) -> None:
    """Print it for people."""
    known = "" if trace.is_recorded else " (that of now: the checkpoint does not say)"
    click.echo(f"{trace.source}, published {written(trace.published)}: {trace.state}")
    if trace.batch is not None:
        click.echo(f"batch {trace.batch}")
    click.echo(f"judged by version {trace.version} of the subscriptions{known}")
    if trace.rows:
        print_foreign_table(
            ("subscription", "version", "id", "bytes", "found at", "error"),
            (
                [
                    row.get("subscription") or "",
                    str(row.get("version", "")),
                    row.get("id") or "",
                    str(row.get("bytes") or ""),
                    row["found"] or "nowhere",
                    f"{row['error']}: {row['detail']}" if "error" in row else "",
                ]
                for row in trace.rows
            ),
        )

"""`xmlbroker run` and `xmlbroker up`: the broker on a Kafka that is there, or on one of its own."""

import logging
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import click
from pydantic import BaseModel, ValidationError
from rich.console import Console

from streaming_jobs.settings import JobSettings
from subscriptions.connection import KafkaSettings
from xmlbroker.context import Context, print_json
from xmlbroker.kafka_access import KafkaAccess
from xmlbroker.settings import Settings

if TYPE_CHECKING:
    from streaming_jobs.local.kafka_broker import EmbeddedKafka

Stop = Callable[[], None]
Say = Callable[[str], None]
Tend = Callable[[], None]
Section = TypeVar("Section", bound=BaseModel)
"""Some of the settings."""

_LOGGER = logging.getLogger(__name__)

BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers", help="host:port of Kafka brokers; the setting kafka.bootstrap_servers."
)
MASTER = click.option("--master", help="The Spark master; the setting job.master.")


@click.command()
@BOOTSTRAP_SERVERS
@MASTER
@click.option("--checkpoint", help="Where the job keeps its progress; the setting job.checkpoint.")
@click.pass_obj
def run(
    context: Context,
    *,
    bootstrap_servers: str | None,
    master: str | None,
    checkpoint: str | None,
) -> None:
    """Run the broker on a Kafka that is there, until Ctrl-C or SIGTERM."""
    kafka = checked(context.settings.kafka, bootstrap_servers=bootstrap_servers)
    job = checked(context.settings.job, master=master, checkpoint=checkpoint)
    with left_by_signals():
        run_job(context.settings.model_copy(update={"kafka": kafka, "job": job}), {})


@click.command()
@click.option("--bootstrap-servers", help="Use this Kafka; without it, one is started here.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="What is kept from one start to the next; without it, all is gone at the end.",
)
@MASTER
@click.pass_obj
def up(
    context: Context,
    *,
    bootstrap_servers: str | None,
    data_dir: Path | None,
    master: str | None,
) -> None:
    """Run everything on this machine: Kafka, topics, the broker. Until Ctrl-C or SIGTERM."""
    with ExitStack() as stack:
        stack.enter_context(left_by_signals())
        if data_dir is None:
            temporary = tempfile.TemporaryDirectory(prefix="xmlbroker-", ignore_cleanup_errors=True)
            data_dir = Path(stack.enter_context(temporary))
        given, tend = context.settings.kafka, _nothing_to_tend
        if bootstrap_servers is None:
            own = start_kafka(stack, data_dir / "kafka")
            tend = own.revive
            # Whatever proves who we are to another Kafka, this one does not ask for it.
            kafka = KafkaSettings(
                bootstrap_servers=own.bootstrap_servers,
                prefix=given.prefix,
                shared_topics=given.shared_topics,
            )
        else:
            kafka = checked(given, bootstrap_servers=bootstrap_servers)
        job = checked(context.settings.job, master=master, checkpoint=data_dir / "checkpoint")
        settings = context.settings.model_copy(update={"kafka": kafka, "job": job})
        run_job(settings, {"data_dir": str(data_dir)}, tend)


def _nothing_to_tend() -> None:
    """A Kafka that is there is looked after by others."""


def start_kafka(stack: ExitStack, directory: Path) -> "EmbeddedKafka":
    """Start a Kafka of our own."""
    from streaming_jobs.local.jars import jars  # noqa: PLC0415 - other commands need no Kafka
    from streaming_jobs.local.kafka_broker import EmbeddedKafka  # noqa: PLC0415

    with said("making sure of Kafka's jars") as say:
        jars("kafka", fetching("Kafka", say))
    with said("starting Kafka"):
        return stack.enter_context(EmbeddedKafka(directory))


def fetching(what: str, say: Say) -> Callable[[str, int, int], None]:
    """Says how far a download is."""
    return lambda text, done, total: say(f"fetching {what}: {done}/{total} {text}")


def run_job(settings: Settings, announced: dict[str, str], tend: Tend = _nothing_to_tend) -> None:
    """Run the job until it is stopped; says on standard output when it is ready. `tend` is called
    now and then.
    """
    from streaming_jobs.broker_job import BrokerJob  # noqa: PLC0415 - Spark takes a second to import
    from streaming_jobs.health import HealthServer  # noqa: PLC0415
    from streaming_jobs.local.jars import jars  # noqa: PLC0415
    from streaming_jobs.session import spark_session, stop_spark  # noqa: PLC0415
    from streaming_jobs.shipping import is_local, ship_packages  # noqa: PLC0415
    from streaming_jobs.worker import EngineLimits  # noqa: PLC0415
    from subscriptions.topics import TopicAdmin  # noqa: PLC0415

    limits = EngineLimits(settings.query, settings.message, settings.result)
    with ExitStack() as stack:
        with said("asking Kafka"), KafkaAccess(settings.kafka).advised():
            # A wrong address or password is known before Spark has taken its seconds to start.
            TopicAdmin(settings.kafka.client_settings()).close()
        with said("making sure of what Spark needs for Kafka") as say:
            connector = jars("spark", fetching("what Spark needs for Kafka", say))
        with said("starting Spark"):
            spark = spark_session(
                "xmlbroker",
                settings.job.master,
                jars=connector,
                settings=spark_settings(settings.job),
            )
            stack.callback(stop_spark, spark)
            if not is_local(settings.job.master):
                shipped = tempfile.TemporaryDirectory(prefix="xmlbroker-")
                ship_packages(spark, Path(stack.enter_context(shipped)))
        job = stack.enter_context(BrokerJob(spark, settings.kafka, settings.job, limits))
        health = HealthServer(
            job.metrics.registry,
            job.why_not_live,
            job.why_not_ready,
            job.overview.to_data,
            host=settings.job.metrics_host,
            port=settings.job.metrics_port,
        )
        stack.enter_context(health)
        with said("starting the broker") as say:
            job.start(say)
        ready = {
            "bootstrap_servers": settings.kafka.bootstrap_servers,
            "metrics_url": f"{health.address}/metrics",
        }
        print_json({**ready, **announced})
        sys.stdout.flush()
        with stopped_by_signals(job.stop):
            job.run(tend)


def spark_settings(job: JobSettings) -> dict[str, str]:
    """What Spark is told beside the broker's own settings; `job.spark` has the last word."""
    return {"spark.executor.memory": job.executor_memory, **job.spark}


def checked(settings: Section, **given: object) -> Section:
    """Settings with what the command line says of them, which is checked as a file's would be."""
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return type(settings).model_validate({**settings.model_dump(), **said})
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults]
        raise click.UsageError("; ".join(lines)) from None


@contextmanager
def left_by_signals() -> Iterator[None]:
    """Have SIGTERM and Ctrl-C end what runs here, with status 0, whatever they interrupt.

    That may be anybody's code, of which some makes an error of its own of all that comes up.
    """
    is_asked = False

    def leave() -> None:
        nonlocal is_asked
        is_asked = True
        raise SystemExit(0)

    with stopped_by_signals(leave):
        try:
            yield
        except Exception:
            if is_asked:
                _LOGGER.debug("stopped while it started", exc_info=True)
                raise SystemExit(0) from None
            raise


@contextmanager
def stopped_by_signals(stop: Stop) -> Iterator[None]:
    """Have SIGTERM and Ctrl-C call a function instead of ending the process at once."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def said(text: str) -> Iterator[Say]:
    """Show what is going on: a line that changes on a terminal, else one in the log."""
    console = Console(stderr=True)
    if not console.is_terminal:
        _LOGGER.info(text)
        yield _LOGGER.info
        return
    with console.status(f"{text} …") as status:
        yield lambda more: status.update(f"{more} …")

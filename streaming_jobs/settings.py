"""The settings of the Spark job."""

from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

SparkName = Annotated[str, StringConstraints(pattern=r"^spark\.[A-Za-z0-9]")]
"""The name of a setting of Spark's: it passes over others in silence."""


def local_if_file(checkpoint: Path | str) -> Path | str:
    """A `file:` address as the directory that it is: there, two jobs can be kept apart."""
    parts = urlsplit(str(checkpoint))
    return Path(unquote(parts.path)) if parts.scheme == "file" else checkpoint


Checkpoint = Annotated[Path | str, AfterValidator(local_if_file)]


class JobSettings(BaseModel):
    """Where the job runs, what it reads, and how much at once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field(
        default="local[2,4]", description="the Spark master; local[N,4] is N cores of this machine"
    )
    checkpoint: Checkpoint = Field(
        default=Path("xmlbroker-data/checkpoint"),
        description="a directory, or an address of the cluster's storage, for the job's progress",
    )
    input_topics: tuple[str, ...] = Field(
        default=(), description="topics to read; without any, <prefix>.messages"
    )
    max_messages_per_batch: int = Field(
        default=4_000, ge=1, description="messages that a batch takes at most"
    )
    executor_memory: str = Field(
        default="1g", description="memory of each executor, on a cluster: spark.executor.memory"
    )
    spark: dict[SparkName, str] = Field(
        default={},
        description="more settings of Spark, by their names; they go before the broker's own",
    )
    max_record_bytes: int = Field(
        default=1_000_000,
        ge=1_000,
        description="a record of an output topic, with key and headers (too-large-for-topic)",
    )
    metrics_host: str = Field(
        default="127.0.0.1", description="the address that /metrics, /live and /ready listen on"
    )
    metrics_port: int = Field(
        default=0, ge=0, le=65_535, description="their port; 0: one that is free"
    )

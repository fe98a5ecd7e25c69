"""What a subscription is: its key, its record, and what the broker says about it.

Nothing here knows how bytes come and go; `records.py` does.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from broker.errors import printable
from broker.message_factory import OutputFormat
from subscriptions.errors import RecordError

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_LONGEST_SHOWN = 80


def is_id(text: str) -> bool:
    """Whether a subscriber or a subscription may be called so."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class SubscriptionKey:
    """Who subscribes, and under which name.

    Topics are named after subscribers, so an id is refused and never rewritten: two different
    ids must not lead to one topic.

    >>> str(SubscriptionKey.parse(b"acme/cheap-books"))
    'acme/cheap-books'
    """

    subscriber: str
    name: str

    def __post_init__(self) -> None:
        for id in (self.subscriber, self.name):
            if not is_id(id):
                raise RecordError(
                    "bad-key",
                    f"`{shown(id)}` is no id: 1 to 63 of a-z, 0-9 and -, not a - first",
                )

    @classmethod
    def parse(cls, text: str | bytes) -> "SubscriptionKey":
        """The key that is written `subscriber/name`."""
        if isinstance(text, bytes):
            try:
                text = text.decode("utf-8")
            except UnicodeDecodeError:
                raise RecordError("bad-key", "the key is not UTF-8") from None
        subscriber, slash, name = text.partition("/")
        if not slash:
            raise RecordError("bad-key", f"`{shown(text)}` is no subscriber/subscription")
        return cls(subscriber, name)

    def __str__(self) -> str:
        return f"{self.subscriber}/{self.name}"

    def to_bytes(self) -> bytes:
        """The key of its records: one spelling for one key, so that compaction finds them."""
        return str(self).encode("ascii")


def shown(text: str) -> str:
    """Text of a stranger as an error shows it: on one line, not at any length."""
    return printable(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can spell it: JSON and command lines may have half a surrogate pair."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _encodable(text: str) -> str:
    if not is_encodable(text):
        raise ValueError("the text has half of a surrogate pair")
    return text


def _moment(value: object) -> object:
    """A time with its zone, in UTC; other spellings than ISO 8601's usual one are refused."""
    if isinstance(value, str):
        written = _TIME.fullmatch(value)
        if written is None:
            raise ValueError("a time is written 2027-01-01T00:00:00Z")
        if written[1] is None:
            raise ValueError("a time needs its zone: Z or +01:00 at its end")
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError("a time needs its zone")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise ValueError("the time is out of range") from None
    return value


Text = Annotated[str, AfterValidator(_encodable)]
Moment = Annotated[datetime, BeforeValidator(_moment)]


class SubscriptionRecord(BaseModel):
    """What a subscriber writes: the value of a record of the subscription topic."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    query: Text
    format: Annotated[OutputFormat, Field(strict=False)] = OutputFormat.XML
    paused: bool = False
    expires: Moment | None = None
    note: Text | None = None

    def to_data(self) -> dict[str, object]:
        """The record as JSON has it; what is as by default is left out."""
        data: dict[str, object] = {"query": self.query}
        if self.format is not OutputFormat.XML:
            data["format"] = self.format.value
        if self.paused:
            data["paused"] = True
        if self.expires is not None:
            data["expires"] = written(self.expires)
        if self.note is not None:
            data["note"] = self.note
        return data


def written(moment: datetime) -> str:
    """A time in UTC as records have it.

    >>> written(datetime(2027, 1, 1, tzinfo=UTC))
    '2027-01-01T00:00:00Z'
    """
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def moment_of(timestamp_ms: int) -> datetime:
    """The time of a Kafka timestamp. A producer can write any number there: the epoch for most."""
    try:
        return datetime.fromtimestamp(max(0, timestamp_ms) / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Subscription:
    """An accepted record under its key. Its version is the offset of the record."""

    key: SubscriptionKey
    version: int
    record: SubscriptionRecord

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.record.expires is not None and self.record.expires <= now

    def is_active(self, now: datetime) -> bool:
        """Whether its subscriber wants results at this time."""
        return not self.record.paused and not self.is_expired(now)


class State(StrEnum):
    """What became of the last record of a key."""

    ACTIVE = "active"
    REJECTED = "rejected"
    PAUSED = "paused"
    EXPIRED = "expired"
    REMOVED = "removed"
    SUSPENDED = "suspended"
    """Accepted, but there is no topic to deliver to."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the broker says about a key on the status topic."""

    state: State
    version: int
    """The offset of the record that this is about."""
    since: datetime
    error: dict[str, Any] | None = None
    active_version: int | None = None
    """The earlier version that stays in force when an update was refused."""
    active_record: SubscriptionRecord | None = None
    """What stays in force. Compaction keeps the refused record and drops the one before it, so
    this is where it is found after a restart."""

    def says_same_as(self, other: "Status | None") -> bool:
        """Whether a reader learns nothing from the one that the other did not say."""
        return other is not None and replace(self, since=other.since) == other

    def kept(self, key: SubscriptionKey) -> Subscription | None:
        """The subscription that stays in force in spite of a refused update."""
        if self.active_version is None or self.active_record is None:
            return None
        return Subscription(key, self.active_version, self.active_record)

    def to_bytes(self) -> bytes:
        """The value of its record on the status topic."""
        data: dict[str, object] = {
            "state": self.state.value,
            "version": self.version,
            "since": written(self.since),
        }
        if self.error is not None:
            data["error"] = self.error
        if self.active_version is not None:
            data["active_version"] = self.active_version
        if self.active_record is not None:
            data["active_record"] = self.active_record.to_data()
        try:
            return json_text(data).encode("utf-8")
        except UnicodeEncodeError:  # an error may show half a surrogate pair
            return json.dumps(data, separators=(",", ":")).encode("ascii")

    @classmethod
    def parse(cls, value: bytes) -> "Status":
        """The status that a record of the status topic has."""
        try:
            read = _WrittenStatus.model_validate(json.loads(value))
        except (ValueError, ValidationError, RecursionError):
            raise RecordError("bad-status", "the record is no status of a subscription") from None
        return cls(
            state=read.state,
            version=read.version,
            since=read.since,
            error=None if read.error is None else dict(read.error),
            active_version=read.active_version,
            active_record=read.active_record,
        )


class _WrittenStatus(BaseModel):
    """A status as it is on its topic. A later release may have written more than is known here."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    state: Annotated[State, Field(strict=False)]
    version: int
    since: Moment
    error: Mapping[str, Any] | None = None
    active_version: int | None = None
    active_record: SubscriptionRecord | None = None


def json_text(data: object) -> str:
    """JSON without spaces, characters as they are: what we write has one spelling."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

"""Records of the subscription topic: bytes in, keys and records out, and back.

What comes in was written by anyone who may write to the topic, so nothing is believed: not that it
is UTF-8, JSON or small. Whatever is wrong becomes a `RecordError`. A record that is accepted here
can be added to a `broker.engine.Engine`.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.errors import QueryError
from broker.limits import QueryLimits
from broker.message_factory import OutputFormat, check_template
from broker.query import Flwr, check
from subscriptions.errors import RecordError
from subscriptions.model import SubscriptionKey, SubscriptionRecord, json_text, shown

_MOST_FAULTS_SHOWN = 3


class RecordLimits(BaseModel):
    """What a subscription record may cost before it is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(
        default=65_536, ge=1, description="size of a subscription record (record-too-large)"
    )
    query: QueryLimits = QueryLimits()


DEFAULT_LIMITS = RecordLimits()


class Decoded(NamedTuple):
    """A record that was accepted."""

    key: SubscriptionKey
    record: SubscriptionRecord | None
    """None deletes the subscription."""


def decode(
    key: bytes | None, value: bytes | None, limits: RecordLimits = DEFAULT_LIMITS
) -> Decoded:
    """The key and the record, or a `RecordError`.

    >>> decode(b"acme/books", b'{"query": "//book"}').record.query
    '//book'
    >>> decode(b"acme/books", None).record is None
    True
    """
    decoded_key = decode_key(key)
    return Decoded(decoded_key, None if value is None else decode_value(value, limits))


def decode_key(key: bytes | None) -> SubscriptionKey:
    """The key of a record."""
    if key is None:
        raise RecordError("bad-key", "the record has no key")
    return SubscriptionKey.parse(key)


def decode_value(value: bytes, limits: RecordLimits = DEFAULT_LIMITS) -> SubscriptionRecord:
    """The value of a record that is no deletion. An empty one is no deletion either."""
    if len(value) > limits.max_bytes:
        raise RecordError(
            "record-too-large",
            f"the record has {len(value)} bytes, {limits.max_bytes} are allowed",
        )
    data = _parse_json(value)
    if not isinstance(data, dict):
        raise RecordError("bad-record", "a record is a JSON object")
    try:
        record = SubscriptionRecord.model_validate(data)
    except ValidationError as error:
        raise RecordError("bad-record", _faults(error)) from None
    check_record(record, limits)
    return record


def check_record(record: SubscriptionRecord, limits: RecordLimits = DEFAULT_LIMITS) -> None:
    """Refuse a record whose query the engine would refuse."""
    try:
        query = check(record.query, limits.query)
        if isinstance(query, Flwr) and record.format is OutputFormat.XML:
            check_template(query)
    except QueryError as error:
        raise RecordError.of_query(error) from None


def encode(record: SubscriptionRecord) -> bytes:
    """The canonical bytes of a record: equal records have equal bytes.

    >>> encode(SubscriptionRecord(query="//book", paused=False))
    b'{"query":"//book"}'
    """
    return json_text(record.to_data()).encode("utf-8")


def _parse_json(value: bytes) -> object:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            "bad-json", f"the record is not UTF-8: byte 0x{value[error.start]:02X} at {error.start}"
        ) from None
    try:
        parsed: object = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise RecordError(
            "bad-json",
            f"the record is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
        ) from None
    except RecursionError:
        raise RecordError("bad-json", "the record is nested too deeply") from None
    except ValueError:  # Python's own limit on digits
        raise RecordError("bad-json", "the record has a number of too many digits") from None
    return parsed


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """JSON leaves open which of two equal names holds; readers differ, so neither does."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise RecordError("bad-json", f"the record has `{shown(name)}` twice")
        made[name] = value
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise RecordError("bad-json", f"{name} is no JSON")


def _faults(error: ValidationError) -> str:
    """What is wrong with the fields: in words, without what was sent."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    lines = []
    for fault in faults[:_MOST_FAULTS_SHOWN]:
        name = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        lines.append(f"`{shown(name)}`: {message}" if name else message)
    if len(faults) > _MOST_FAULTS_SHOWN:
        lines.append(f"and {len(faults) - _MOST_FAULTS_SHOWN} more")
    return "; ".join(lines)

"""The file that says who may do what on the broker's topics: its form, and its refusals.

It names users and never passwords, so it can be kept with the code and reviewed. What it means is
in `subscriptions.access`.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from subscriptions.errors import AccessFileError
from subscriptions.model import is_id, shown

_CONFIG_NAME = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)*")
_LONGEST_USER = 200
_MOST_REASONS = 20


def _user(name: str) -> str:
    """A user's name, which must not be one that Kafka takes for more than one user."""
    if name == "*":
        raise ValueError("`*` would be every user")
    if name.upper() == "ANONYMOUS":
        raise ValueError("this is who Kafka does not know")
    if name.lower().startswith("user:"):
        raise ValueError("a name without `User:` is wanted")
    if not name or name != name.strip() or not name.isprintable() or len(name) > _LONGEST_USER:
        raise ValueError(f"a name has 1 to {_LONGEST_USER} printable characters, no space around")
    return name


def _subscriber(id: str) -> str:
    if not is_id(id):
        raise ValueError("an id is 1 to 63 of a-z, 0-9 and -, not a - first")
    return id


def _configs(value: object) -> object:
    """Settings of a topic by Kafka's names, as Kafka's text."""
    if not isinstance(value, dict):
        return value
    texts: dict[str, str] = {}
    for name, given in value.items():
        if isinstance(given, dict):
            inner = next(iter(given), "…")
            raise ValueError(f'a name with dots has to be quoted: "{shown(f"{name}.{inner}")}"')
        if not _CONFIG_NAME.fullmatch(name):
            raise ValueError(f"`{shown(name)}` is no setting of a topic")
        if not isinstance(given, str | int):
            raise ValueError(f"the value of `{name}` is neither text nor number nor true or false")
        texts[name] = str(given).lower() if isinstance(given, bool) else str(given)
    return texts


def _some(users: tuple[str, ...]) -> tuple[str, ...]:
    if not users:
        raise ValueError("it has to have a user")
    return users


User = Annotated[str, AfterValidator(_user)]
Users = tuple[User, ...]
Subscriber = Annotated[str, AfterValidator(_subscriber)]
Configs = Annotated[dict[str, str], BeforeValidator(_configs)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Quota(_Section):
    """What a user may take of each Kafka broker; what is left out has no limit."""

    producer_byte_rate: int | None = Field(default=None, ge=1, description="bytes a second, sent")
    consumer_byte_rate: int | None = Field(default=None, ge=1, description="bytes a second, read")
    request_percentage: float | None = Field(
        default=None, gt=0, description="time of a broker's threads, 100 is one thread"
    )

    def limits(self) -> dict[str, float]:
        """The limits that there are, by Kafka's names."""
        return {name: float(value) for name, value in self if value is not None}


class Quotas(_Section):
    """Limits for each user of a role, and for users who need others."""

    publishers: Quota = Quota()
    subscribers: Quota = Quota()
    users: dict[User, Quota] = {}


class ControlTopic(_Section):
    """A topic whose number of partitions is not a matter of choice."""

    replication: int | None = Field(default=None, ge=1, le=32_767)
    configs: Configs = {}


class Topic(ControlTopic):
    """A topic that can be made larger."""

    partitions: int | None = Field(default=None, ge=1, le=100_000)


class Topics(_Section):
    """How topics are made, where that is not as Kafka's defaults have it."""

    replication: int | None = Field(default=None, ge=1, le=32_767)
    messages: Topic = Topic()
    dead_letters: Topic = Topic()
    outputs: Topic = Topic()
    subscriptions: ControlTopic = ControlTopic()
    status: ControlTopic = ControlTopic()

    @model_validator(mode="after")
    def _keep_what_the_broker_needs(self) -> "Topics":
        for name in ("subscriptions", "status"):
            topic: ControlTopic = getattr(self, name)
            for fixed in ("cleanup.policy", "message.timestamp.type"):
                if fixed in topic.configs:
                    raise ValueError(f"{name}: the broker needs {fixed} as it makes it")
        return self


class AccessFile(_Section):
    """Users by what they may do. A user can have several roles, except the broker's."""

    broker: Annotated[Users, AfterValidator(_some)]
    admins: Users = ()
    registrars: Users = ()
    publishers: Users = ()
    subscribers: dict[Subscriber, Users] = {}
    share_outputs: bool = False
    quotas: Quotas = Quotas()
    topics: Topics = Topics()

    @model_validator(mode="after")
    def _check_users(self) -> "AccessFile":
        others = {
            *(*self.admins, *self.registrars, *self.publishers),
            *(user for users in self.subscribers.values() for user in users),
        }
        for user in self.broker:
            if user in others:
                raise ValueError(f"broker: `{shown(user)}` has another role too; it needs its own")
        for user in self.quotas.users:
            if user not in others and user not in self.broker:
                raise ValueError(f"quotas.users: `{shown(user)}` has no role")
        return self


def read_access_file(file: Path) -> AccessFile:
    """Read a file; raises `AccessFileError` with all that is wrong with it, or `OSError`."""
    return parse_access(file.read_bytes(), file.name)


def parse_access(text: bytes, name: str = "access.toml") -> AccessFile:
    """The access that a text in TOML declares; `name` is for errors."""
    try:
        data: dict[str, Any] = tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise AccessFileError("bad-access-file", f"{name} is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise AccessFileError("bad-access-file", f"{name} is no TOML: {error}") from None
    try:
        return AccessFile.model_validate(_with_tuples(data))
    except ValidationError as error:
        reasons = [
            _place(each["loc"]) + each["msg"].removeprefix("Value error, ").replace("tuple", "list")
            for each in error.errors(include_url=False, include_input=False)
        ]
        listed = "\n  ".join(map(_short, reasons[:_MOST_REASONS]))
        raise AccessFileError("bad-access-file", f"{name} is refused:\n  {listed}") from None


def _with_tuples(value: Any) -> Any:  # noqa: ANN401 - what TOML can hold
    """Lists as tuples: that is what a frozen model has, and strict pydantic takes no other."""
    if isinstance(value, dict):
        return {key: _with_tuples(each) for key, each in value.items()}
    return tuple(_with_tuples(each) for each in value) if isinstance(value, list) else value


def _place(location: tuple[int | str, ...]) -> str:
    parts = [f"[{each + 1}]" if isinstance(each, int) else f".{each}" for each in location]
    place = "".join(part for part in parts if part != ".[key]").removeprefix(".")
    return f"{place}: " if place else ""


def _short(line: str) -> str:
    return line if len(line) <= 300 and line.isprintable() else shown(line)

"""All settings: defaults, a TOML file, the environment, the command line, in rising order."""

import os
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from broker.limits import MessageLimits, QueryLimits, ResultLimits
from streaming_jobs.settings import JobSettings
from subscriptions.connection import KafkaSettings

ENVIRONMENT_PREFIX = "XMLBROKER_"
DEFAULT_FILE = Path("xmlbroker.toml")

_MASK = "********"
_SECRET = re.compile(r"secret|password|token|credential|access\.?key|private\.?key", re.IGNORECASE)
_SEE_ALL = "`xmlbroker settings` lists all"

_file: ContextVar[Path | None] = ContextVar("settings_file", default=None)


class LogSettings(BaseModel, extra="forbid"):
    """What is logged, and for whom."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the least important level that is shown"
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto", description="text for people, json for machines; auto: text on a terminal"
    )


class Settings(BaseSettings):
    """The settings of every command. In the environment, `query.max_steps` is
    `XMLBROKER_QUERY__MAX_STEPS`; in the file it is `max_steps` in the table `[query]`.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    query: QueryLimits = QueryLimits()
    message: MessageLimits = MessageLimits()
    result: ResultLimits = ResultLimits()
    log: LogSettings = LogSettings()
    kafka: KafkaSettings = KafkaSettings()
    job: JobSettings = JobSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The command line, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, _file.get())


def load_settings(file: Path | None, command_line: Mapping[str, Any]) -> Settings:
    """The settings that hold: `file`, or `xmlbroker.toml` here if there is one."""
    if file is None and DEFAULT_FILE.is_file():
        file = DEFAULT_FILE
    _refuse_unknown_variables()
    token = _file.set(file)
    try:
        return Settings(**command_line)
    finally:
        _file.reset(token)


def _refuse_unknown_variables() -> None:
    """A misspelt variable would be passed over in silence."""
    known = {"CONFIG", *(name.upper() for name in Settings.model_fields)}
    for variable in os.environ:
        if variable.startswith(ENVIRONMENT_PREFIX):
            section = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")[0].upper()
            if section not in known:
                raise ValueError(f"the environment variable {variable} is no setting")


def describe_error(error: ValidationError) -> str:
    """What is wrong with settings, a line each; without the values of secrets."""
    names = {
        section: field.annotation.model_fields
        for section, field in Settings.model_fields.items()
        if field.annotation is not None
    }
    lines = []
    for each in error.errors(include_url=False):
        place = [str(part) for part in each["loc"]]
        if each["type"] == "extra_forbidden":
            known = names if len(place) == 1 else names[place[0]]
            alike = get_close_matches(place[-1], known, n=1)
            text = f"did you mean `{'.'.join([*place[:-1], *alike])}`?" if alike else _SEE_ALL
            lines.append(f"{'.'.join(place)}: there is no such setting; {text}")
            continue
        is_secret = _SECRET.search(place[-1]) is not None
        found = "" if is_secret else f" (found {each['input']!r})"
        lines.append(f"{'.'.join(place)}: {each['msg']}{found}")
    return "these settings are wrong:\n  " + "\n  ".join(lines)


def _masked(value: object) -> object:
    """A setting without what is secret; among those of Spark's, that is told by their names."""
    if isinstance(value, SecretStr):
        return _MASK
    if isinstance(value, dict):
        return {name: _MASK if _SECRET.search(name) else each for name, each in value.items()}
    return value


class ShownSetting(NamedTuple):
    """A setting as `xmlbroker settings` shows it."""

    name: str
    value: str
    source: str
    description: str


def describe_settings(
    settings: Settings, file: Path | None, command_line: Mapping[str, Any]
) -> Iterator[ShownSetting]:
    """Each setting with its value and where that came from; secrets are masked."""
    if file is None and DEFAULT_FILE.is_file():
        file = DEFAULT_FILE
    sources: list[tuple[str, Mapping[str, Any]]] = [
        ("command line", command_line),
        ("environment", EnvSettingsSource(Settings)()),
        (str(file), TomlConfigSettingsSource(Settings, file)()),
    ]
    for section_name in Settings.model_fields:
        section = getattr(settings, section_name)
        for name, field in type(section).model_fields.items():
            source = next(
                (label for label, values in sources if name in values.get(section_name, {})),
                "default",
            )
            value = getattr(section, name)
            shown = str(_masked(value))
            yield ShownSetting(f"{section_name}.{name}", shown, source, field.description or "")

"""What every command gets: the settings, and the readers and writers that commands share."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import track

from broker.errors import BrokerError, MessageError
from xmlbroker.settings import Settings

_T = TypeVar("_T")


@dataclass(frozen=True)
class Context:
    """The settings that hold, and what they were made from."""

    settings: Settings
    config: Path | None
    command_line: Mapping[str, Any]


def read_query(file: Path) -> bytes:
    """The text of a query file; `-` is standard input."""
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


def read_query_lines(file: Path) -> list[bytes]:
    """The queries of a file with one a line; empty lines and lines with `#` first don't count."""
    lines = (line.strip() for line in read_query(file).splitlines())
    return [line for line in lines if line and not line.startswith(b"#")]


def find_documents(paths: Iterable[Path]) -> list[Path]:
    """The documents that were named; a directory stands for its `.xml` files."""
    documents: list[Path] = []
    for path in paths:
        documents += sorted(path.glob("*.xml")) if path.is_dir() else [path]
    return documents


def read_document(file: Path) -> bytes:
    """The bytes of a document, or a `MessageError` that says why there are none."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise MessageError("not-readable", error.strerror or str(error)) from None


def print_json(record: Mapping[str, object]) -> None:
    """Print a record as one line of JSON on standard output."""
    click.echo(json.dumps(record, ensure_ascii=False))


def error_record(document: Path, error: BrokerError) -> dict[str, object]:
    """The line for a document that was refused."""
    return {"document": document.name, "error": error.as_record()}


def with_progress(items: list[_T], description: str) -> Iterator[_T]:
    """The items, with a progress bar on standard error if that is a terminal."""
    console = Console(stderr=True)
    yield from track(
        items, description, console=console, transient=True, disable=not console.is_terminal
    )


QUERY_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
DOCUMENT = click.Path(allow_dash=True, path_type=Path)

"""What every command gets: the settings, and the readers and writers that commands share."""

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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


class QueryLine(NamedTuple):
    """A query of a file with one a line: its number among the queries, its line, its text."""

    number: int
    line: int
    text: bytes


def read_query_lines(file: Path) -> list[QueryLine]:
    """The queries of a file with one a line; empty lines and lines with `#` first don't count."""
    found: list[QueryLine] = []
    lines = read_query(file).removeprefix(BOM_UTF8).splitlines()
    for line, text in enumerate(lines, start=1):
        if text.strip() and not text.lstrip().startswith(b"#"):
            found.append(QueryLine(len(found) + 1, line, text.rstrip()))
    return found


def find_documents(paths: Iterable[Path]) -> list[Path]:
    """The documents that were named; a directory stands for its `.xml` files."""
    documents: list[Path] = []
    for path in paths:
        documents += sorted(path.glob("*.xml")) if path.is_dir() else [path]
    if not documents:
        raise click.UsageError("there is no .xml file in what was named")
    return documents


def refuse_two_inputs(query: Path, documents: Iterable[Path]) -> None:
    """Refuse standard input for the query and a document, or for two documents."""
    if [str(path) for path in (query, *documents)].count("-") > 1:
        raise click.UsageError("standard input can be only one of the files")


def read_document(file: Path) -> bytes:
    """The bytes of a document, or a `MessageError` that says why there are none."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise MessageError("not-readable", error.strerror or str(error)) from None


def print_json(record: Mapping[str, object]) -> None:
    """Print a record as one line of JSON on standard output."""
    try:
        # Names of files need not be UTF-8; such bytes are printed as they are.
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a surrogate pair, which JSON can spell and UTF-8 can't.
        line = json.dumps(record).encode()
    click.echo(line)


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
DTD_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

"""The result of a transformation: groups of lists of nodes (BROKER 2.2).

*groupSequence-listSequence*: a group for each binding that passed `where`, in it a list for each
embedded expression of the return clause. The message factory turns it into XML or JSON.
"""

from enum import Enum
from typing import NamedTuple

from broker.documents.message import TextNode
from broker.errors import ResultError
from broker.limits import ResultLimits
from broker.names import ExpandedName
from broker.query.syntax import Count, EndKind, Flwr, Path, StringOf, Variable


class AttributeNode(NamedTuple):
    """An attribute: the element it belongs to, its name and its value."""

    owner: int
    name: ExpandedName
    value: str


Node = int | AttributeNode | TextNode
"""A node of a message; elements and the document are their ids."""


class ListKind(Enum):
    """What the items of a list are; the query alone decides it."""

    NODES = "nodes"
    NUMBERS = "numbers"
    STRINGS = "strings"


GroupList = list[Node] | list[int] | list[str]
Group = tuple[GroupList, ...]


class Result(NamedTuple):
    """All groups that one query makes of one message."""

    query: Flwr
    groups: list[Group]


def list_kinds(query: Flwr) -> tuple[ListKind, ...]:
    """The kind of each list of the query's groups."""
    return tuple(_list_kind(embedded.value) for embedded in query.embedded())


def _list_kind(value: Path | Count | StringOf) -> ListKind:
    if isinstance(value, Count):
        return ListKind.NUMBERS
    if isinstance(value, StringOf):
        return ListKind.STRINGS
    is_position = value.end is not None and value.end.kind is EndKind.POSITION
    return ListKind.NUMBERS if is_position else ListKind.NODES


def end_of(query: Flwr, path: Path) -> EndKind | None:
    """What the nodes of a path are, through the variable that it may consist of."""
    while path.end is None and not path.steps and isinstance(path.start, Variable):
        index = path.start.index
        path = query.binding if index == 0 else query.lets[index - 1].path
    return path.end.kind if path.end is not None else None


def refuse_bindings(count: int, limits: ResultLimits) -> None:
    """Raise the error of a result that is over its budget of bindings."""
    if count > limits.max_bindings:
        raise ResultError(
            "budget-exceeded",
            f"{count} bindings of the for variable, more than {limits.max_bindings}",
        )


def too_many_items(most: int) -> ResultError:
    """The error of a result that is over its budget of lists and nodes."""
    return ResultError("budget-exceeded", f"more than {most} lists and nodes in the result")


def too_much_to_look_at() -> ResultError:
    """The error of a query that would go from node to node for too long."""
    detail = "to answer it, too many nodes of the message would have to be looked at"
    return ResultError("budget-exceeded", detail)


def keys_too_long(most: int) -> ResultError:
    """The error of a result whose keys to order by are over their budget."""
    detail = f"the keys to order by have more than {most} characters together"
    return ResultError("budget-exceeded", detail)


def too_large(most: int) -> ResultError:
    """The error of a result that is over its budget of bytes."""
    return ResultError("budget-exceeded", f"the result has more than {most} bytes")

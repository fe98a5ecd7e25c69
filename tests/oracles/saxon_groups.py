"""The groups that Saxon makes of a query, node by node, to compare any engine's with."""

from lxml import etree

from broker.documents import Message
from broker.query import Flwr
from broker.results import Group, GroupList, ListKind, list_kinds
from tests.oracles.engines import SaxonDocument, saxon_path
from tests.oracles.translate import XQuery

Shown = list[list[list[str]]]
"""Groups, their lists, and the items of those: nodes by their places, others by their texts."""


def saxon_groups(document: SaxonDocument, query: Flwr) -> Shown:
    """What Saxon makes of a document."""
    answer = document.run(XQuery().flwr(query, as_paths=True))
    return [
        [[item.text or "" for item in items] for items in group]
        for group in etree.fromstring(answer)
    ]


def shown(groups: list[Group], query: Flwr, message: Message) -> Shown:
    """Ours in the same form."""
    kinds = list_kinds(query)
    return [
        [_shown_list(items, kind, message) for items, kind in zip(group, kinds, strict=True)]
        for group in groups
    ]


def _shown_list(items: GroupList, kind: ListKind, message: Message) -> list[str]:
    if kind is ListKind.NODES:
        return [saxon_path(message, item) for item in items]  # type: ignore[arg-type]
    return [str(item) for item in items]

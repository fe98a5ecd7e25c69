"""Changes of the input that must not change the answer, or change it in a known way."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from hypothesis import assume, given
from lxml import etree

from broker import reference
from broker.documents import Message, parse_message
from broker.query import Filter, Flwr, parse
from broker.query.syntax import PARENT, ROOT, Axis, NameTest, Path, Step
from broker.results import ListKind, Node, list_kinds
from tests.oracles.strategies import Case, filters, transformations

_T = TypeVar("_T")


def answer(case: Case, query: Filter | Flwr | None = None) -> object:
    """What the reference engine says: a truth value, or groups without node ids."""
    query = query or parse(case.query)
    message = parse_message(case.data)
    if isinstance(query, Filter):
        return reference.matches(query, message)
    kinds = list_kinds(query)
    return [
        [
            [described(message, item) if kind is ListKind.NODES else item for item in items]
            for items, kind in zip(group, kinds, strict=True)
        ]
        for group in reference.transform(query, message).groups
    ]


def described(message: Message, item: Node | str) -> object:
    if isinstance(item, int):
        return message.string_value(item)
    return item.value if not isinstance(item, str) else item


def rewrite(node: _T, change: Callable[[Any], Any]) -> _T:
    """The syntax tree with `change` applied to every node, from the leaves up."""
    if is_dataclass(node) and not isinstance(node, type):
        values = {each.name: rewrite(getattr(node, each.name), change) for each in fields(node)}
        return change(replace(node, **values))  # type: ignore[no-any-return]
    if isinstance(node, tuple) and not hasattr(node, "_fields"):
        return tuple(rewrite(each, change) for each in node)  # type: ignore[return-value]
    return change(node)  # type: ignore[no-any-return]


@given(filters() | transformations())
def test_a_message_written_again_gives_the_same(case: Case) -> None:
    canonical = etree.tostring(etree.fromstring(case.data), method="c14n")
    assert answer(Case(canonical, case.query)) == answer(case)
    spaced = case.data.replace(b"></", b" ></").replace(b"/>", b" />")
    if b"CDATA" not in case.data and b"<?" not in case.data and b"<!--" not in case.data:
        assert answer(Case(spaced, case.query)) == answer(case)


@given(filters() | transformations())
def test_renaming_all_elements_gives_the_same(case: Case) -> None:
    assume('xmlns="urn:new"' not in case.query)
    tree = etree.fromstring(case.data)
    for element in tree.iter(etree.Element):
        element.tag = str(element.tag) + ".renamed"

    def change(node: Any) -> Any:  # noqa: ANN401 - any node of the tree
        if isinstance(node, NameTest) and node.local is not None:
            return NameTest(node.namespace, node.local + ".renamed")
        return node

    renamed = Case(etree.tostring(tree), case.query)
    assert answer(renamed, rewrite(parse(case.query), change)) == answer(case)


@given(filters() | transformations())
def test_renaming_prefixes_gives_the_same(case: Case) -> None:
    renamed = case.data
    for old, new in ((b"p", b"first"), (b"q", b"second")):
        for before in (b"<", b"</", b" ", b" xmlns:"):
            joint = b"=" if before == b" xmlns:" else b":"
            renamed = renamed.replace(before + old + joint, before + new + joint)
    assert b" p:" not in renamed
    assert answer(Case(renamed, case.query)) == answer(case)


@given(filters() | transformations())
def test_one_more_root_gives_the_same_one_level_deeper(case: Case) -> None:
    wrapped = b"<wrap>" + case.data + b"</wrap>"
    step = Step(Axis.CHILD, NameTest("", "wrap"))
    query = parse(case.query)
    climbs = False

    def change(node: Any) -> Any:  # noqa: ANN401 - any node of the tree
        nonlocal climbs
        climbs = climbs or node is PARENT
        if isinstance(node, Path) and node.start is ROOT:
            return replace(node, steps=(step, *node.steps))
        return node

    deeper = rewrite(query, change)
    assume(not climbs)  # from the root, `..` leads to the document, which is now an element
    assert answer(Case(wrapped, case.query), deeper) == answer(case)


def test_rewriting_reaches_every_node() -> None:
    """Else the tests above could not fail."""
    seen: list[object] = []

    def note(node: Any) -> Any:  # noqa: ANN401 - any node of the tree
        seen.append(node)
        return node

    assert rewrite(parse("//a[b[c = 1]]"), note) == parse("//a[b[c = 1]]")
    assert {"a", "b", "c"} <= {each.local for each in seen if isinstance(each, NameTest)}

"""The five claims: where they hold, and a message that breaks each when a condition is dropped."""

import pytest

from broker.documents import parse_message
from broker.documents.dtd import ElementGraph
from broker.names import ExpandedName
from broker.plan.build import bare
from broker.plan.claims import no_duplicate_pairs, no_duplicates, ordered_by
from broker.plan.rewrite import rewrite_steps
from broker.query import Filter, parse
from broker.query.syntax import Exists, Step
from broker.runtime.path_stream import PathStreams, Rows

LOOP = ElementGraph.parse(b"<!ELEMENT a (a | b | c)*><!ELEMENT b (b | c)*><!ELEMENT c EMPTY>")
FLAT = ElementGraph.parse(b"<!ELEMENT a (b | c)*><!ELEMENT b (c)*><!ELEMENT c EMPTY>")
RECURSIVE = b"<a><a><b><b><c/></b><c/></b></a><b><c/></b></a>"


REWRITTEN = {
    "//b": "/a/b",
    "/a//c": "/a//c",
    "//a//b": "/a/b",
    "//b//c": "/a/b/c",
    "//*//c": "//*//c",
    "//b/*": "/a/b/*",
    "//x//c": "//x//c",
}


@pytest.mark.parametrize("path", REWRITTEN)
def test_superfluous_descendant_axes_are_rewritten(path: str) -> None:
    graph = ElementGraph.parse(
        b"<!ELEMENT a (b | c)*><!ELEMENT b (c)*><!ELEMENT c EMPTY>",
        roots=[ExpandedName("", "a")],
    )
    assert rewrite_steps(steps(path), graph, None) == steps(REWRITTEN[path])
    assert rewrite_steps(steps(path), LOOP, None)[-1].axis is steps(path)[-1].axis


def steps(text: str) -> tuple[Step, ...]:
    query = parse(text)
    assert isinstance(query, Filter)
    assert isinstance(query.condition, Exists)
    return bare(query.condition.path.steps)


def rows(text: str, data: bytes = RECURSIVE) -> Rows:
    return PathStreams(parse_message(data)).rows(steps(text))


def has_duplicates(rows: Rows, *fields: int) -> bool:
    keys = [tuple(row[field - 1] for field in fields) for row in rows]
    return len(set(keys)) < len(keys)


def is_ordered(rows: Rows, field: int) -> bool:
    values = [row[field - 1] for row in rows]
    return values == sorted(values)


@pytest.mark.parametrize("path", ["/a/b/c", "//b/c", "/a//c", "//*/c", "/*/*//c"])
def test_claim_1_holds_with_one_descendant_axis(path: str) -> None:
    claim = no_duplicates(steps(path), None)
    assert claim is not None
    assert (claim.number, claim.needs_dtd) == (1, False)
    assert not has_duplicates(rows(path), len(steps(path)))


def test_claim_1_needs_that_there_is_but_one() -> None:
    assert no_duplicates(steps("//a//c"), None) is None
    assert has_duplicates(rows("//a//c"), 2)


def test_claim_2_holds_without_loops_and_needs_that() -> None:
    claim = no_duplicates(steps("//a//b/c"), FLAT)
    assert claim is not None
    assert (claim.number, claim.needs_dtd) == (2, True)
    assert no_duplicates(steps("//a//b/c"), LOOP) is None
    assert has_duplicates(rows("//a//b/c"), 3)
    # The last // may lead to an element on a loop, others may not.
    assert no_duplicates(steps("/a//c//b"), LOOP) is not None


def test_claim_2_does_not_hold_for_a_star() -> None:
    """It may be any element, and two of different names may be above one, without a loop."""
    data = b"<a><b><c/></b></a>"
    assert FLAT.conforms(parse_message(data))
    assert no_duplicates(steps("//*//c"), FLAT) is None
    assert has_duplicates(rows("//*//c", data), 2)


def test_claim_2_needs_a_message_that_conforms() -> None:
    assert no_duplicates(steps("//a//c"), FLAT) is not None
    assert has_duplicates(rows("//a//c"), 2)
    assert not FLAT.conforms(parse_message(RECURSIVE))


def test_claim_3_needs_both_parts() -> None:
    claim = no_duplicate_pairs(steps("//a//c"), 1, None)
    assert claim is not None
    assert claim.number == 3
    assert not has_duplicates(rows("//a//c"), 1, 2)
    assert no_duplicate_pairs(steps("//a//b//c"), 1, None) is None
    assert has_duplicates(rows("//a//b//c"), 1, 3)
    assert no_duplicate_pairs(steps("//a//b/c"), 2, None) is None
    assert has_duplicates(rows("//a//b/c"), 2, 3)


def test_claim_3_by_claim_2_needs_a_message_that_conforms() -> None:
    claim = no_duplicate_pairs(steps("//a//b//c"), 1, FLAT)
    assert claim is not None
    assert (claim.number, claim.needs_dtd) == (3, True)
    assert no_duplicate_pairs(steps("//a//b//c"), 1, LOOP) is None
    conforming = b"<a><b><c/><c/></b><b><c/></b></a>"
    assert FLAT.conforms(parse_message(conforming))
    assert not has_duplicates(rows("//a//b//c", conforming), 1, 3)
    assert not FLAT.conforms(parse_message(RECURSIVE))
    assert has_duplicates(rows("//a//b//c"), 1, 3)


def test_claim_4_needs_that_no_descendant_axis_comes_before() -> None:
    claim = ordered_by(steps("/a/b//c"), 2, None)
    assert claim is not None
    assert claim.number == 4
    assert is_ordered(rows("/a/b//c"), 2)
    assert ordered_by(steps("//b/c"), 1, None) is None
    assert not is_ordered(rows("//b/c"), 1)


def test_claim_5_needs_that_no_loop_is_shared() -> None:
    claim = ordered_by(steps("//a/b//c"), 2, FLAT)
    assert claim is not None
    assert (claim.number, claim.needs_dtd) == (5, True)
    assert ordered_by(steps("//b/c"), 1, LOOP) is None
    assert not is_ordered(rows("//b/c"), 1)
    # a is on a loop of its own, but not on one with c.
    assert ordered_by(steps("//a//c"), 2, LOOP) is not None


def test_claim_5_needs_a_message_that_conforms() -> None:
    assert ordered_by(steps("//b/c"), 1, FLAT) is not None
    conforming = b"<a><b><c/></b><c/><b><c/><c/></b></a>"
    assert FLAT.conforms(parse_message(conforming))
    assert is_ordered(rows("//b/c", conforming), 1)
    assert not FLAT.conforms(parse_message(RECURSIVE))
    assert not is_ordered(rows("//b/c"), 1)


def test_claim_5_does_not_hold_for_a_star() -> None:
    """It may be any element: one that holds an element, and then one that stands beside that."""
    data = b"<a><b><c/></b><c/></a>"
    assert FLAT.conforms(parse_message(data))
    assert ordered_by(steps("//*/c"), 1, FLAT) is None
    assert not is_ordered(rows("//*/c", data), 1)
    assert ordered_by(steps("//*/c"), 2, LOOP) is None

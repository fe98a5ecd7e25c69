"""Results that are written at once are those that the message factory makes of groups.

An engine looks more closely at the first message of every few: that one is answered by groups and
the factory, the one after it, if it can be, by a `GroupWriter`.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.delivery import Delivery, Transformation
from broker.documents import parse_message
from broker.engine import Engine
from broker.errors import QueryError
from broker.limits import ResultLimits
from broker.message_factory import OutputFormat
from broker.query import parse
from tests.oracles.strategies import PROLOG, QueryMaker, random_message

MESSAGE = (
    b"<r><a k='1' id='x&amp;y'><b>1</b><c><b n='&lt;'>2</b></c></a><a k='2'><b/>t</a><d k='1'/></r>"
)


class Simple(QueryMaker):
    """Queries with templates that copy elements and attributes."""

    def element(self, depth: int) -> str:
        del depth
        content = "".join(
            self.rng.choice(["{$v/@k}", "{$v/@id}", "{$v//@k}"])
            for _ in range(self.rng.choice([0, 0, 1, 2]))
        )
        for _ in range(self.rng.randint(0, 3)):
            content += self.rng.choice([" text ", "&lt;", "", ""])
            content += f"{{{self.variable_path('v', 0, end=0)}}}"
        return self.rng.choice(["<hit>{}</hit>", '<x k="&lt;1">{}</x>']).format(content)


def answers(engine: Engine, data: bytes) -> list[tuple[str, bytes | None, str | None]]:
    """What subscriptions get, the errors by what they say."""

    def told(each: Delivery) -> tuple[str, bytes | None, str | None]:
        return each.subscription, each.payload, None if each.error is None else str(each.error)

    return sorted(map(told, engine.process(data)))


@given(st.randoms(use_true_random=False), st.sampled_from([ResultLimits(), None]))
def test_the_second_time_is_as_the_first(rng: random.Random, limits: ResultLimits | None) -> None:
    data = random_message(rng)
    maker = Simple(parse_message(data), rng)
    if limits is None:
        limits = ResultLimits(max_bindings=2, output_factor=0, output_base=40)
    engine = Engine(result_limits=limits)
    for number in range(8):
        format = rng.choice([OutputFormat.XML, OutputFormat.XML, OutputFormat.GROUPS])
        try:
            engine.add(f"s{number}", parse(PROLOG + maker.flwr()), format)
        except QueryError:
            continue
    assert answers(engine, data) == answers(engine, data)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("for $v in //a where $v/b = '1' return <x>{$v/b}{$v//b}</x>", True),
        ("for $v in //a where $v/@k = '2' return <x>{$v/b}</x>", True),
        ("for $v in //a where $v/@k = '2' return <x>{$v/c}</x>", True),
        ("for $v in //a return <x>{$v/@k}{$v/@id}{$v/b}</x>", True),
        ("for $v in //a return <x>{$v/@k}</x>", True),
        ("for $v in //a return <x>say: {$v/b}!</x>", True),
        ("<all>{for $v in //a order by $v/@k descending return <x>{$v/c}</x>}</all>", True),
        ("for $v in //b where $v = '9' return <x>{$v}</x>", True),
        ("for $v in //a return <x>{$v/b/text()}</x>", False),
        ("for $v in //a return <x><y>{$v/b}</y></x>", False),
        ("for $v in //a return <x>{count($v/b)}</x>", False),
        ("for $v in //a return <x k='{$v/@k}'>{$v/b}</x>", False),
        ("for $v in //a return <p:x xmlns:p='urn:p'>{$v/b}</p:x>", False),
        ("for $v in //a return $v/b", False),
    ],
)
def test_which_are_written_at_once(query: str, expected: bool) -> None:
    engine = Engine()
    engine.add("s", parse(query))
    first, second = answers(engine, MESSAGE), answers(engine, MESSAGE)
    assert first == second
    transformation = Transformation(parse(query))  # type: ignore[arg-type]
    grouped = engine.planner.group(transformation.query)
    transformation.plan = None if grouped is None else grouped[0]
    assert (engine._makers.of(transformation).writer is not None) == expected
    assert bool(first) == ("'9'" not in query)


def test_an_attribute_that_would_be_there_twice_is_an_error_in_either_way() -> None:
    engine = Engine()
    engine.add("s", parse("for $v in /r return <x>{$v/a/@k}{$v/d}</x>"))
    for _ in range(3):
        ((_, payload, error),) = answers(engine, MESSAGE)
        assert payload is None
        assert error is not None
        assert "duplicate-attribute" in error


def test_queries_of_one_shape_share_their_maker() -> None:
    engine = Engine()
    for value in ("1", "2"):
        query = f"for $v in //a where $v/@k = '{value}' return <x>{{$v/b}}</x>"
        engine.add(value, parse(query))
    for _ in range(2):
        assert answers(engine, MESSAGE) == [
            ("1", b"<x><b>1</b></x>", None),
            ("2", b"<x><b/></x>", None),
        ]
    one, two = engine._unmatched.values()
    assert one.maker is two.maker is not None

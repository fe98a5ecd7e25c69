"""Messages and changes leave nothing behind that only Python's collector can free.

In Spark's workers it passes over what an engine has learned, so that would stay for ever.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from broker.engine import Engine
from broker.errors import MessageError
from broker.limits import ResultLimits
from broker.query import parse

MESSAGES = [
    b'<r><a k="%d"><b>%d</b><b/></a><c>x</c></r>' % (number % 7, number % 5) for number in range(40)
]
QUERIES = {
    "index": "for $v in //a where $v/b = '3' return <r>{$v/b}</r>",
    "order": "for $v in //a where $v/@k > 3 return <r>{$v/b}</r>",
    "walked": "for $v in //b return <r>{$v/../b}</r>",
    "over budget": "for $v in //* return <r>{$v}</r>",
    "filter": "//a[b]/@k",
    "value": "//a[@k = '3'][b = '2']",
    "nested": "/r[a/b][c]",
    "not": "not(//d)",
}


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(result_limits=ResultLimits(max_bindings=3))
    for name, text in QUERIES.items():
        engine.add(name, parse(text))
    for data in MESSAGES:
        engine.process(data)
    while gc.collect():
        pass  # what an earlier engine held is found when that has gone
    gc.disable()
    yield engine
    gc.enable()


def messages(engine: Engine) -> None:
    for data in MESSAGES:
        assert engine.process(data)


def refused(engine: Engine) -> None:
    for data in MESSAGES:
        with suppress(MessageError):
            engine.process(data[:-1])


def trees(engine: Engine) -> None:
    for data in MESSAGES:
        assert engine.process(data.replace(b"<c>", b"<c><!-- no text -->"))


def new_tags(engine: Engine) -> None:
    for number in range(20):
        engine.process(b"<n%d><a/></n%d>" % (number, number))


def transformations(engine: Engine) -> None:
    for number in range(50):
        text = (
            f"for $v in //a where $v/b = '{number}' return <n{number % 3}>{{$v/b}}</n{number % 3}>"
        )
        engine.add(f"new{number}", parse(text))
    messages(engine)
    for number in range(50):
        engine.remove(f"new{number}")


def filters(engine: Engine) -> None:
    for number in range(600):
        engine.add(f"new{number}", parse(f"//a[b = '{number}'][@k]"))
        engine.add(f"matched{number}", parse(f"//a[b = '{number}'] and //a[@k]"))
    for number in range(600):
        engine.add(f"plain{number}", parse(f"//a/b{number}"))
    messages(engine)
    for number in range(600):
        engine.remove(f"new{number}")
        engine.remove(f"matched{number}")
        engine.remove(f"plain{number}")
    for _ in range(20):
        messages(engine)


@pytest.mark.parametrize(
    "work", [messages, refused, trees, new_tags, transformations, filters], ids=lambda f: f.__name__
)
def test_no_garbage(engine: Engine, work: Callable[[Engine], None]) -> None:
    work(engine)
    assert gc.collect() == 0


def test_what_only_the_collector_can_free_is_counted(engine: Engine) -> None:
    before = engine.renewals
    assert engine._labels.written is not None
    engine._labels.written.charge(10**9)
    engine.process(MESSAGES[0])
    assert engine.renewals == before + 1
    engine._labels.limit = 1
    engine.process(MESSAGES[0])
    assert engine.renewals == before + 2

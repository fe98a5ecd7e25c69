"""The engine's facade: what it explains, and what hostile transformations may cost."""

import pytest

from broker import costs as costs_module
from broker import reference
from broker.costs import SAMPLED
from broker.documents import parse_message
from broker.documents.dtd import ElementGraph
from broker.engine import Engine
from broker.errors import MessageError
from broker.limits import ResultLimits
from broker.message_factory import make_output
from broker.query import Flwr, parse
from broker.runtime.transformer import Choice

DEEP = b"<a>" * 60 + b"x" + b"</a>" * 60
WIDE = b"<r>" + b"<a><b>1</b></a>" * 1_500 + b"</r>"
HOSTILE = [
    "for $v in //* return <r>{$v//*}{$v//*}</r>",
    "for $v in //*//*//* return <r>{$v//*//*}</r>",
    'for $v in //*//* where $v//* = "x" return <r>{$v//*//*//*}</r>',
    "for $v in //a[.//a[.//a]]//a order by $v//a return <r>{$v}</r>",
    "for $v in //* return <r>{$v/..//*}</r>",
]
PLANNED = [Choice.AUTO, Choice.F, Choice.FW, Choice.FWR, Choice.REFERENCE]


@pytest.mark.parametrize("data", [DEEP, WIDE], ids=["deep", "wide"])
@pytest.mark.parametrize("query", HOSTILE)
@pytest.mark.parametrize("choice", PLANNED)
def test_over_budget_is_an_error_for_that_subscription_alone(
    choice: Choice, query: str, data: bytes
) -> None:
    limits = ResultLimits(max_bindings=20_000, max_items=5_000)
    engine = Engine(choice=choice, result_limits=limits)
    engine.add("hostile", parse(query))
    engine.add("modest", parse("for $v in /* return <ok/>"))
    engine.add("filter", parse("/*"))
    got = {each.subscription: each for each in engine.process(data)}
    assert got["modest"].payload == b"<ok/>"
    assert got["filter"].payload == data
    hostile = got.get("hostile")
    if hostile is None:
        return  # it binds nothing in this message
    if hostile.error is not None:
        assert hostile.error.code == "budget-exceeded"
    else:
        assert hostile.payload is not None
        assert len(hostile.payload) <= limits.max_output_bytes(len(data))


def test_very_many_signatures_for_one_value_go_to_the_matcher() -> None:
    engine = Engine()
    for number in range(200):
        engine.add(f"s{number}", parse(f'for $v in //a{number} where $v/b = "1" return <r/>'))
    engine.add("hit", parse('for $v in //a7 where $v//b = "1" return <hit/>'))
    got = {
        each.subscription for each in engine.process(b"<r><a7><b>1</b></a7><a8><b>2</b></a8></r>")
    }
    assert got == {"s7", "hit"}
    explained = {" ".join(engine.explain(f"s{number}")) for number in range(200)}
    assert any("found by the constants" in text for text in explained)
    engine_of_wildcards = Engine()
    for number in range(200):
        text = f'for $v in //a{number} where $v//b = "1" return <r/>'
        engine_of_wildcards.add(f"s{number}", parse(text))
    explained = {" ".join(engine_of_wildcards.explain(f"s{number}")) for number in range(200)}
    assert any("matched as the filter" in text for text in explained)
    got = {each.subscription for each in engine_of_wildcards.process(b"<a199><b>1</b></a199>")}
    assert got == {"s199"}


def test_a_leaf_that_gets_children_later() -> None:
    engine = Engine()
    engine.add("s", parse('for $v in /r where $v/b = "12" return <hit/>'))
    assert engine.process(b"<r><b>12</b></r>")
    assert engine.process(b"<r><b>1<c>2</c></b></r>")
    assert engine.process(b"<r><b>1<!-- no value -->2</b></r>")
    assert not engine.process(b"<r><b>1<c>3</c></b></r>")


def test_explain() -> None:
    engine = Engine()
    engine.add("filter", parse("//a"))
    engine.add("key", parse('for $v in //a where $v/b = "1" return <r/>'))
    engine.add("none", parse("for $v in //a where not($v/b) return <r>{$v/..}</r>"))
    assert engine.explain("filter") == ["a filter, matched by the shared automaton"]
    assert engine.explain("key")[-1].startswith("found by the constants")
    assert "matched as the filter //a[not(b)]" in engine.explain("none")
    with pytest.raises(KeyError):
        engine.explain("nobody")


def test_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(result_limits=ResultLimits(max_bindings=2))
    for name, query in {
        "f/all": "//a",
        "f/none": "//nothing",
        "t/one": "for $a in //a where $a = 'x' return <r>{$a}</r>",
        "t/same": "for $a in //a where $a = 'x' return <r>{$a}</r>",
        "t/many": "for $b in //b return <r>{$b}</r>",
        "t/any": "for $a in //a[../b] return <r>{$a}</r>",
    }.items():
        engine.add(name, parse(query))
    made = engine.process(b"<m><a>x</a><b/><b/><b/></m>")
    assert len(made) == 5
    with pytest.raises(MessageError):
        engine.process(b"<m>")
    counted = engine.metrics
    assert (counted.parse_runs, counted.match_runs) == (2, 1)
    assert (counted.matches, counted.bindings) == (3, 2)
    assert (counted.transform_runs, counted.serialise_runs) == (3, 2)
    assert counted.budget_overruns == 1
    assert all(number >= 0 for number in counted.totals().values())
    costs = engine.costs(10)
    assert costs.keys() == {"t/one", "t/same", "t/many", "t/any"}
    assert costs["t/one"] == costs["t/same"] > 0
    assert engine.costs(10) == {}
    engine.process(b"<m><a>x</a><b/></m>")
    assert engine.costs(2) == {}, "it was no sample"
    for _ in range(SAMPLED):
        engine.process(b"<m><a>x</a><b/></m>")
    assert len(engine.costs(2)) == 2
    monkeypatch.setattr(costs_module, "_SECONDS", 0.0)
    assert engine.costs(2) == {}
    engine.process(b"<m><a>x</a><b/></m>")
    assert len(engine.costs(2)) == 2, "messages are few: the next one is a sample"
    use = engine.describe().cache_use
    assert use.looked_up >= use.missed > 0
    engine.process(b"<m><a>x</a><b/></m>")
    assert engine.describe().cache_use.missed == use.missed
    assert engine.transformations == {"indexed": 1, "grouped": 2}
    for name in ("t/one", "t/same", "t/many", "t/any", "f/all"):
        engine.remove(name)
    assert engine.transformations.total() == 0
    assert engine.costs(10) == {}


BIB = ElementGraph.parse(
    b"<!ELEMENT bib (book)*><!ELEMENT book (title, author*)><!ELEMENT author (last)>"
    b"<!ELEMENT title (#PCDATA)><!ELEMENT last (#PCDATA)>"
)
CONFORMING = b"<bib><book><title>t</title><author><last>x</last></author></book></bib>"
FOREIGN = b"<bib><book><title>t</title><book><author><last>x</last></author></book></book></bib>"


@pytest.mark.parametrize("choice", [Choice.AUTO, Choice.F, Choice.FW, Choice.FWR])
def test_a_message_that_does_not_conform_is_answered_without_the_dtd_and_counted(
    choice: Choice,
) -> None:
    queries = {
        "streamed": 'for $v in //book where $v//last = "x" return <r>{$v//title}</r>',
        "searched": 'for $v in //book where $v//last = "x" return <r>{$v/title[1]}</r>',
        "filter": "//book//last",
    }
    engines = [Engine(choice=choice, graph=graph) for graph in (BIB, None)]
    for engine in engines:
        for name, query in queries.items():
            engine.add(name, parse(query))
    with_dtd, without = engines
    assert not with_dtd.planner.rules["rewrite_descendants"].stayed
    assert with_dtd.planner.rules["rewrite_descendants"].fired
    assert "rewrite_descendants" not in without.planner.rules
    for data, fallbacks in ((CONFORMING, 0), (FOREIGN, 1), (CONFORMING, 1), (FOREIGN, 2)):
        assert sorted(with_dtd.process(data)) == sorted(without.process(data))
        assert len(without.process(data)) == len(queries)
        assert with_dtd.metrics.dtd_fallbacks == fallbacks
    assert without.metrics.dtd_fallbacks == 0


def test_every_rule_is_timed_and_counted() -> None:
    engine = Engine()
    for number in range(3):
        engine.add(f"t/{number}", parse(f'for $v in //a where $v/b = "{number}" return <r/>'))
    engine.add("t/searched", parse("for $v in //a return <r>{$v/b[1]}</r>"))
    rules = engine.planner.rules
    assert (rules["group_in_matcher"].fired, rules["group_in_matcher"].stayed) == (3, 1)
    assert rules["drop_dup_elim"].fired == 1
    assert all(count.seconds > 0 for count in rules.values())
    shared = Engine(choice=Choice.FWR)
    shared.add("t", parse('for $v in //a where $v/b = "1" return <r>{$v/c}</r>'))
    assert shared.planner.rules["pull_up_selection"].fired == 1
    assert shared.planner.rules["share_group_by"].fired == 1


def test_bound_elements_are_found_in_messages_with_many_label_paths_or_many_nodes() -> None:
    """A line of bytes is not enough for them, and they are found in another way."""
    queries = {
        "near": 'for $v in //i where $v/k = "7" return <r>{$v/@n}</r>',
        "far": 'for $v in /r/* where $v//k = "7" return <r>{count($v/i)}</r>',
        "root": 'for $v in /r where $v//i/@n = "3" return <r>{count($v/*)}</r>',
    }
    item = "<i n='{}'><k>{}</k></i>"
    few = f"<r><a>{''.join(item.format(n, n) for n in range(9))}</a></r>"
    wide = f"<r><a>{''.join(item.format(n % 9, n % 9) for n in range(6_000))}</a></r>"
    varied = "".join(f"<a{n}>{item.format(n % 9, n % 9)}</a{n}>" for n in range(300))
    for text in (few, wide, f"<r>{varied}</r>"):
        message = parse_message(text.encode())
        engine = Engine()
        wanted = {}
        for name, query in queries.items():
            parsed = parse(query)
            assert isinstance(parsed, Flwr)
            engine.add(name, parsed)
            wanted[name] = make_output(reference.transform(parsed, message), message)
        assert engine.transformations == {"indexed": 3}
        got = {each.subscription: each.payload for each in engine.process(text.encode())}
        assert got == wanted

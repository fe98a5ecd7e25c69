import json

from tests.unit.command_line.conftest import Run
from xmlbroker.bench.measure import compare
from xmlbroker.bench.workload import Feed, random_messages, random_queries


def test_parse_prints_ratios(run: Run) -> None:
    ran = run("bench", "parse", "--rounds", "2", "--json")
    assert ran.status == 0
    figures = json.loads(ran.out)
    assert figures["workload"] == "generated"
    assert [each["name"] for each in figures["messages"]["timings"]][:2] == [
        "bare lxml parsing",
        "node table",
    ]
    assert figures["queries"]["timings"][0]["ratio"] == 1
    assert figures["queries"]["timings"][1]["ratio"] > 0
    assert run("bench", "parse", "--rounds", "2").status == 0


def test_no_rounds_are_a_usage_error(run: Run) -> None:
    assert run("bench", "parse", "--rounds", "0").status == 2


def test_contestants_run_in_turn() -> None:
    turns: list[str] = []
    contestants = {name: lambda item, name=name: turns.append(f"{name}{item}") for name in "ab"}
    timings = compare(contestants, lambda number: [10 * number, 10 * number + 1], 2)
    assert turns == [
        *("b0", "a0", "a1", "b1"),
        *("a10", "b10", "b11", "a11"),
        *("b20", "a20", "a21", "b21"),
    ]
    assert [timing.name for timing in timings] == ["a", "b"]


def test_a_feed_renews_its_messages() -> None:
    originals = random_messages(20)
    feed = Feed(originals)
    renewed = feed.renewed()
    assert len(renewed) == 20
    assert len({*originals, *renewed, *feed.renewed()}) > 50


def test_generated_workload_is_varied_and_repeatable() -> None:
    assert len(set(random_messages(50))) == 50
    assert len(set(random_queries(500))) == 500
    assert random_messages(3) == random_messages(3)
    assert random_queries(3, seed=1) != random_queries(3, seed=2)

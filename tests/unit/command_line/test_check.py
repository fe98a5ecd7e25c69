import json
from pathlib import Path

from tests.unit.command_line.conftest import Run
from tests.unit.command_line.test_match import write


def test_accepted(run: Run, tmp_path: Path) -> None:
    ran = run("check", "--query", write(tmp_path, "q.xp", "// book [price<50.0]"))
    assert ran.status == 0
    assert "accepted, a filter" in ran.out
    assert "canonical: //book[price < 50]" in ran.out


def test_refused_with_the_caret(run: Run, tmp_path: Path) -> None:
    ran = run("check", "--query", write(tmp_path, "q.xp", "//book\n  [pric e < 50]"))
    assert ran.status == 1
    assert ran.out == ""
    assert ran.err.splitlines()[:6] == [
        "q.xp: refused",
        "error[syntax]: expected `]` or `and` or `or` or a comparison, found `e`",
        " --> line 2, column 9",
        "  |",
        "2 |   [pric e < 50]",
        "  |         ^",
    ]


def test_json(run: Run, tmp_path: Path) -> None:
    ran = run("check", "--json", "--queries", write(tmp_path, "q.txt", "//a\n//a[\n//b[@c]"))
    assert ran.status == 1
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["accepted"] for each in records] == [True, False, True]
    assert records[1]["error"]["code"] == "syntax"
    assert records[1]["error"]["column"] == 5
    assert records[2] == {
        "query": 3,
        "accepted": True,
        "kind": "filter",
        "canonical": "//b[@c]",
        "cost": {"steps": 2, "predicates": 1, "active_states": 2, "cache_bytes": 16},
    }


def test_limits_are_settings(run: Run, tmp_path: Path) -> None:
    query = write(tmp_path, "q.xp", "/a/b/c")
    write(tmp_path, "xmlbroker.toml", "[query]\nmax_steps = 2\n")
    ran = run("check", "--query", query)
    assert ran.status == 1
    assert "query-too-many-steps" in ran.err
    assert "setting query.max_steps" in ran.err


def test_one_of_two_options_is_needed(run: Run, tmp_path: Path) -> None:
    query = write(tmp_path, "q.xp", "//a")
    assert run("check").status == 2
    assert run("check", "--query", query, "--queries", query).status == 2

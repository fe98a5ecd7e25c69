"""`xmlbroker explain`."""

import json
from pathlib import Path

import pytest

from tests.unit.command_line.conftest import Run

FILTERS = "/a/b[@x = 1]\n/a/b\n/a/b\n# none\n/a/c[d or e]\n//a[count(b) > 1]\n"


def test_shape(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "filters.txt"
    file.write_text(FILTERS, encoding="utf-8")
    result = run("explain", "--queries", str(file), "--json")
    figures = json.loads(result.out)
    assert result.status == 0
    assert (figures["filters"], figures["distinct"]) == (5, 4)
    assert (figures["steps"], figures["shared_steps"]) == (7, 4)
    assert figures["states_by_depth"] == [2, 2]
    assert figures["tests"] == {"x": [1, 0, 0]}
    assert figures["verified"] == 1
    assert figures["shared_beginnings"] == [["/a", 3], ["/a/b", 2]]
    shown = run("explain", "--queries", str(file)).out
    assert "7, as 4 states: 43% shared" in shown
    assert "@x" in shown


def test_document(run: Run, tmp_path: Path) -> None:
    file, document = tmp_path / "filters.txt", tmp_path / "m.xml"
    file.write_text(FILTERS, encoding="utf-8")
    document.write_text("<a><b x='2'/></a>", encoding="utf-8")
    result = run("explain", "--queries", str(file), "--document", str(document), "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [record["matches"] for record in records] == [False, True, True, False, False]
    assert records[0]["reason"] == ("matched /a, no element `b` directly below it with [@x = 1]")
    shown = run("explain", "--queries", str(file), "--document", str(document)).out
    assert "2: yes /a/b\n     matched /a/b, once" in shown


def test_brackets_in_a_namespace_are_no_markup(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "filters.txt"
    prolog = 'declare namespace p = "urn:[/b][red]"; '
    file.write_text(f"{prolog}//p:a\n{prolog}//p:a/p:b\n", encoding="utf-8")
    result = run("explain", "--queries", str(file))
    assert result.status == 0
    assert "//{urn:[/b][red]}a" in result.out


def test_a_refused_query_is_named_and_the_rest_go_on(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "filters.txt"
    file.write_text("/a\n/b[\n", encoding="utf-8")
    result = run("explain", "--queries", str(file), "--json")
    assert result.status == 1
    assert "query 2 is refused" in result.err
    assert json.loads(result.out)["filters"] == 1


def test_what_the_plans_of_several_queries_share(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one.xq", tmp_path / "other.xq"
    one.write_text('for $v in //a where $v/b = "1" return <r>{$v/c}</r>', encoding="utf-8")
    other.write_text('for $v in //a where $v/b = "2" return <s>{$v/c}</s>', encoding="utf-8")
    files = ("--query", str(one), "--query", str(other))
    lines = run("explain", *files).out.splitlines()
    assert sum("SharedJoin" in line for line in lines) == 1
    assert sum("Output" in line for line in lines) == 2
    assert sum("GroupBy" in line for line in lines) == 1
    for number in (1, 2):
        for rule in ("pull_up_selection", "share_group_by"):
            assert any(line.startswith(f"query {number}: fired: {rule}") for line in lines), rule
        instead = f"query {number}: the broker groups it in the matcher instead"
        assert any(line.startswith(instead) for line in lines)
    assert "instead" not in run("explain", *files, "--strategy", "fwr").out
    drawn = run("explain", *files, "--dot").out
    assert drawn.startswith("digraph plan {")
    assert "-> q2;" in drawn


def test_a_query_without_a_plan_to_share(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "one.xq"
    file.write_text("for $v in //a/.. return <r>{$v/c}</r>", encoding="utf-8")
    result = run("explain", "--query", str(file), "--dot")
    assert result.status == 2
    assert "the binding path has .." in result.err


@pytest.mark.parametrize("strategy", ["group", "reference"])
def test_what_has_no_streams_is_not_drawn_as_something_else(
    run: Run, tmp_path: Path, strategy: str
) -> None:
    file = tmp_path / "one.xq"
    file.write_text("for $v in //a return <r>{$v/c}</r>", encoding="utf-8")
    result = run("explain", "--query", str(file), "--strategy", strategy, "--dot")
    assert result.status == 2
    assert f"{strategy} has no plan with path streams" in result.err
    assert "--strategy f, fw or fwr" in result.err


def test_the_plan_of_a_query_that_is_grouped(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "one.xq"
    file.write_text(
        'for $v in //a where $v/b = "1" order by $v/@k return <r>{$v/c}</r>', encoding="utf-8"
    )
    assert run("explain", "--query", str(file)).out.splitlines() == [
        "OrderBy $v/@k",
        "  GroupInMatcher //a",
        '    Key $v/b = "1"',
        "    Sliced $v/c",
        "fired: group_in_matcher, lists are slices of the elements of label paths",
        "found by the constants that its where clause compares with",
    ]


def test_what_a_query_makes_of_a_document(run: Run, tmp_path: Path) -> None:
    query, document = tmp_path / "one.xq", tmp_path / "m.xml"
    query.write_text('for $v in //a where $v/b = "1" return <r>{$v/c}</r>', encoding="utf-8")
    document.write_text("<m><a><b>1</b></a><a><b>2</b></a></m>", encoding="utf-8")
    result = run("explain", "--query", str(query), "--document", str(document))
    *_, found, of_document = result.out.splitlines()
    assert found == "found by the constants that its where clause compares with"
    assert of_document.startswith("query 1: 1 group, ")
    document.write_text("<m><a><b>2</b></a></m>", encoding="utf-8")
    result = run("explain", "--query", str(query), "--document", str(document))
    assert "query 1: 0 groups, no element `a`" in result.out
    assert '[b = "1"]' in result.out


def test_filters_and_queries_are_not_mixed(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "one.xq"
    file.write_text("for $v in //a return <r/>", encoding="utf-8")
    result = run("explain", "--query", str(file), "--queries", str(file))
    assert result.status == 2
    assert "either --queries or --query" in result.err

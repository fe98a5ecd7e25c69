import json
from pathlib import Path

import pytest

from broker.runtime.transformer import Choice
from tests.unit.command_line.conftest import Run
from tests.unit.command_line.test_match import BOOKS, write

QUERY = "for $b in //book where $b/price < 50 return <hit>{$b/@lang}{$b/title}</hit>"


def test_xml(run: Run, tmp_path: Path) -> None:
    query = write(tmp_path, "hits.xq", QUERY)
    one = write(tmp_path, "one.xml", BOOKS)
    nothing = write(tmp_path, "nothing.xml", b"<bib/>")
    ran = run("transform", "--query", query, "--strategy", "reference", one, nothing)
    assert ran.status == 0
    assert ran.out == '<hit lang="en"><title>A</title></hit>\n'


FOUND = {
    **dict.fromkeys((Choice.AUTO, Choice.GROUP), "found by the constants"),
    **dict.fromkeys((Choice.F, Choice.FW, Choice.FWR), "in one plan with 0 other transformations"),
    Choice.REFERENCE: "matched as the filter //book[price < 50]",
}


@pytest.mark.parametrize("strategy", Choice)
def test_every_strategy_gives_the_same(run: Run, tmp_path: Path, strategy: Choice) -> None:
    query = write(tmp_path, "hits.xq", QUERY)
    document = write(tmp_path, "one.xml", BOOKS)
    dtd = write(tmp_path, "bib.dtd", b"<!ELEMENT bib (book*)><!ELEMENT book ANY>")
    ran = run("transform", "--query", query, "--strategy", strategy, "--dtd", dtd, document)
    assert ran.status == 0
    assert ran.out == '<hit lang="en"><title>A</title></hit>\n'
    explained = run("explain", "--query", query, "--strategy", strategy, "--dtd", dtd)
    assert explained.status == 0
    assert FOUND[strategy] in explained.out


def test_groups(run: Run, tmp_path: Path) -> None:
    query = write(tmp_path, "hits.xq", QUERY)
    ran = run("transform", "--query", query, "--format", "groups", write(tmp_path, "a.xml", BOOKS))
    assert json.loads(ran.out) == {
        "document": "a.xml",
        "lists": ["$b/@lang", "$b/title"],
        "groups": [[["en"], ["<title>A</title>"]]],
    }


def test_a_document_that_is_refused(run: Run, tmp_path: Path) -> None:
    query = write(tmp_path, "hits.xq", QUERY)
    bad = write(tmp_path, "bad.xml", b"<bib>")
    good = write(tmp_path, "good.xml", BOOKS)
    ran = run("transform", "--query", query, bad, good)
    assert ran.status == 1
    assert "bad.xml: not-well-formed" in ran.err
    assert ran.out.startswith("<hit")
    ran = run("transform", "--query", query, "--format", "groups", bad, good)
    assert ran.status == 1
    assert json.loads(ran.out.splitlines()[0])["error"]["code"] == "not-well-formed"


def test_a_result_that_can_not_be_made(run: Run, tmp_path: Path) -> None:
    query = write(tmp_path, "q.xq", "<r>{for $b in //book return $b/@lang}</r>")
    twice = write(tmp_path, "twice.xml", b'<bib><book lang="a"/><book lang="b"/></bib>')
    ran = run("transform", "--query", query, twice)
    assert ran.status == 1
    assert "twice.xml: duplicate-attribute" in ran.err


def test_a_query_that_is_refused(run: Run, tmp_path: Path) -> None:
    document = write(tmp_path, "a.xml", BOOKS)
    ran = run(
        "transform", "--query", write(tmp_path, "q.xq", "for $b in //book retrun $b"), document
    )
    assert ran.status == 1
    assert "did you mean `return`?" in ran.err
    assert "Traceback" not in ran.err
    assert run("transform", "--query", write(tmp_path, "q.xq", "//book"), document).status == 2
    attribute = write(tmp_path, "q.xq", "for $b in //book return $b/@lang")
    assert run("transform", "--query", attribute, document).status == 1
    assert run("transform", "--query", attribute, "--format", "groups", document).status == 0

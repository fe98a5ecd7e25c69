import json
from pathlib import Path

import pytest

from tests.unit.command_line.conftest import Run

QUERIES = """
# filters on books
//book[price < 50]

   //book[@lang = "de"]
/bib/book/title
# the last one
not(//magazine)
"""
BOOKS = b'<bib><book lang="en"><title>A</title><price>40</price></book></bib>'


def write(directory: Path, name: str, content: str | bytes) -> Path:
    file = directory / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize(
    "options", [(), ("--engine", "yfilter", "--no-determinise"), ("--engine", "reference")]
)
def test_a_line_for_each_document(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    queries = write(tmp_path, "queries.txt", QUERIES)
    one = write(tmp_path, "one.xml", BOOKS)
    two = write(tmp_path, "two.xml", b"<bib><magazine/></bib>")
    ran = run("match", "--queries", queries, *options, one, two)
    assert ran.status == 0
    assert ran.out.splitlines() == [
        '{"document": "one.xml", "matches": [1, 3, 4]}',
        '{"document": "two.xml", "matches": []}',
    ]
    assert ran.err == ""


def test_refused_documents_are_reported_and_the_rest_go_on(run: Run, tmp_path: Path) -> None:
    queries = write(tmp_path, "queries.txt", QUERIES)
    bad = write(tmp_path, "bad.xml", b"<bib><book></bib>")
    good = write(tmp_path, "good.xml", BOOKS)
    ran = run("match", "--queries", queries, bad, tmp_path / "none.xml", good)
    assert ran.status == 1
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [each.get("error", {}).get("code") for each in records] == [
        "not-well-formed",
        "not-readable",
        None,
    ]
    assert records[2]["matches"] == [1, 3, 4]


def test_refused_queries_are_shown_and_keep_their_numbers(run: Run, tmp_path: Path) -> None:
    queries = write(tmp_path, "queries.txt", "//book[\n//bib\nfor $b in //b return $b\n//book")
    ran = run("match", "--queries", queries, write(tmp_path, "a.xml", BOOKS))
    assert ran.status == 1
    assert json.loads(ran.out)["matches"] == [2, 4]
    assert "queries.txt, line 1: query 1 is refused" in ran.err
    assert "1 | //book[" in ran.err
    assert "query 3 is a transformation" in ran.err


def test_equal_queries_each_have_their_number(run: Run, tmp_path: Path) -> None:
    queries = write(tmp_path, "queries.txt", "//bib\n//book\n // bib\n(//bib)")
    ran = run("match", "--queries", queries, write(tmp_path, "a.xml", b"<bib/>"))
    assert json.loads(ran.out)["matches"] == [1, 3, 4]


def test_a_directory_stands_for_its_documents(run: Run, tmp_path: Path) -> None:
    queries = write(tmp_path, "queries.txt", "//a")
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("b.xml", "a.xml", "c.txt"):
        write(documents, name, b"<a/>")
    ran = run("match", "--queries", queries, documents)
    assert [json.loads(line)["document"] for line in ran.out.splitlines()] == ["a.xml", "b.xml"]


def test_usage_errors_have_status_2(run: Run, tmp_path: Path) -> None:
    document = write(tmp_path, "a.xml", BOOKS)
    assert run("match", document).status == 2
    assert run("match", "--queries", tmp_path / "none.txt", document).status == 2
    assert run("match", "--queries", document, "--engine", "magic", document).status == 2
    assert run("mach").status == 2


def test_queries_that_are_not_utf_8(run: Run, tmp_path: Path) -> None:
    queries = write(tmp_path, "queries.txt", b"//a\xff\n//bib")
    ran = run("match", "--queries", queries, write(tmp_path, "a.xml", BOOKS))
    assert ran.status == 1
    assert "not-utf-8" in ran.err
    assert json.loads(ran.out)["matches"] == [2]


def test_standard_input_is_one_file(run: Run) -> None:
    ran = run("match", "--queries", "-", "-")
    assert ran.status == 2
    assert "standard input" in ran.err


def test_a_directory_without_documents_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run("match", "--queries", write(tmp_path, "q.txt", "//a"), empty).status == 2


def test_a_byte_order_mark_before_the_queries_is_passed_over(run: Run, tmp_path: Path) -> None:
    queries = write(tmp_path, "q.txt", b"\xef\xbb\xbf//bib\n")
    ran = run("match", "--queries", queries, write(tmp_path, "a.xml", BOOKS))
    assert json.loads(ran.out)["matches"] == [1]
    assert run("check", "--query", queries).status == 0


def test_a_file_whose_name_is_not_utf_8(run: Run, tmp_path: Path) -> None:
    name = b"\xff.xml".decode("utf-8", "surrogateescape")
    document = write(tmp_path, name, BOOKS)
    ran = run("match", "--queries", write(tmp_path, "q.txt", "//bib"), document)
    assert ran.status == 0
    assert '"matches": [1]' in ran.out

"""Every construct of XPath and XQuery that the language leaves out is refused by its name."""

from pathlib import Path

import pytest

from broker.errors import NotInLanguageError
from broker.query import parse
from tests.conftest import DATA


def cases(file: Path) -> list[tuple[str, str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ", 1) for line in lines if line and not line.startswith("#")]
    return [(name, query) for name, query in rows]


CASES = cases(DATA / "outside_the_language.txt")


@pytest.mark.parametrize(("construct", "query"), CASES, ids=[query for _, query in CASES])
def test_construct_is_refused_by_name(construct: str, query: str) -> None:
    with pytest.raises(NotInLanguageError) as caught:
        parse(query)
    assert caught.value.detail == f"{construct} is not in the subscription language"
    assert caught.value.code == "not-in-language"

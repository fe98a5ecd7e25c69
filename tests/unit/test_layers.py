"""The direction of imports: broker <- subscriptions <- streaming_jobs <- xmlbroker."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ["broker", "subscriptions", "streaming_jobs", "xmlbroker"]
OUTSIDE_BROKER = {"pyspark", "kafka", "py4j", "pyarrow", "pandas"}


def imports_of(package: str) -> Iterator[tuple[str, str]]:
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                for name in node.names:
                    yield str(file.relative_to(ROOT)), name.name.split(".")[0]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: imports are absolute here"
                yield str(file.relative_to(ROOT)), (node.module or "").split(".")[0]


@pytest.mark.parametrize("package", LAYERS)
def test_a_layer_imports_only_those_below_it(package: str) -> None:
    above = set(LAYERS[LAYERS.index(package) + 1 :])
    wrong = [(file, name) for file, name in imports_of(package) if name in above]
    assert wrong == []


def test_imports_are_seen() -> None:
    """Else the tests here could not fail."""
    assert ("xmlbroker/cli.py", "broker") in set(imports_of("xmlbroker"))


def test_the_broker_knows_neither_spark_nor_kafka() -> None:
    assert [each for each in imports_of("broker") if each[1] in OUTSIDE_BROKER] == []

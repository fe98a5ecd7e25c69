import json
import logging

import pytest

from xmlbroker.logs import configure_logging
from xmlbroker.settings import LogSettings


@pytest.fixture(autouse=True)
def _restore() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(format="json", level="info"))
    log = logging.getLogger("broker.engine")
    log.debug("not shown")
    log.info("built %d plans", 3, extra={"version": 7})
    try:
        raise ValueError("odd")
    except ValueError:
        log.exception("failed")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["built 3 plans", "failed"]
    assert (lines[0]["level"], lines[0]["logger"], lines[0]["version"]) == (
        "info",
        "broker.engine",
        7,
    )
    assert lines[0]["time"].endswith("+00:00")
    assert "ValueError: odd" in lines[1]["exception"]


def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(format="text"))
    logging.getLogger("broker").warning("slow")
    assert capsys.readouterr().err.endswith("WARNING broker: slow\n")


def test_auto_is_json_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings())
    logging.getLogger("broker").info("hello")
    assert json.loads(capsys.readouterr().err)["message"] == "hello"

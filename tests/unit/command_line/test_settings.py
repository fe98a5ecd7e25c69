import json
from pathlib import Path

import pytest

from tests.unit.command_line.conftest import Run
from tests.unit.command_line.test_match import write


def shown(run: Run, *options: str | Path) -> dict[str, tuple[str, str]]:
    ran = run(*options, "settings", "--json")
    assert ran.status == 0
    records = [json.loads(line) for line in ran.out.splitlines()]
    return {each["name"]: (each["value"], each["source"]) for each in records}


def test_defaults(run: Run) -> None:
    settings = shown(run)
    assert settings["query.max_steps"] == ("32", "default")
    assert settings["message.max_bytes"] == ("4194304", "default")
    assert {source for _, source in settings.values()} == {"default"}


def test_file_environment_and_command_line_in_rising_order(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        "xmlbroker.toml",
        "[query]\nmax_steps = 5\nmax_predicates = 6\n[log]\nlevel = 'error'\n",
    )
    monkeypatch.setenv("XMLBROKER_QUERY__MAX_STEPS", "7")
    monkeypatch.setenv("XMLBROKER_LOG__LEVEL", "debug")
    settings = shown(run, "--log-level", "warning")
    assert settings["query.max_steps"] == ("7", "environment")
    assert settings["query.max_predicates"] == ("6", "xmlbroker.toml")
    assert settings["log.level"] == ("warning", "command line")


def test_another_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, "other.toml", "[message]\ndoctype = 'refuse'\n")
    assert shown(run, "--config", file)["message.doctype"] == ("refuse", str(file))
    monkeypatch.setenv("XMLBROKER_CONFIG", str(file))
    assert shown(run)["message.doctype"] == ("refuse", str(file))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[query]\nmax_steps = 0\n", "query.max_steps: Input should be greater than"),
        (
            "[query]\nmax_step = 1\n",
            "query.max_step: there is no such setting; did you mean `query.max_steps`?",
        ),
        ("[qery]\nmax_steps = 1\n", "qery: there is no such setting; did you mean `query`?"),
        ("[query\n", "the settings can't be read"),
    ],
)
def test_wrong_settings_are_a_usage_error(
    run: Run, tmp_path: Path, content: str, says: str
) -> None:
    write(tmp_path, "xmlbroker.toml", content)
    ran = run("settings")
    assert ran.status == 2
    assert says in ran.err


def test_a_wrong_secret_is_not_shown(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "xmlbroker.toml", "[kafka]\nsasl_password = 12345\nzzz = 1\n")
    ran = run("settings")
    assert "kafka.sasl_password" in ran.err
    assert "12345" not in ran.err
    assert "kafka.zzz: there is no such setting; `xmlbroker settings` lists all" in ran.err


def test_table(run: Run) -> None:
    ran = run("settings")
    assert ran.status == 0
    assert "query.max_nesting" in ran.out
    assert "query-too-deep" in ran.out


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("XMLBROKER_QERY__MAX_STEPS", "XMLBROKER_QERY__MAX_STEPS is no setting"),
        ("XMLBROKER_QUERY", "query"),
    ],
)
def test_wrong_variables_are_a_usage_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, says: str
) -> None:
    monkeypatch.setenv(variable, "garbage")
    ran = run("settings")
    assert ran.status == 2
    assert says in ran.err

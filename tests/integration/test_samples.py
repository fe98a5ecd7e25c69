"""The samples are what the README says they are."""

import subprocess
import sys
from pathlib import Path

from broker.documents import ElementGraph, parse_message

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"


def test_the_demo_runs() -> None:
    """Kafka, Spark, a dozen subscriptions, and Saxon to say whether what arrived is right."""
    ran = subprocess.run(
        [sys.executable, "-m", "samples.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "arrived: yes" in ran.stdout
    assert "error[syntax]" in ran.stdout
    assert ran.stderr == ""


def test_sample_messages_conform_to_their_dtds() -> None:
    for feed in ("news", "orders"):
        graph = ElementGraph.load(SAMPLES / feed / f"{feed}.dtd")
        messages = sorted((SAMPLES / feed / "messages").glob("*.xml"))
        assert len(messages) > 1
        for file in messages:
            if file.stem != "broken":
                message = parse_message(file.read_bytes())
                assert list(graph.foreign_edges(message)) == [], file


def test_outputs_in_the_readme_are_what_is_printed() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for arguments in (
        ["transform", "--query", "samples/news/figures.xq", "samples/news/messages/morning.xml"],
        ["check", "--query", "samples/news/refused.xq"],
    ):
        assert f"$ .venv/bin/xmlbroker {' '.join(arguments)}\n" in readme
        ran = subprocess.run(
            [sys.executable, "-m", "xmlbroker", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"{ran.stdout}{ran.stderr}```\n" in readme
    assert (SAMPLES / "news" / "figures.xq").read_text(encoding="utf-8") in readme

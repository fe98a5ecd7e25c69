"""`deploy/Dockerfile`, taken apart, and what `.dockerignore` lets into a build."""

import json
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from dockerfile_parse import DockerfileParser

from tests.deploy.project import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


class Instruction(NamedTuple):
    """One instruction, of the stage that is counted from 0."""

    stage: int
    name: str
    value: str


def instructions(*names: str) -> list[Instruction]:
    """The instructions of these names, in their order."""
    with DOCKERFILE.open("rb") as file:
        structure = DockerfileParser(fileobj=file).structure
    found, stage = [], -1
    for each in structure:
        stage += each["instruction"] == "FROM"
        if each["instruction"] in names:
            found.append(Instruction(stage, each["instruction"], each["value"]))
    return found


def last(name: str) -> str:
    """What the last instruction of a name says: the image has that."""
    return instructions(name)[-1].value


def last_list(name: str) -> list[str]:
    """The same, where it is a command in brackets."""
    value = last(name)
    parts: list[str] = json.loads(value[value.index("[") :])
    return parts


def environment() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(
        pair.split("=", 1) for each in instructions("ENV") for pair in shlex.split(each.value)
    )


def make_context(directory: Path) -> None:
    """Copy what the build stage copies, if `.dockerignore` does not keep it out."""
    allowed = allowed_paths()
    for copy in instructions("COPY"):
        *sources, target = copy.value.split()
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert source in allowed, f"{source} is not in .dockerignore's list"
            to = directory / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, to)


def allowed_paths() -> set[str]:
    """The paths that `.dockerignore` names: it keeps out all others."""
    lines = (ROOT / ".dockerignore").read_text(encoding="ascii").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert rules[-1] == "**/__pycache__"
    assert all(rule.startswith("!") for rule in rules[1:-1])
    return {rule.removeprefix("!") for rule in rules[1:-1]}

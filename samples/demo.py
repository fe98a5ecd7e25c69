"""What `make demo` shows: the command line on the sample feeds, as you would type it."""

import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).parent
COMMANDS = Path(sys.executable).parent

STEPS = [
    (
        "Which filters take which news messages? One message is broken.",
        "news/filters.txt",
        "xmlbroker match --queries news/filters.txt news/messages",
        1,
    ),
    (
        "The same for orders, where everybody has other prefixes.",
        "orders/filters.txt",
        "xmlbroker match --queries orders/filters.txt orders/messages",
        0,
    ),
    (
        "A transformation: the sections with most figures first.",
        "news/figures.xq",
        "xmlbroker transform --query news/figures.xq news/messages/morning.xml",
        0,
    ),
    (
        "The same as groups of lists, for programs.",
        None,
        "xmlbroker transform --query news/figures.xq --format groups news/messages/evening.xml",
        0,
    ),
    (
        "Large order lines as invoice items, with prefixes of their own.",
        "orders/large-lines.xq",
        "xmlbroker transform --query orders/large-lines.xq orders/messages",
        0,
    ),
    (
        "Would this query be accepted, and what does it cost?",
        None,
        "xmlbroker check --query orders/large-lines.xq",
        0,
    ),
    (
        "And this one? It is refused, at the place that is wrong.",
        None,
        "xmlbroker check --query news/refused.xq",
        1,
    ),
]


def main() -> int:
    """Run all steps; 0 if each ended with the status that it should."""
    console = Console()
    wrong = 0
    for title, shown, command, expected in STEPS:
        console.rule(title)
        if shown is not None:
            text = (HERE / shown).read_text(encoding="utf-8")
            console.print(text, style="cyan", highlight=False, markup=False, soft_wrap=True)
        console.print(f"$ {command}", style="bold green", highlight=False, soft_wrap=True)
        arguments = shlex.split(command)
        ran = subprocess.run([COMMANDS / arguments[0], *arguments[1:]], cwd=HERE, check=False)
        note = "" if ran.returncode == expected else f", but {expected} was expected"
        wrong += bool(note)
        console.print(f"exit status {ran.returncode}{note}\n", style="dim" if not note else "red")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the terminal shows while the demo runs."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from samples.demo.inbox import Inbox, latencies, rate

Published = Mapping[str, int]
"""The place of each message, and when it was published, in milliseconds."""


class View:
    """A picture of all inboxes that changes on a terminal; elsewhere, lines."""

    def __init__(self) -> None:
        self.console = Console()
        self._live: Live | None = None

    def say(self, text: str, style: str = "") -> None:
        """A line of the story."""
        self.console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def begin(self, title: str) -> None:
        """The next chapter."""
        self.console.rule(title)

    def follow(self, inbox: Inbox, prefix: str, published: Published) -> None:
        """Show how things stand."""
        if not self.console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        self._live.update(picture(inbox, prefix, published))

    def rest(self, inbox: Inbox, prefix: str, published: Published) -> None:
        """Leave the last picture standing."""
        self.close()
        self.console.print(picture(inbox, prefix, published))

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def picture(inbox: Inbox, prefix: str, published: Published) -> Group:
    """How much goes through, each subscriber with what it got last, and the dead letters."""
    table = Table("subscriber", "subscription", "got", "last", expand=True)
    for topic in sorted(inbox.topics):
        letters = inbox.of(topic)
        if topic.endswith(".dead-letters"):
            continue
        subscriber = topic.removeprefix(f"{prefix}.out.")
        counts = Counter(letter.headers["xb-subscription"] for letter in letters)
        last = {letter.headers["xb-subscription"]: letter.value or b"" for letter in letters}
        for name, count in sorted(counts.items()):
            shown = Text(" ".join(last[name].decode().split()), overflow="ellipsis", no_wrap=True)
            table.add_row(subscriber, name.partition("/")[2], f"{count}", shown)
            subscriber = ""
    dead = Table("dead letter", "reason", "detail", expand=True)
    for letter in inbox.of(f"{prefix}.dead-letters"):
        detail = Text(letter.headers["xb-error-detail"], overflow="ellipsis", no_wrap=True)
        dead.add_row(letter.source, letter.headers["xb-error"], detail)
    delivered = [letter.milliseconds for letter in inbox.letters if "xb-id" in letter.headers]
    median, slowest = latencies(inbox.letters, published)
    line = (
        f"{len(published)} messages published ({rate(published.values()):.0f} a second), "
        f"{len(delivered)} results delivered ({rate(delivered):.0f} a second), "
        f"{median:.0f} ms after that (p99 {slowest:.0f} ms)"
    )
    return Group(line, table, dead)

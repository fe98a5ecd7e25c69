"""What an engine counts of its own work: plain numbers, which whoever runs it takes along.

Counting must cost next to nothing beside the work, so nothing here has a lock or a label.
"""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class CacheUse:
    """How often what is determinised of automata was at hand."""

    looked_up: int = 0
    """Label paths that messages asked for."""
    missed: int = 0
    """Those that were not at hand: the NFA is stepped for them."""


@dataclass(slots=True)
class EngineMetrics:
    """What an engine did since it was made."""

    parse_seconds: float = 0.0
    match_seconds: float = 0.0
    transform_seconds: float = 0.0
    serialise_seconds: float = 0.0
    parse_runs: int = 0
    """Messages that were parsed, or refused."""
    match_runs: int = 0
    """Messages that were matched."""
    transform_runs: int = 0
    """Distinct transformations that were answered, each once a message."""
    serialise_runs: int = 0
    """Outputs of the message factory; a filter's output is the message itself."""
    matches: int = 0
    """Distinct queries that had a result, summed over the messages."""
    bindings: int = 0
    """Groups that were made."""
    budget_overruns: int = 0
    """Results that were refused for their size."""
    dtd_fallbacks: int = 0
    """Messages that did not conform to the DTD, and were answered by the plan without it."""

    def totals(self) -> dict[str, float]:
        """All of it by name, to be compared with what it was before."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

"""Shared path matching: which filters take a message. One engine per file."""

from broker.matching.port import Description, Engine
from broker.matching.reference_engine import ReferenceEngine
from broker.matching.yfilter import YFilter

ENGINES = {"yfilter": YFilter, "reference": ReferenceEngine}
"""The engines by the names that the command line knows them by."""

__all__ = ["ENGINES", "Description", "Engine", "ReferenceEngine", "YFilter"]

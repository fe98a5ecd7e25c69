"""The subscription language: XPath filters and FLWR transformations.

`parse` reads a query, `unparse` writes its canonical text, `validate` charges it for its cost;
`check` does the first and the last, which is what a registration asks for.
"""

from broker.query.shapes import parse
from broker.query.syntax import Filter, Flwr, Query
from broker.query.unparse import unparse
from broker.query.validate import Cost, check, cost, validate

__all__ = ["Cost", "Filter", "Flwr", "Query", "check", "cost", "parse", "unparse", "validate"]

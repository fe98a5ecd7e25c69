"""WhereFilter: the tuples whose bound node passes a condition, by tree search (BROKER 3.1)."""

from broker.query import Flwr
from broker.query.syntax import Condition
from broker.reference import Evaluation
from broker.runtime.path_stream import Rows


def search(rows: Rows, condition: Condition, query: Flwr, evaluation: Evaluation) -> Rows:
    """Those that pass; paths are followed from the bound node, the last field."""
    passing: Rows = []
    for row in rows:
        evaluation.bind(query, row[-1])
        if evaluation.holds(condition, row[-1]):
            passing.append(row)
    return passing

"""WhereFilter: the tuples whose bound node passes a condition, by tree search (BROKER 3.1)."""

from broker.query import Flwr
from broker.query.syntax import Condition
from broker.reference import Evaluation
from broker.runtime.path_stream import Rows


def search(rows: Rows, condition: Condition, query: Flwr, evaluation: Evaluation) -> Rows:
    """Those that pass; paths are followed from the bound node, the last field."""
    passing: dict[int, bool] = {}
    for row in rows:
        node = row[-1]
        if node not in passing:
            evaluation.bind(query, node)
            passing[node] = evaluation.holds(condition, node)
    return [row for row in rows if passing[row[-1]]]

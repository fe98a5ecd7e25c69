"""ReturnSelect: the lists of a group by tree search from its bound node (BROKER 3.1)."""

from broker.plan.operators import Value
from broker.query import Flwr
from broker.reference import Evaluation
from broker.results import GroupList


def search(bound: list[int], value: Value, query: Flwr, evaluation: Evaluation) -> list[GroupList]:
    """One list for each bound node."""
    lists: list[GroupList] = []
    for node in bound:
        evaluation.bind(query, node)
        lists.append(evaluation.make_list(value))
    return lists

"""ReturnSelect: the lists of a group by tree search from its bound node (BROKER 3.1).

A search can be long, and there is one for each bound node, so they stop at the budget.
"""

from broker.list_budget import ListBudget
from broker.plan.operators import Value
from broker.query import Flwr
from broker.reference import Evaluation
from broker.results import GroupList


def search(
    bound: list[int],
    value: Value,
    query: Flwr,
    evaluation: Evaluation,
    budget: ListBudget,
) -> list[GroupList]:
    """One list for each bound node, or a `ResultError` if the result is over its budget."""
    lists: list[GroupList] = []
    for node in bound:
        evaluation.bind(query, node)
        found = evaluation.make_list(value)
        budget.take(found)
        lists.append(found)
    return lists

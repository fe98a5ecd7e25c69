"""ReturnSelect: the lists of a group by tree search from its bound node (BROKER 3.1).

A search can be long, and there is one for each bound node, so they stop at the budget.
"""

from broker.plan.operators import Value
from broker.query import Flwr
from broker.reference import Evaluation
from broker.results import GroupList, too_many_items


def search(
    bound: list[int],
    value: Value,
    query: Flwr,
    evaluation: Evaluation,
    *,
    items: int,
    max_items: int,
) -> list[GroupList]:
    """One list for each bound node, or a `ResultError`; other lists have so many items already."""
    lists: list[GroupList] = []
    for node in bound:
        evaluation.bind(query, node)
        found = evaluation.make_list(value)
        items += len(found)
        if items > max_items:
            raise too_many_items(max_items)
        lists.append(found)
    return lists

"""Selection: the tuples whose fields pass their tests."""

from broker.matching.value_index import Positions
from broker.plan.operators import FieldTest
from broker.query.syntax import LastTest, NameTest, PositionTest
from broker.reference import Evaluation
from broker.runtime.path_stream import Rows


def select(rows: Rows, tests: tuple[FieldTest, ...], evaluation: Evaluation) -> Rows:
    """The tuples that pass all tests; what a node passes is looked up once."""
    positions = Positions(evaluation.message)
    for test in tests:
        field = test.field - 1
        passing = {
            node: _passes(node, test, evaluation, positions)
            for node in {row[field] for row in rows}
        }
        rows = [row for row in rows if passing[row[field]]]
    return rows


def _passes(node: int, test: FieldTest, evaluation: Evaluation, positions: Positions) -> bool:
    if test.condition is not None:
        return evaluation.holds(test.condition, node)
    assert test.step is not None
    assert isinstance(test.step.test, NameTest)
    for predicate in test.step.predicates:
        if isinstance(predicate, PositionTest | LastTest):
            # The first of the predicates: it counts all that the step reaches from the parent.
            if not positions.hold(node, test.step.test, predicate):
                return False
        elif not evaluation.holds(predicate, node):
            return False
    return True

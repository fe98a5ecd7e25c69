"""Selection: the tuples whose fields pass their tests."""

from broker.matching.value_index import Positions
from broker.plan.operators import FieldTest
from broker.query.syntax import (
    CONTEXT,
    Comparison,
    Condition,
    LastTest,
    NameTest,
    Operator,
    Path,
    PositionTest,
)
from broker.reference import Evaluation
from broker.runtime.path_stream import Rows


def select(rows: Rows, tests: tuple[FieldTest, ...], evaluation: Evaluation) -> Rows:
    """The tuples that pass all tests; what a node passes is looked up once."""
    positions = Positions(evaluation.message)
    for test in tests:
        field = test.field - 1
        literal = _equal_text(test.condition)
        if literal is not None:
            # By far the most frequent test: a node's own value is a certain text.
            value_of = evaluation.message.string_value
            rows = [row for row in rows if value_of(row[field]) == literal]
            continue
        passing = {
            node: _passes(node, test, evaluation, positions)
            for node in {row[field] for row in rows}
        }
        rows = [row for row in rows if passing[row[field]]]
    return rows


def _equal_text(condition: Condition | None) -> str | None:
    """The text that a condition compares a node's own value with; None if it does more."""
    match condition:
        case Comparison(Path(start, (), None), Operator.EQ, str() as literal):
            return literal if start == CONTEXT else None
    return None


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

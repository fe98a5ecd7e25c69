"""What values mean: numbers in text, and comparisons with a literal.

Comparisons are those of XQuery over untyped data. A literal number compares as a number, and text
that is no number doesn't match (XQuery makes it an error); a literal string compares as a string,
by code points.
"""

import operator
import re
from collections.abc import Callable
from typing import Any

from broker.query.syntax import Literal, Operator

_DOUBLE = re.compile(
    r"[ \t\r\n]*+(?:([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
    r"|([+-]?INF)|(NaN))[ \t\r\n]*+"
)
"""The lexical form of xs:double, which XQuery reads untyped data as."""

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def to_number(text: str) -> float | None:
    """The number that text stands for, or None if it is none.

    >>> to_number(" 1e2 "), to_number("12 apples"), to_number("")
    (100.0, None, None)
    """
    match = _DOUBLE.fullmatch(text)
    if match is None:
        return None
    number, infinity, _ = match.groups()
    if number is not None:
        return float(number)
    if infinity is not None:
        return float("-inf" if infinity.startswith("-") else "inf")
    return float("nan")


def compare(value: str | float, comparison: Operator, literal: Literal) -> bool:
    """Whether `value op literal` holds. Values are text, or numbers from count() and the like.

    >>> compare("10", Operator.GT, 9.0), compare("10", Operator.GT, "9")
    (True, False)
    """
    if isinstance(value, str):
        if isinstance(literal, str):
            return _COMPARE[comparison](value, literal)
        number = to_number(value)
        return number is not None and _COMPARE[comparison](number, literal)
    if isinstance(literal, str):
        # A number compared with text: XQuery refuses it; here it is read as a number.
        other = to_number(literal)
        return other is not None and _COMPARE[comparison](value, other)
    return _COMPARE[comparison](value, literal)

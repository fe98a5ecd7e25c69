import math

import pytest

from broker.query.syntax import Operator
from broker.values import compare, to_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (" 1.50\n", 1.5),
        ("-.5", -0.5),
        ("5.", 5),
        ("+5", 5),
        ("1e2", 100),
        ("1E-2", 0.01),
        ("INF", math.inf),
        ("-INF", -math.inf),
        ("+INF", math.inf),
        ("", None),
        (" ", None),
        (".", None),
        ("1,5", None),
        ("0x10", None),
        ("1_000", None),
        ("inf", None),
        ("nan", None),
        ("infinity", None),
        ("١", None),
        ("1 2", None),
        ("--1", None),
        ("\xa01", None),
    ],
)
def test_numbers_in_text_are_those_of_xs_double(text: str, number: float | None) -> None:
    assert to_number(text) == number


def test_nan_is_unequal_to_all() -> None:
    assert math.isnan(to_number("NaN") or 0)
    assert compare("NaN", Operator.NE, 1.0)
    assert not any(compare("NaN", each, 1.0) for each in Operator if each is not Operator.NE)


def test_strings_compare_by_code_point() -> None:
    assert compare("Z", Operator.LT, "a")
    assert compare("é", Operator.GT, "z")
    assert compare("10", Operator.LT, "9")
    assert compare("\U00010000", Operator.GT, "\uffff")

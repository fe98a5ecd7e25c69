"""Reading queries by what was made of others that differ only in the literals of their `where`.

Thousands of subscribers ask the same of other values: `where $o/customer = "…"`. Such queries have
one *shape*, a text with places for literals, and it is parsed once: another query of it has the
same tree with other literals. Whatever follows from the shape alone, such as a plan, hangs on it.

The tree is the one that the parser would make, since

1. what is cut out of a text is a string without quotes and `&` in it, or a number; and in the query
   that was parsed, each of these is, from its first to its last character, the literal of a
   comparison or a string test of `where` itself;
2. all else is the same, character by character: so the parser would come to each literal in the
   same state, and go on after it in the same state. No rule of the grammar looks into a literal;
3. a query that was refused has no shape.

What differs is where things stand in the text: `span`s are those of the first query. So whoever
reports an error about a query that was read so has it parsed as a whole (`parse_whole`).
"""

import re
from collections.abc import Iterator
from threading import Lock

from broker.limits import QueryLimits
from broker.query.parser import DEFAULT_LIMITS, parse_whole, read_text
from broker.query.syntax import (
    And,
    Comparison,
    Condition,
    Filter,
    Flwr,
    Literal,
    Not,
    Or,
    Query,
    StringTest,
    conditions_with_literals,
)

_LITERAL = re.compile(
    r"""(?<!")"[^"&\r]*+"(?!")|(?<!')'[^'&\r]*+'(?!')"""
    r"""|(?<![^\s=<>])[0-9]{1,15}(?:\.[0-9]{1,15})?(?![^\s)])"""
)
"""What may be a literal; no other place in a text is the end of one that looks so."""

_MOST_SHAPES = 10_000
_MOST_CHARACTERS = 4_000_000
"""What is kept of shapes; the oldest go first. Hostile subscribers may have no two alike."""

Leaf = Comparison | StringTest


class Shape:
    """What queries have in common that differ only in literals. There is one object for each."""

    __slots__ = (
        "_places",
        "_text",
        "is_buildable",
        "is_valid",
        "limits",
        "query",
        "skeleton",
    )

    def __init__(
        self, query: Flwr, text: str, places: tuple[int, ...], limits: QueryLimits
    ) -> None:
        self.query = query
        """The one that was parsed."""
        self.limits = limits
        """Those that it is within."""
        self.skeleton = query.skeleton()
        self.is_valid = self.is_buildable = False
        """Whether its cost and its template have been found to be right."""
        self._text = text
        self._places = places
        """Which of the literals of `where` are cut out of the text."""

    def __len__(self) -> int:
        """How many characters are kept for it."""
        return len(self._text) + len(self.query.source)

    def with_literals(self, text: str, cut: list[str]) -> Flwr:
        """The query that has these in the place of its own."""
        known = self.query
        changed = list(known.literals)
        for place, literal in zip(self._places, cut, strict=True):
            changed[place] = _value(literal)
        literals = tuple(changed)
        where = None if known.where is None else _replaced(known.where, iter(literals))
        query = Flwr(
            known.binding,
            known.lets,
            where,
            known.order_by,
            known.template,
            known.wrapper,
            text,
            self,
            literals,
        )
        query.keep_hash(hash((self.skeleton, literals)))
        return query


class _Shapes:
    """The shapes that are known, by their texts."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self._characters = 0
        self._lock = Lock()

    def get(self, text: str, limits: QueryLimits) -> Shape | None:
        shape = self._shapes.get(text)
        if shape is None or (shape.limits is not limits and shape.limits != limits):
            return None
        return shape

    def add(self, text: str, shape: Shape) -> None:
        with self._lock:
            self._forget(text)
            self._shapes[text] = shape
            self._characters += len(shape)
            while len(self._shapes) > _MOST_SHAPES or self._characters > _MOST_CHARACTERS:
                self._forget(next(iter(self._shapes)))

    def _forget(self, text: str) -> None:
        shape = self._shapes.pop(text, None)
        if shape is not None:
            self._characters -= len(shape)


_shapes = _Shapes()


def parse(source: str | bytes, limits: QueryLimits = DEFAULT_LIMITS) -> Query:
    """The syntax tree of a query, or a `QueryError` at the first place that is wrong.

    >>> parse("//book[price < 50]").condition.path.steps[0].test.local
    'book'
    """
    text = read_text(source, limits)
    start = text.find("where")
    if start < 0:
        return parse_whole(text, limits)
    end = text.find("return", start)
    found = list(_LITERAL.finditer(text, start, end if end > 0 else len(text)))
    cut = [each.group() for each in found]
    shape_text = _without(text, found)
    shape = _shapes.get(shape_text, limits)
    if shape is not None:
        return shape.with_literals(text, cut)
    query = parse_whole(text, limits)
    if isinstance(query, Filter):
        return query
    places = _places(query, [each.span() for each in found])
    if places is None:
        return query
    shape = Shape(query, shape_text, places, limits)
    _shapes.add(shape_text, shape)
    return shape.with_literals(text, cut)


def _without(text: str, found: list[re.Match[str]]) -> str:
    """A text with only the first characters of what was found: a quote, or a zero for a number."""
    pieces: list[str] = []
    done = 0
    for each in found:
        start, end = each.span()
        first = text[start]
        pieces += (text[done:start], first if first in "\"'" else "0")
        done = end
    pieces.append(text[done:])
    return "\0".join(pieces)


def _value(literal: str) -> Literal:
    """What a literal says, as the parser reads it."""
    return literal[1:-1] if literal[0] in "\"'" else float(literal)


def _places(query: Flwr, spans: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """Which literals of `where` stand in some spans of the text; None if one of them is none."""
    text = query.source
    leaves = enumerate(conditions_with_literals(query.where))
    ends = {_end(leaf, text): number for number, leaf in leaves}
    places = []
    for start, end in spans:
        place = ends.get(end)
        if place is None or query.literals[place] != _value(text[start:end]):
            return None
        places.append(place)
    return tuple(places)


def _end(leaf: Leaf, text: str) -> int:
    """Where the literal of a condition ends."""
    end = leaf.span[1]
    return end if isinstance(leaf, Comparison) else len(text[: end - 1].rstrip(" \t\r\n"))


def _replaced(condition: Condition, literals: Iterator[Literal]) -> Condition:
    """A condition with other literals in the place of its own."""
    match condition:
        case Comparison(operand, operator, _, span):
            return Comparison(operand, operator, next(literals), span)
        case And(operands, span):
            return And(tuple([_replaced(each, literals) for each in operands]), span)
        case Or(operands, span):
            return Or(tuple([_replaced(each, literals) for each in operands]), span)
        case Not(operand, span):
            return Not(_replaced(operand, literals), span)
        case StringTest(function, path, _, span):
            literal = next(literals)
            assert isinstance(literal, str)
            return StringTest(function, path, literal, span)
    return condition
